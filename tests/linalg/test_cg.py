"""Conjugate gradients: per sample, equal to the textbook, and with the products it promises."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from paseo.linalg import cg, exact_gain, gain_cg
from paseo.linalg.cg import dot

F64 = torch.float64


class Counter:
    """A linear map that counts how often it is applied."""

    def __init__(self, matrix: Tensor) -> None:
        self.matrix, self.calls = matrix, 0

    def __call__(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x @ self.matrix.T


def matrix(q: int, d: int, seed: int = 0) -> Tensor:
    return torch.randn(q, d, generator=torch.Generator().manual_seed(seed), dtype=F64) / d**0.5


def system(q: int, d: int, trust: float, eta2: float, W: Tensor) -> tuple[Tensor, Tensor]:
    """J and the dense S = trust·I + η² W J Jᵀ W."""
    J = matrix(q, d)
    return J, trust * torch.eye(q, dtype=F64) + eta2 * torch.diag(W) @ J @ J.T @ torch.diag(W)


def textbook(S: Tensor, b: Tensor, budget: int) -> Tensor:
    """CG as it stands in the books, one right-hand side."""
    v, r = torch.zeros_like(b), b.clone()
    p = r.clone()
    for _ in range(budget):
        a = (r @ r) / (p @ S @ p)
        v, r_new = v + a * p, r - a * S @ p
        p, r = r_new + (r_new @ r_new) / (r @ r) * p, r_new
    return v


def test_solves_the_dense_system() -> None:
    _, S = system(12, 20, 0.1, 2.0, torch.ones(12, dtype=F64))
    b = torch.randn(3, 12, dtype=F64, generator=torch.Generator().manual_seed(1))
    solve = cg(lambda u: u @ S, b, budget=40, tolerance=1e-12)
    torch.testing.assert_close(solve.v, torch.linalg.solve(S, b.T).T, rtol=1e-9, atol=1e-9)
    assert solve.residual is not None
    assert (solve.residual < 1e-11).all()


@pytest.mark.parametrize("budget", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("weighted", [False, True])
def test_gain_cg_returns_the_textbook_iterate_lifted(budget: int, weighted: bool) -> None:
    generator = torch.Generator().manual_seed(2)
    W = torch.rand(14, generator=generator, dtype=F64) if weighted else torch.ones(14, dtype=F64)
    J, S = system(14, 24, 0.05, 3.0, W)
    b = torch.randn(4, 14, dtype=F64, generator=generator)
    solve = gain_cg(
        lambda v: v @ J.T, lambda u: u @ J, W, b, eta2=3.0, trust=0.05, budget=budget, tolerance=0.0
    )
    expected = torch.stack([textbook(S, row, budget) for row in b]) * W @ J
    torch.testing.assert_close(solve.v, expected, rtol=1e-10, atol=1e-12)
    assert solve.iterations.tolist() == [budget] * 4


@pytest.mark.parametrize("budget", [1, 2, 3, 5])
@pytest.mark.parametrize("report", [False, True])
def test_products_of_the_lean_solve(budget: int, report: bool) -> None:
    M = matrix(16, 16)
    J, JT = Counter(M), Counter(M.T)
    b = torch.randn(2, 16, dtype=F64)
    solve = gain_cg(
        J, JT, torch.ones((), dtype=F64), b, eta2=1.0, trust=1e-3, budget=budget, tolerance=0.0, report=report
    )
    assert JT.calls == budget
    assert J.calls == budget - (0 if report else 1)  # the last residual costs the JVP that was saved
    assert (solve.residual is not None) is report


def test_reported_residual_is_the_residual() -> None:
    W = torch.ones(10, dtype=F64)
    J, S = system(10, 10, 0.01, 1.0, W)
    b = torch.randn(3, 10, dtype=F64, generator=torch.Generator().manual_seed(4))
    solve = gain_cg(
        lambda v: v @ J.T, lambda u: u @ J, W, b, eta2=1.0, trust=0.01, budget=3, tolerance=0.0, report=True
    )
    v = torch.stack([textbook(S, row, 3) for row in b])
    expected = (b - v @ S).norm(dim=1) / b.norm(dim=1)
    assert solve.residual is not None
    torch.testing.assert_close(solve.residual, expected, rtol=1e-9, atol=0.0)
    plain = cg(lambda u: u @ S, b, budget=3, tolerance=0.0)
    torch.testing.assert_close(plain.residual, expected, rtol=1e-9, atol=0.0)


@pytest.mark.parametrize("name", ["cg", "gain_cg"])
def test_members_of_a_batch_do_not_know_each_other(name: str) -> None:
    """Systems of very different difficulty: an easy one stops early, which changes no other."""
    scale = torch.tensor([1e-9, 1.0, 40.0], dtype=F64).view(3, 1)  # one Jacobian per sample
    M = matrix(9, 9, seed=5)
    b = torch.randn(3, 9, dtype=F64, generator=torch.Generator().manual_seed(6))

    def run(keep: slice) -> tuple[Tensor, Tensor]:
        s = scale[keep]
        if name == "cg":
            solve = cg(lambda u: 0.1 * u + s**2 * (u @ M @ M.T), b[keep], budget=6)
        else:
            one = torch.ones((), dtype=F64)
            solve = gain_cg(
                lambda v: s * (v @ M.T), lambda u: s * (u @ M), one, b[keep], eta2=1.0, trust=0.1, budget=6
            )
        return solve.v, solve.iterations

    together, used = run(slice(0, 3))
    assert used.tolist() == [1, 6, 6]
    for i in range(3):
        alone, used_alone = run(slice(i, i + 1))
        torch.testing.assert_close(together[i : i + 1], alone, rtol=1e-12, atol=1e-14)
        assert used_alone.item() == used[i].item()


def test_a_right_hand_side_of_zero() -> None:
    M = matrix(5, 7)
    b = torch.stack([torch.zeros(5, dtype=F64), torch.ones(5, dtype=F64)])
    for rows, iterations in ((b, [0, 2]), (b[:1], [0])):
        solve = gain_cg(
            lambda v: v @ M.T, lambda u: u @ M, torch.ones((), dtype=F64), rows, eta2=1.0, trust=1.0, budget=2
        )
        assert solve.iterations.tolist() == iterations
        assert torch.equal(solve.v[0], torch.zeros(7, dtype=F64))
        assert torch.isfinite(solve.v).all()


def test_stops_at_the_tolerance() -> None:
    S = torch.diag(torch.tensor([1.0, 1.0, 4.0], dtype=F64))  # two eigenvalues: two iterations are exact
    solve = cg(lambda u: u @ S, torch.ones(1, 3, dtype=F64), budget=50)
    assert solve.iterations.item() == 2


def test_exact_gain_agrees_with_a_converged_cg() -> None:
    M = matrix(6, 9)
    b = torch.randn(2, 6, dtype=F64, generator=torch.Generator().manual_seed(7))

    def closed_form(b: Tensor, trust: float, eta2: float) -> Tensor:
        return torch.linalg.solve(trust * torch.eye(6, dtype=F64) + eta2 * M @ M.T, b.T).T

    one = torch.ones((), dtype=F64)
    exact = exact_gain(
        closed_form, lambda v: v @ M.T, lambda u: u @ M, one, b, eta2=2.0, trust=0.3, report=True
    )
    iterated = gain_cg(
        lambda v: v @ M.T, lambda u: u @ M, one, b, eta2=2.0, trust=0.3, budget=6, tolerance=0.0
    )
    torch.testing.assert_close(exact.v, iterated.v, rtol=1e-10, atol=1e-10)
    assert exact.residual is not None
    assert (exact.residual < 1e-12).all()


def test_dot_is_per_sample() -> None:
    a = torch.arange(12.0).view(2, 2, 3)
    assert torch.equal(dot(a, a), torch.tensor([55.0, 451.0]).view(2, 1, 1))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1e300])
def test_what_is_not_finite_does_not_pass_for_solved(bad: float) -> None:
    """1e300 is finite, but its square is not."""
    b = torch.ones(2, 3, dtype=F64)
    b[1, 0] = bad
    one = torch.ones((), dtype=F64)
    for solve in (
        cg(lambda u: 2.0 * u, b, budget=3),
        gain_cg(lambda v: v, lambda u: u, one, b, eta2=1.0, trust=1.0, budget=3),
    ):
        assert torch.isfinite(solve.v[0]).all()
        assert not torch.isfinite(solve.v[1]).all()
