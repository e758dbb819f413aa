"""Recall: what it computes where secants are exact, and what it promises about samples, views, calls and
records.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from paseo.base import Counted, Step
from paseo.errors import BadInput
from paseo.noise import Noise
from paseo.operators.exact import LatentMatrix
from paseo.priors import GaussianPrior, as_flow, as_ve, as_vp
from paseo.samplers import PASEO
from paseo.samplers.recall import Recall, Secant, Seen, bounded, coefficients, combined
from paseo.schedule import VP, Flow, Point, SD3Flow
from samplers.small import F64, Counting, D, Q, Smooth, conv_problem, normal, prior, problem

ONE = torch.ones((), dtype=F64)
TRUST = 0.3**2


def gaussian() -> GaussianPrior:
    """N(μ, C) over R⁶ with a dense covariance."""
    root = normal(D, D, seed=3)
    return GaussianPrior.dense(normal(D, seed=4), root @ root.T + 0.2 * torch.eye(D, dtype=F64))


def precision(model: GaussianPrior, level: float) -> Tensor:
    """Cov[z | x]⁻¹ = C⁻¹ + I/L²."""
    return torch.linalg.inv(model.covariance.matrix()) + torch.eye(D, dtype=F64) / level**2


class Run:
    """A memory fed by hand: at each level a proxy, a correction in a chosen direction, and the denoiser's
    two answers.
    """

    def __init__(self, size: int, limit: float = 1e9, gain: float = 1.0) -> None:
        self.model, self.memory = gaussian(), Recall(size, limit, TRUST, gain)
        self.H = LatentMatrix(normal(Q, D))
        self.y = normal(1, Q, seed=5)

    def step(self, t: float, correction: Tensor) -> tuple[Tensor, Tensor, Point]:
        """(x̂₀′, recalled x̂₀, point) after one step that arrived at t."""
        s = self.model.schedule.point(t)
        x_pxy = s.alpha * normal(1, D, seed=6) + s.sigma * normal(1, D, seed=7)
        x0_pxy = self.model.x0(x_pxy, t)
        x1_pxy = (x_pxy - s.alpha * x0_pxy) / s.sigma
        x = x_pxy + s.alpha * correction
        self.memory.see(Seen(self.H, self.H, ONE, self.y, self.y - self.H(x0_pxy), None))
        self.memory.keep(x, x_pxy, x1_pxy, s)
        x0, x1 = self.memory.recall(x, self.model.x0(x, t), torch.zeros_like(x), s)
        torch.testing.assert_close(x1, x1_pxy)
        return x0_pxy, x0, s


def inside(run: Run, x0_pxy: Tensor, V: Tensor, level: float) -> Tensor:
    """argmin ‖y − H(x̂₀′ + V c)‖² + (r²+λ) ‖V c‖²_{Cov⁻¹}, by dense algebra; V is orthonormal."""
    HV = run.H.H @ V
    A = HV.T @ HV + TRUST * V.T @ precision(run.model, level) @ V
    return x0_pxy + (V @ torch.linalg.solve(A, HV.T @ (run.y - run.H(x0_pxy))[0]))[None]


def test_pairs_that_span_everything_give_the_posterior_mean_of_the_unfrozen_model() -> None:
    """E[z | x_pxy, ỹ] = x̂₀′ + Cov Hᵀ (H Cov Hᵀ + r²)⁻¹ (ỹ − H x̂₀′), which no frozen step can reach."""
    run, times = Run(D), (0.9, 0.8, 0.7, 0.6, 0.5, 0.4)
    basis = torch.linalg.qr(normal(D, D, seed=8)).Q
    for i, t in enumerate(times):
        scale = 1e-3 if i == D - 1 else 1.0  # a short last one, so that the lower limit is out of the way
        x0_pxy, x0, s = run.step(t, scale * basis[i : i + 1])
    cov = torch.linalg.inv(precision(run.model, s.level))
    gain = cov @ run.H.H.T @ torch.linalg.inv(run.H.H @ cov @ run.H.H.T + TRUST * torch.eye(Q, dtype=F64))
    torch.testing.assert_close(x0, x0_pxy + (run.y - run.H(x0_pxy)) @ gain.T, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_fewer_pairs_give_the_posterior_mean_inside_their_span(size: int) -> None:
    run, kept = Run(size), []
    for i, t in enumerate((0.9, 0.75, 0.6, 0.5)):
        x0_pxy, x0, s = run.step(t, 10.0 ** -(i == 3) * normal(1, D, seed=20 + i))
        kept.append(run.memory.pairs[-1].d[0])
    V = torch.linalg.qr(torch.stack(kept[-size:], 1)).Q
    torch.testing.assert_close(x0, inside(run, x0_pxy, V, s.level), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("gain", [0.5, 1.3])
def test_gain_is_the_length_of_the_recalled_step(gain: float) -> None:
    plain, longer = Run(2), Run(2, gain=gain)
    for i, t in enumerate((0.9, 0.7)):
        tiny = 1e-3 * normal(1, D, seed=20 + i)  # far below the step, so that no limit is met
        (x0_pxy, x0, _), (_, other, _) = plain.step(t, tiny), longer.step(t, tiny)
        torch.testing.assert_close(other - x0_pxy, gain * (x0 - x0_pxy))


def test_pairs_stay_exact_from_level_to_level() -> None:
    run = Run(4)
    for i, t in enumerate((0.95, 0.8, 0.5, 0.2)):
        _, _, s = run.step(t, normal(1, D, seed=30 + i))
        for pair in run.memory.pairs:
            torch.testing.assert_close(pair.D / s.level**2, pair.d @ precision(run.model, s.level))
            torch.testing.assert_close(pair.w, run.H(pair.d))
    assert len(run.memory.pairs) == 4


def test_lines_3_and_4_are_c_equal_to_one() -> None:
    """c = 1 recalls the denoiser's own answer; one pair has a closed form."""
    pair = Secant(normal(2, D), normal(2, D, seed=1), normal(2, Q, seed=2))
    torch.testing.assert_close(combined(torch.ones(2, 1, dtype=F64), [pair.d]), pair.d)
    b = normal(2, Q, seed=3)
    w, dD = pair.w, (pair.D * pair.d).sum(1)
    expected = (w * b).sum(1) / ((w * w).sum(1) + 0.1 * dD).clamp_min(1e-300)
    sound = (w * w).sum(1) + 0.1 * dD > 0
    torch.testing.assert_close(coefficients([pair], b, 0.1)[sound, 0], expected[sound])


