"""Exact operators: adjoints, closed-form solves, and the chain E∘A∘D."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from paseo.errors import BadInput
from paseo.linalg import linearize
from paseo.operators.exact import Chain, LatentBlur, LatentMask, LatentMatrix, Linear

F64 = torch.float64
SHAPE = (3, 6, 8)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


OPERATORS: dict[str, Callable[[], Linear]] = {
    "mask": lambda: LatentMask.holes(SHAPE[1:], hidden=0.4),
    "soft mask": lambda: LatentMask(torch.rand(6, 8, dtype=F64)),
    "nothing": LatentMask.nothing,
    "blur": lambda: LatentBlur.gaussian((6, 8)),
    "asymmetric blur": lambda: LatentBlur.kernel(normal(6, 8)),
    "wide matrix": lambda: LatentMatrix(normal(11, 144), SHAPE),
    "tall matrix": lambda: LatentMatrix(normal(150, 144), SHAPE),
}


@pytest.fixture(params=list(OPERATORS))
def operator(request: pytest.FixtureRequest) -> Linear:
    return OPERATORS[request.param]()


def test_linear_with_its_adjoint(operator: Linear) -> None:
    z, v = normal(2, *SHAPE, seed=1), normal(2, *SHAPE, seed=2)
    h, J, JT = linearize(operator, z)
    u = normal(*h.shape, seed=3)
    torch.testing.assert_close(h, operator(z))
    torch.testing.assert_close(operator(2.0 * z - v), 2.0 * h - J(v))
    torch.testing.assert_close((J(v) * u).flatten(1).sum(1), (v * JT(u)).flatten(1).sum(1))
    assert JT(u).shape == z.shape


def test_solve_inverts(operator: Linear) -> None:
    b = operator(normal(2, *SHAPE, seed=1)) + 1.0
    v = operator.solve(b, 0.2, 3.0)
    torch.testing.assert_close(0.2 * v + 3.0 * operator(operator.adjoint(v)), b, rtol=1e-8, atol=1e-9)


def test_matrix_is_the_map(operator: Linear) -> None:
    z = normal(2, *SHAPE, seed=1)
    torch.testing.assert_close(z.flatten(1) @ operator.matrix(SHAPE).T, operator(z).flatten(1))


def test_float32_stays_float32(operator: Linear) -> None:
    z = normal(2, *SHAPE).float()
    assert operator(z).dtype == torch.float32
    assert operator.adjoint(operator(z)).dtype == torch.float32
    assert operator.solve(operator(z), 0.1, 1.0).dtype == torch.float32


def test_holes_hide_the_given_part_in_blocks() -> None:
    mask = LatentMask.holes((64, 64), hidden=0.2, cell=2, seed=3).mask
    assert 1.0 - mask.mean().item() == pytest.approx(0.2, abs=1 / 1024)
    blocks = F.avg_pool2d(mask[None, None], 2)
    assert set(blocks.unique().tolist()) == {0.0, 1.0}
    assert torch.equal(mask, LatentMask.holes((64, 64), seed=3).mask)
    assert not torch.equal(mask, LatentMask.holes((64, 64), seed=4).mask)


def test_gaussian_blur_is_a_circular_convolution() -> None:
    z = normal(1, 1, 8, 8)
    offsets = torch.tensor([0.0, 1, 2, 3, 4, -3, -2, -1], dtype=F64)
    kernel = torch.exp(-(offsets[:, None] ** 2 + offsets[None, :] ** 2) / 2)
    kernel = kernel / kernel.sum()
    expected = sum(kernel[i, j] * z.roll((i, j), (-2, -1)) for i in range(8) for j in range(8))
    torch.testing.assert_close(LatentBlur.gaussian((8, 8))(z), expected)


def test_the_paper_s_blur_keeps_one_percent_of_the_finest_band() -> None:
    gain = LatentBlur.gaussian((64, 64)).transfer.abs()
    f = (torch.fft.fftfreq(64)[:, None] ** 2 + torch.fft.fftfreq(64)[None, :] ** 2).sqrt()
    kept = [
        gain[(f >= a) & (f < b)].mean().item() for a, b in ((0, 0.1), (0.1, 0.3), (0.3, 0.4), (0.4, 0.75))
    ]
    assert kept == pytest.approx([0.91, 0.41, 0.09, 0.01], abs=0.005)


def test_what_cannot_be_an_operator() -> None:
    with pytest.raises(BadInput, match="from 0"):
        LatentMask(torch.tensor([2.0]))
    with pytest.raises(BadInput, match="do not fit a latent of 7×8"):
        LatentMask.holes((7, 8))
    with pytest.raises(BadInput, match=r"made for \(6, 8\) cells, got \(8, 8\)"):
        LatentBlur.gaussian((6, 8))(torch.zeros(1, 1, 8, 8))
    with pytest.raises(BadInput, match="5 columns does not fit"):
        LatentMatrix(torch.ones(2, 5), (2, 2))
    with pytest.raises(BadInput, match=r"finite \(q, d\) matrix"):
        LatentMatrix(torch.full((2, 2), float("nan")))


class Pool:
    """A two-by-two mean, lifted by repetition."""

    name, linear = "pool", True

    def __call__(self, x: Tensor) -> Tensor:
        return F.avg_pool2d(x, 2)

    def lift(self, y: Tensor, size: tuple[int, int] | None = None) -> Tensor:
        return y.repeat_interleave(2, -1).repeat_interleave(2, -2)

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        return height // 2, width // 2


class Toy:
    """A codec that is not linear."""

    factor = 1

    def encode(self, x: Tensor) -> Tensor:
        return x.atanh()

    def decode(self, z: Tensor) -> Tensor:
        return z.tanh()


def test_chain_is_the_composition_and_differentiable() -> None:
    chain, z = Chain(Toy(), Pool()), normal(2, *SHAPE)
    torch.testing.assert_close(chain(z), Pool().lift(F.avg_pool2d(z.tanh(), 2)).atanh())
    h, J, JT = linearize(chain, z)
    v, u = normal(2, *SHAPE, seed=1), normal(*h.shape, seed=2)
    torch.testing.assert_close(J(v), (chain(z + 1e-6 * v) - chain(z - 1e-6 * v)) / 2e-6, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close((J(v) * u).sum(), (v * JT(u)).sum())
