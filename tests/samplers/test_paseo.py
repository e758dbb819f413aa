"""PASEO: Algorithm 2 written out with matrices, its switches, and what it promises about samples, calls and
inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from paseo.base import Counted, Prior, Problem, Step
from paseo.errors import BadInput, Cancelled
from paseo.noise import Noise
from paseo.operators.exact import LatentBlur, LatentMask, LatentMatrix
from paseo.priors import GaussianPrior, as_flow, as_ve, as_vp
from paseo.samplers import PASEO
from paseo.samplers.anchor import coefficients
from paseo.schedule import VP, Flow, SD3Flow, grid
from samplers.small import F64, Counting, D, Q, Smooth, conv_problem, normal, prior, problem


def jacobian(H: Callable[[Tensor], Tensor], z: Tensor) -> Tensor:
    return torch.autograd.functional.jacobian(lambda v: H(v[None])[0], z)


def textbook_cg(S: Tensor, b: Tensor, budget: int) -> Tensor:
    v, r = torch.zeros_like(b), b.clone()
    p = r.clone()
    for _ in range(budget):
        a = (r @ r) / (p @ S @ p)
        v, new = v + a * p, r - a * S @ p
        p, r = new + (new @ new) / (r @ r) * p, new
    return v


def algorithm_2(s: PASEO, model: Prior, H: Callable[[Tensor], Tensor], y: Tensor, noise: Noise) -> Tensor:
    """The paper's reference algorithm for one sample, line by line, with dense Jacobians and W = I."""
    points = grid(model.schedule, s.steps, s.eta)
    eta_min = min(p.eta / p.alpha for p in points[1:-1])

    def white(like: Tensor) -> Tensor:
        return noise.like(like[None])[0]

    def x0(x: Tensor, t: float) -> Tensor:
        return model.x0(x[None], t)[0]

    x = white(torch.zeros(D, dtype=F64)) * points[0].scale
    for k, (t, p) in enumerate(pairwise(points[:-1])):
        clean = x0(x, t.t)
        m = p.alpha * clean + math.sqrt(p.sigma**2 - p.eta**2) * (x - t.alpha * clean) / t.sigma
        late = k >= (s.steps - 1) // 2  # of steps − 2 in all, the second half
        proxy = m + (s.late_noise if late else 1.0) * p.eta * white(x)
        noise_estimate = (proxy - p.alpha * x0(proxy, p.t)) / p.sigma
        mu, width = (m - p.sigma * noise_estimate) / p.alpha, p.eta / p.alpha
        z = (proxy - p.sigma * noise_estimate) / p.alpha
        y_tilde = y + s.operator_noise * white(y)
        mu_tilde = mu + width * white(x)
        beta = eta_min / width
        for _ in range(s.inner_steps):
            anchor = mu + math.sqrt(1 - beta**2) * (z - mu) + beta * (mu_tilde - mu)
            J = jacobian(H, z)
            b = y_tilde - H(z[None])[0] - J @ (anchor - z)
            S = (s.operator_noise**2 + s.damping) * torch.eye(Q, dtype=F64) + width**2 * J @ J.T
            v = textbook_cg(S, b, s.cg_budget) if s.cg_budget else torch.linalg.solve(S, b)
            z = z + s.relaxation * (anchor + width**2 * J.T @ v - z)
        x = p.alpha * z + p.sigma * noise_estimate
    return x0(x, points[-2].t)