def test_lengths_of_pairs_do_not_matter_and_doubled_pairs_do_no_harm() -> None:
    a = Secant(normal(2, D), normal(2, D) + 0.1 * normal(2, D, seed=9), normal(2, Q, seed=2))
    c = Secant(normal(2, D, seed=4), normal(2, D, seed=4), normal(2, Q, seed=6))
    b = normal(2, Q, seed=3)

    def step(pairs: list[Secant]) -> Tensor:
        return combined(coefficients(pairs, b, 0.1), [p.d for p in pairs])

    scaled = Secant(*(1e-4 * part for part in a))
    torch.testing.assert_close(step([scaled, c]), step([a, c]))
    torch.testing.assert_close(
        step([a, a]), step([a]), rtol=2e-3, atol=1e-9
    )  # the floor, on half a null space


def test_the_step_is_bounded_by_the_paper_s_own() -> None:
    newest = normal(3, D)
    step = torch.stack([0.1 * newest[0], 2.0 * newest[1], 50.0 * newest[2]])
    torch.testing.assert_close(bounded(step, newest, 16.0).flatten(), torch.tensor([10.0, 1.0, 0.32]).to(F64))
    assert bounded(torch.zeros(1, D), torch.ones(1, D), 16.0).item() == 1.0
    assert bounded(torch.ones(1, D), torch.zeros(1, D), 16.0).item() == 0.0


@pytest.mark.parametrize("recall", [1, 4])
@pytest.mark.parametrize("anchor", ["arc", "fresh", "denoiser", "linear", "noisy"])
@pytest.mark.parametrize("weight", ["ones", "soft"])
def test_one_alone_equals_one_in_a_batch(recall: int, anchor: Any, weight: Any) -> None:
    sampler = PASEO(steps=8, anchor=anchor, weight=weight, inner_steps=2, relaxation=0.5, recall=recall)
    together = sampler(prior(), problem(3), Noise([5, 6, 7]))
    for i in range(3):
        task = problem(3)
        one = replace(task, y=task.y[i : i + 1], y_z=task.y_z[i : i + 1], latent_shape=(1, D))
        torch.testing.assert_close(
            sampler(prior(), one, Noise(5 + i)), together[i : i + 1], rtol=1e-7, atol=1e-7
        )


@pytest.mark.parametrize(
    "settings", [{"expand": "anchor"}, {"start": "mean"}, {"weight": "mask"}, {"eta": "sqrt"}]
)
def test_runs_with_every_expansion_start_and_weight_on_images(settings: Any) -> None:
    model, task = conv_problem(2, observed=torch.ones(2, 1, 6, 6, dtype=F64))
    sampler = PASEO(steps=8, operator_noise=0.1, recall=3, **settings)
    found = sampler(model, task, Noise([0, 1]))
    assert torch.isfinite(found).all()
    assert not torch.equal(found, replace(sampler, recall=0)(model, task, Noise([0, 1])))


@pytest.mark.parametrize("schedule", [SD3Flow(), VP()], ids=repr)
@pytest.mark.parametrize("view", [as_flow, as_vp, as_ve], ids=lambda f: f.__name__)
def test_the_same_run_in_every_view(schedule: Any, view: Any) -> None:
    native, task = prior(schedule), problem(2)
    sampler = PASEO(steps=12, inner_steps=2, relaxation=0.7, operator_noise=0.1, recall=3)
    a, b = sampler(native, task, Noise([0, 1])), sampler(view(native), task, Noise([0, 1]))
    torch.testing.assert_close(b, a, rtol=1e-5, atol=1e-5)


def test_no_call_more_and_one_product_more_per_step() -> None:
    plain, counting = Counting(Smooth()), Counting(Smooth())
    sampler, counted = PASEO(steps=7, cg_tolerance=0.0), Counted(prior())
    sampler(prior(), problem(2, plain), Noise([0, 1]))
    replace(sampler, recall=4)(counted, problem(2, counting), Noise([0, 1]))
    assert counted.nfe == sampler.nfe
    assert (counting.values, counting.vjps) == (plain.values, plain.vjps)
    assert counting.jvps == plain.jvps + 4  # the first of 5 steps has nothing to recall


class Listener:
    wants_trace = True

    def __init__(self) -> None:
        self.traces: list[dict[str, Any]] = []

    def __call__(self, step: Step) -> None:
        self.traces.append(step.trace)


def test_the_trace_tells_what_was_recalled_and_listening_changes_nothing() -> None:
    listener, sampler = Listener(), PASEO(steps=8, operator_noise=0.1, recall=3)
    found = sampler(prior(), problem(2), Noise([0, 1]), listener)
    torch.testing.assert_close(found, sampler(prior(), problem(2), Noise([0, 1])), rtol=1e-12, atol=1e-12)
    assert [trace.get("recall_pairs") for trace in listener.traces] == [None, [1], [2], [3], [3], [3]]
    for trace in listener.traces[1:]:
        (c,) = trace["recall_c"]
        assert (len(c), len(c[0])) == (2, trace["recall_pairs"][0])
        assert len(trace["recall_predicted"][0]) == len(trace["recall_actual"][0]) == 2


def test_predicted_is_actual_for_a_linear_operator() -> None:
    listener, H = Listener(), LatentMatrix(normal(Q, D))
    PASEO(steps=8, operator_noise=0.1, recall=3)(prior(), problem(2, H), Noise([0, 1]), listener)
    for trace in listener.traces[1:]:
        assert trace["recall_predicted"][0] == pytest.approx(trace["recall_actual"][0], rel=1e-6, abs=1e-9)


def test_a_state_from_a_hook_is_not_overruled() -> None:
    """Where the hook returns another state, that step is the paper's."""
    seen: list[Tensor] = []

    class Spied:
        schedule = Flow()

        def x0(self, x: Tensor, t: float) -> Tensor:
            seen.append(x)
            return prior().x0(x, t)

    sampler = PASEO(steps=8, operator_noise=0.1)
    runs = []
    for recall in (0, 3):
        seen.clear()
        replace(sampler, recall=recall)(
            Spied(),
            problem(1),
            Noise(0),
            lambda step: torch.ones(1, D, dtype=F64) if step.index == 0 else None,
        )
        runs.append([x.clone() for x in seen[:4]])  # two calls of the first step, two of the second
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))


def test_a_denoiser_that_answers_backwards_gets_the_paper_s_step() -> None:
    """D·d ≤ 0 belongs to no covariance: such a pair is forgotten, in its own sample alone."""
    memory, H = Recall(2, 16.0, TRUST), LatentMatrix(normal(Q, D))
    s = Flow().point(0.5)
    x_pxy, D_, y = normal(2, D, seed=1), normal(2, D, seed=2), normal(2, Q, seed=3)
    x1_pxy = normal(2, D, seed=4)
    x0_pxy = (x_pxy - s.sigma * x1_pxy) / s.alpha
    x = x_pxy + s.alpha * D_
    memory.see(Seen(H, H, ONE, y, y - H(x0_pxy), None))
    memory.keep(x, x_pxy, x1_pxy, s)
    answer = x0_pxy + torch.tensor([[0.5], [-0.5]], dtype=F64) * D_
    x0, x1 = memory.recall(x, answer, torch.zeros_like(x), s)
    assert torch.equal(x0[1], answer[1])
    assert torch.equal(x1[1], torch.zeros_like(x1[1]))
    assert not torch.equal(x0[0], answer[0])
    assert not memory.pairs[0].d[1].any()
    assert torch.isfinite(x0).all()


def test_recall_with_recheck_and_half_precision() -> None:
    from samplers.toys import prior as toy_prior
    from samplers.toys import problem as toy_problem

    task = toy_problem("jpeg")
    sampler = PASEO(steps=12, recheck=2, recall=2)
    assert torch.isfinite(sampler(toy_prior(), task, Noise([0, 1]))).all()
    half = sampler(toy_prior(), replace(task, y_z=task.y_z.to(torch.bfloat16)), Noise([0, 1]))
    assert half.dtype == torch.float32


def test_settings_that_make_no_sense_are_refused() -> None:
    for bad in (-1, 1.5, True):
        with pytest.raises(BadInput, match="recall"):
            PASEO(recall=bad)
    for bad in (0.5, math.inf, math.nan):
        with pytest.raises(BadInput, match="recall_limit"):
            PASEO(recall_limit=bad)