@pytest.mark.parametrize("inner", [1, 3])
@pytest.mark.parametrize("budget", [1, 2, 3])
def test_equals_algorithm_2_with_matrices(inner: int, budget: int) -> None:
    sampler = PASEO(
        steps=9,
        inner_steps=inner,
        cg_budget=budget,
        relaxation=0.6,
        damping=0.01,
        operator_noise=0.1,
        cg_tolerance=0.0,
    )
    task = problem(1)
    expected = algorithm_2(sampler, prior(), task.operator, task.y_z[0], Noise(4))
    torch.testing.assert_close(sampler(prior(), task, Noise(4))[0], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("steps", [8, 9, 10])
def test_late_noise_cools_the_second_half_of_the_steps_and_nothing_else(steps: int) -> None:
    sampler = PASEO(steps=steps, operator_noise=0.1, cg_tolerance=0.0, late_noise=0.6)
    task = problem(1)
    expected = algorithm_2(sampler, prior(), task.operator, task.y_z[0], Noise(4))
    found = sampler(prior(), task, Noise(4))
    torch.testing.assert_close(found[0], expected, rtol=1e-9, atol=1e-9)
    assert not torch.equal(found, replace(sampler, late_noise=1.0)(prior(), task, Noise(4)))


@pytest.mark.parametrize("budget", [1, 2, 3, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_lean_correction_equals_the_textbook_one(budget: int, weighted: bool) -> None:
    H, z, z_a, y = Smooth(), normal(2, D), normal(2, D, seed=1), normal(2, Q, seed=2)
    w = torch.rand(Q, dtype=F64) if weighted else torch.ones(Q, dtype=F64)
    sampler = PASEO(cg_budget=budget, operator_noise=0.2, damping=0.03, cg_tolerance=0.0)
    found = sampler.correct(H, z, z_a, y, 1.7, w, Noise([0, 1]))
    for i in range(2):
        J, W = jacobian(H, z[i]), torch.diag(w)
        b = W @ (y[i] - H(z[i : i + 1])[0] - J @ (z_a[i] - z[i]))
        S = (0.2**2 + 0.03) * torch.eye(Q, dtype=F64) + 1.7**2 * W @ J @ J.T @ W
        expected = z_a[i] + 1.7**2 * J.T @ W @ textbook_cg(S, b, budget)
        torch.testing.assert_close(found[i], expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("budget", [1, 2, 3])
@pytest.mark.parametrize("inner", [1, 2])
def test_products_per_correction(budget: int, inner: int) -> None:
    """One value, the residual's JVP, C VJPs and C − 1 JVPs of the solve."""
    counting = Counting(Smooth())
    sampler = PASEO(steps=7, inner_steps=inner, cg_budget=budget, cg_tolerance=0.0)
    sampler(prior(), problem(2, counting), Noise([0, 1]))
    corrections = 5 * inner
    assert counting.values == corrections
    assert counting.jvps == corrections * (1 + budget - 1)
    assert counting.vjps == corrections * budget


@pytest.mark.parametrize("anchor", ["arc", "fresh", "denoiser", "linear", "noisy"])
@pytest.mark.parametrize("weight", ["ones", "soft"])
def test_a_sample_alone_equals_the_same_sample_in_a_batch(anchor: Any, weight: Any) -> None:
    sampler = PASEO(steps=8, anchor=anchor, weight=weight, inner_steps=2, relaxation=0.5)
    together = sampler(prior(), problem(3), Noise([5, 6, 7]))
    for i in range(3):
        task = problem(3)
        one = replace(task, y=task.y[i : i + 1], y_z=task.y_z[i : i + 1], latent_shape=(1, D))
        torch.testing.assert_close(
            sampler(prior(), one, Noise(5 + i)), together[i : i + 1], rtol=1e-8, atol=1e-8
        )


@pytest.mark.parametrize("weight", ["ones", "soft", "fixed", "mask"])
def test_batch_independence_of_every_weight_on_images(weight: Any) -> None:
    seen = torch.ones(2, 1, 6, 6, dtype=F64)
    seen[1, :, 2:4] = 0.0
    model, task = conv_problem(2, observed=seen)
    sampler = PASEO(steps=6, weight=weight, operator_noise=0.1)
    together = sampler(model, task, Noise([1, 2]))
    second = replace(task, y=task.y[1:], y_z=task.y_z[1:], observed=seen[1:])
    torch.testing.assert_close(sampler(model, second, Noise(2)), together[1:], rtol=1e-8, atol=1e-8)


def test_same_seed_same_result_and_another_seed_another() -> None:
    sampler, task = PASEO(steps=8), problem(1)
    a, b, c = (sampler(prior(), task, Noise(seed)) for seed in (3, 3, 4))
    assert torch.equal(a, b)
    assert not torch.allclose(a, c)


@pytest.mark.parametrize(("steps", "nfe"), [(3, 3), (28, 53), (50, 97)])
def test_nfe(steps: int, nfe: int) -> None:
    counted = Counted(prior())
    sampler = PASEO(steps=steps)
    sampler(counted, problem(2), Noise([0, 1]))
    assert counted.nfe == sampler.nfe == nfe


def test_watch_sees_every_step_once_and_no_trace_unasked() -> None:
    seen: list[Step] = []
    result = PASEO(steps=8)(prior(), problem(2), Noise([0, 1]), seen.append)
    assert [s.index for s in seen] == list(range(6))
    assert {s.total for s in seen} == {6}
    assert all(s.trace == {} for s in seen)
    last = seen[-1]
    torch.testing.assert_close(result, prior().x0(last.x, last.point.t))


@pytest.mark.parametrize("budget", [2, None])
def test_trace_when_asked_for(budget: int | None) -> None:
    class Listener:
        wants_trace = True

        def __init__(self) -> None:
            self.steps: list[Step] = []

        def __call__(self, step: Step) -> None:
            self.steps.append(step)

    operator, listener = LatentMatrix(normal(Q, D)), Listener()
    sampler = PASEO(steps=6, inner_steps=2, cg_budget=budget, cg_tolerance=0.0, operator_noise=0.1)
    traced = sampler(prior(), problem(3, operator), Noise([0, 1, 2]), listener)
    assert torch.equal(
        traced, sampler(prior(), problem(3, operator), Noise([0, 1, 2]))
    )  # watching changes nothing
    for step in listener.steps:
        assert set(step.trace) == {"eta_z", "iterations", "residual", "step_norm"}
        assert [len(v) for v in step.trace.values()] == [2, 2, 2, 2]
        assert step.trace["eta_z"] == [step.point.eta_z] * 2
        assert step.trace["iterations"] == [[budget or 0] * 3] * 2
        residuals = torch.tensor(step.trace["residual"])
        assert residuals.shape == (2, 3)
        assert (residuals < 1e-9).all() if budget is None else (residuals > 1e-9).all()


def test_a_hook_can_stop_the_run() -> None:
    def stop(step: Step) -> None:
        if step.index == 2:
            raise Cancelled("enough")

    counted = Counted(prior())
    with pytest.raises(Cancelled):
        PASEO(steps=8)(counted, problem(1), Noise(0), stop)
    assert counted.nfe == 6


def test_inputs_are_untouched_and_no_graph_is_left() -> None:
    class Watching:
        """A prior that says whether gradients were on when it was called."""

        schedule = Flow()

        def __init__(self) -> None:
            self.modes: set[bool] = set()

        def x0(self, x: Tensor, t: float) -> Tensor:
            self.modes.add(torch.is_grad_enabled() or x.requires_grad)
            return prior().x0(x, t)

    watching, task = Watching(), problem(2)
    before = task.y_z.clone()
    with torch.enable_grad():
        result = PASEO(steps=6)(watching, task, Noise([0, 1]))
    assert watching.modes == {False}
    assert torch.equal(task.y_z, before)
    assert not result.requires_grad


def test_half_precision_measurements_are_solved_in_float32() -> None:
    model = GaussianPrior.white((D,))
    y = normal(1, Q).to(torch.bfloat16)
    task = Problem(y=y, y_z=y, sigma_y=0.0, operator=LatentMatrix(normal(Q, D).float()), latent_shape=(1, D))
    result = PASEO(steps=6)(model, task, Noise(0))
    assert result.dtype == torch.float32
    expected = PASEO(steps=6)(model, replace(task, y_z=y.float()), Noise(0))
    assert torch.equal(result, expected)


def test_runs_inside_inference_mode() -> None:
    task = problem(1)
    expected = PASEO(steps=6)(prior(), task, Noise(0))
    with torch.inference_mode():
        found = PASEO(steps=6)(prior(), task, Noise(0))
    torch.testing.assert_close(found.clone(), expected)


def test_anchor_coefficients() -> None:
    for beta in (0.0, 0.25, 1.0):
        c1, c2 = coefficients("arc", beta)
        assert c1**2 + c2**2 == pytest.approx(1.0)
        assert c2 == beta
        assert coefficients("linear", beta) == (1.0 - beta, beta)
    assert coefficients("fresh", 0.3) == (0.0, 1.0)
    assert coefficients("denoiser", 0.3) == (1.0, 0.0)
    assert coefficients("noisy", 0.3) == (1.0, 1.0)


class Spy(PASEO):
    """PASEO that keeps the arguments of its corrections."""

    def correct(
        self,
        H: Any,
        z: Tensor,
        z_a: Tensor,
        y_tilde: Tensor,
        eta_z: float,
        W: Any,
        noise: Noise,
        *rest: Any,
    ) -> Tensor:
        star = super().correct(H, z, z_a, y_tilde, eta_z, W, noise, *rest)
        CALLS.append({"z": z, "z_a": z_a, "y_tilde": y_tilde, "eta_z": eta_z, "star": star})
        return star


CALLS: list[dict[str, Any]] = []


def calls(**settings: Any) -> list[dict[str, Any]]:
    CALLS.clear()
    Spy(steps=7, inner_steps=2, relaxation=0.5, operator_noise=0.1, **settings)(
        prior(), problem(2), Noise([0, 1])
    )
    return list(CALLS)


def test_anchors_follow_the_current_estimate() -> None:
    """The same seeds give the same μ_z and μ̃_z at the first step, so the anchors can be compared there."""
    first = {anchor: calls(anchor=anchor)[:2] for anchor in ("denoiser", "fresh", "arc", "linear", "noisy")}
    mean = calls(anchor="fresh", perturb_prior=False)[0]["z_a"]  # μ_z
    widths = [s.eta_z for s in grid(Flow(), 7, "ddpm")[1:-1]]
    beta = min(widths) / widths[0]
    z, mu_tilde = first["fresh"][0]["z"], first["fresh"][0]["z_a"]
    torch.testing.assert_close(first["denoiser"][0]["z_a"], z)
    torch.testing.assert_close(
        first["arc"][0]["z_a"], mean + math.sqrt(1 - beta**2) * (z - mean) + beta * (mu_tilde - mean)
    )
    torch.testing.assert_close(
        first["linear"][0]["z_a"], mean + (1 - beta) * (z - mean) + beta * (mu_tilde - mean)
    )
    torch.testing.assert_close(first["noisy"][0]["z_a"], z + mu_tilde - mean)
    torch.testing.assert_close(first["fresh"][1]["z_a"], mu_tilde)  # stays where it is
    second = first["arc"][1]  # recomputed from the new estimate, with the same fresh draw
    torch.testing.assert_close(second["z"], z + 0.5 * (first["arc"][0]["star"] - z))
    torch.testing.assert_close(
        second["z_a"], mean + math.sqrt(1 - beta**2) * (second["z"] - mean) + beta * (mu_tilde - mean)
    )


def test_arc_ends_at_the_fresh_anchor() -> None:
    last = calls(anchor="arc")[-2]
    widths = [s.eta_z for s in grid(Flow(), 7, "ddpm")[1:-1]]
    assert last["eta_z"] == min(widths) == widths[-1]
    assert coefficients("arc", min(widths) / last["eta_z"]) == (0.0, 1.0)


def test_start_and_perturbations() -> None:
    proxy, mean = calls(anchor="fresh")[0], calls(anchor="fresh", start="mean")[0]
    quiet = calls(anchor="fresh", perturb_prior=False, perturb_measurement=False)[0]
    torch.testing.assert_close(mean["z"], quiet["z_a"])  # μ_z
    assert not torch.allclose(proxy["z"], mean["z"])
    torch.testing.assert_close(quiet["y_tilde"], problem(2).y_z)
    noise = (proxy["y_tilde"] - problem(2).y_z) / 0.1
    torch.testing.assert_close(
        calls(anchor="fresh", perturb_prior=False)[0]["y_tilde"], proxy["y_tilde"]
    )  # streams stay paired
    assert 0.1 < noise.std() < 3.0


def test_the_proxy_s_clean_latent_is_mu_plus_eta_times_the_bridge_noise() -> None:
    """z⁰ = μ_z + η_z w' (the paper's identity): w' is the second draw of each stream."""
    noise = Noise([0, 1])
    noise.normal((2, D))
    w = noise.normal((2, D)).double()
    first, mean = calls(anchor="fresh")[0], calls(anchor="fresh", perturb_prior=False)[0]["z_a"]
    torch.testing.assert_close(first["z"], mean + first["eta_z"] * w, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("budget", [2, None])
def test_fresh_anchor_is_the_closed_form(budget: int | None) -> None:
    """With a linear H the correction from μ̃ does not depend on where it is expanded."""
    H, y, mu_tilde = LatentMatrix(normal(Q, D)), normal(2, Q, seed=2), normal(2, D, seed=3)
    sampler = PASEO(cg_budget=budget, operator_noise=0.3, cg_tolerance=0.0)
    one = torch.ones((), dtype=F64)
    a, b = (sampler.correct(H, normal(2, D, seed=s), mu_tilde, y, 2.0, one, Noise([0, 1])) for s in (4, 5))
    torch.testing.assert_close(a, b)
    if budget is None:
        S = 0.3**2 * torch.eye(Q, dtype=F64) + 4.0 * H.H @ H.H.T
        torch.testing.assert_close(
            a, mu_tilde + 4.0 * torch.linalg.solve(S, (y - mu_tilde @ H.H.T).T).T @ H.H
        )


def test_a_mask_is_solved_in_two_iterations() -> None:
    """M has two eigenvalues, so CG ends after two, whatever its budget."""

    class Listener:
        wants_trace = True
        iterations: list[int] = []  # noqa: RUF012

        def __call__(self, step: Step) -> None:
            self.iterations += step.trace["iterations"][0]

    model, y = GaussianPrior.natural((2, 8, 8)), normal(2, 2, 8, 8)
    task = Problem(y=y, y_z=y, sigma_y=0.0, operator=LatentMask.holes((8, 8), hidden=0.25))
    listener = Listener()
    long = PASEO(steps=8, cg_budget=16, operator_noise=0.05)(model, task, Noise([0, 1]), listener)
    assert max(listener.iterations) == 2
    exact = PASEO(steps=8, cg_budget=None, operator_noise=0.05)(model, task, Noise([0, 1]))
    torch.testing.assert_close(long, exact, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("schedule", [SD3Flow(), VP()], ids=repr)
@pytest.mark.parametrize("view", [as_flow, as_vp, as_ve], ids=lambda f: f.__name__)
def test_the_same_run_in_every_view(schedule: Any, view: Callable[[Prior], Prior]) -> None:
    """η by the DDPM rule scales with the state, so flow, VP and VE make one run."""
    native, task = prior(schedule), problem(2)
    sampler = PASEO(steps=12, inner_steps=2, relaxation=0.7, operator_noise=0.1)
    a, b = sampler(native, task, Noise([0, 1])), sampler(view(native), task, Noise([0, 1]))
    torch.testing.assert_close(b, a, rtol=1e-6, atol=1e-6)


def test_a_shift_replaces_the_grid_on_any_prior() -> None:
    """Shift 1 is the uniform flow grid, and shift 3 visits the same levels on VP and flow priors."""
    task, noise = problem(2), Noise([0, 1])
    plain = PASEO(steps=12, operator_noise=0.1)
    own, one = (s(prior(Flow()), task, Noise([0, 1])) for s in (plain, replace(plain, shift=1.0)))
    torch.testing.assert_close(one, own, rtol=1e-9, atol=1e-9)
    three = replace(plain, shift=3.0)
    flow = three(prior(Flow()), task, noise)
    assert not torch.allclose(flow, own)
    torch.testing.assert_close(three(as_vp(prior(Flow())), task, Noise([0, 1])), flow, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(plain(prior(Flow(3.0)), task, Noise([0, 1])), flow, rtol=1e-9, atol=1e-9)
    for bad in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(BadInput, match="shift"):
            PASEO(shift=bad)


def test_exact_solve_with_a_blur_equals_a_converged_cg() -> None:
    model, y = GaussianPrior.natural((1, 8, 8)), normal(1, 1, 8, 8)
    task = Problem(y=y, y_z=y, sigma_y=0.0, operator=LatentBlur.gaussian((8, 8), 0.6))
    sampler = PASEO(steps=6, cg_budget=None, operator_noise=0.2)
    exact = sampler(model, task, Noise(0))
    iterated = replace(sampler, cg_budget=200, cg_tolerance=1e-13)(model, task, Noise(0))
    torch.testing.assert_close(exact, iterated, rtol=1e-6, atol=1e-6)


def test_a_sampler_is_its_settings() -> None:
    gentle = replace(PASEO(), relaxation=0.1)
    assert gentle == PASEO(relaxation=0.1)
    assert gentle != PASEO()
    assert (PASEO().nfe, PASEO().cg_tolerance) == (53, 1e-5)


def test_a_broad_prior_gets_fewer_iterations() -> None:
    """One above cg_broad, one more with every halving of η_z, never more than C; None spends C everywhere."""
    sampler = PASEO(cg_budget=4, cg_broad=2.0)
    widths = (8.0, 2.0, 1.9, 1.0, 0.9, 0.5, 0.4, 0.1, 1e-9)
    assert [sampler.iterations(w) for w in widths] == [1, 1, 2, 2, 3, 3, 4, 4, 4]
    assert {PASEO(cg_budget=4).iterations(w) for w in widths} == {4}
    assert PASEO(cg_budget=None, cg_broad=2.0).iterations(5.0) is None


def test_saved_iterations_are_saved_products() -> None:
    def products(broad: float | None) -> int:
        counting = Counting(Smooth())
        sampler = PASEO(steps=9, cg_budget=4, cg_tolerance=0.0, cg_broad=broad)
        sampler(prior(), problem(2, counting), Noise([0, 1]))
        return counting.vjps

    assert products(None) == products(1e6) == 7 * 4
    assert products(1e-6) == 7
    assert 7 < products(2.0) < 7 * 4
