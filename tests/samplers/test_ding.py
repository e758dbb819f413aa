"""DING: the law of one step, the law of a run against PASEO with a mask, and that nothing hidden is read."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from paseo.base import Noise
from paseo.priors import GaussianPrior
from paseo.samplers import DING, PASEO
from paseo.schedule import Flow
from samplers.toys import mask_problem, prior, problem, sampler

SIDE, STD, DRAWS = 64, 0.3, 32


def mask() -> Tensor:
    seen = torch.ones(SIDE, SIDE)
    seen[16:48, 16:48] = 0
    return seen


def run_spreads(method: DING | PASEO) -> tuple[float, float]:
    """Std of the draws over the posterior's, on seen and on hidden entries; a white unit prior makes all
    entries independent.
    """
    white, seen = GaussianPrior.white((3, SIDE, SIDE), Flow(3.0)), mask()
    y = (seen * (white.sample(Noise([77])) + STD * Noise([78]).normal((1, 3, SIDE, SIDE)))).expand(
        DRAWS, -1, -1, -1
    )
    z = method(white, mask_problem(seen, y, STD), Noise(list(range(DRAWS))))
    posterior = STD / (1 + STD**2) ** 0.5
    spread = z.var(0).mean(0)  # over draws, then over channels
    return float(spread[seen > 0].mean()) ** 0.5 / posterior, float(spread[seen == 0].mean()) ** 0.5


def test_ding_and_paseo_with_a_mask_have_the_same_spread() -> None:
    """32 draws of 9216 seen and 3072 hidden entries, all independent: one standard error of a spread is
    0.0013 and 0.0023.
    """
    ding = run_spreads(DING(steps=28, observation_noise=STD, eta="ddpm"))
    paseo = run_spreads(
        PASEO(steps=28, operator_noise=STD, anchor="fresh", weight="mask", cg_budget=1, eta="ddpm")
    )
    assert abs(ding[0] - paseo[0]) < 0.005
    assert abs(ding[1] - paseo[1]) < 0.01


def test_one_step_has_the_formulas_mean_and_variance() -> None:
    """From one fixed state: the mean is (1 − γ)m + γ(αy + σε̂) where seen and m where hidden; ε̂ varies with
    the proxy alone.
    """
    white, seen = GaussianPrior.white((3, SIDE, SIDE), Flow()), mask()
    y = torch.full((1, 3, SIDE, SIDE), 0.7)
    states: list[Tensor] = []
    chosen = DING(steps=4, observation_noise=STD, eta="ddpm", delayed=True)
    chosen(white, mask_problem(seen, y, STD), Noise([5]), lambda step: states.append(step.x))
    t, s = white.schedule.point(1.0), white.schedule.point(2 / 3)
    x = Noise([5]).normal((1, 3, SIDE, SIDE))
    assert t.alpha == 0  # so x̂₀ = 0, x̂₁ = x, and η = σ_s: m = 0
    gain = s.sigma**2 / (s.sigma**2 + (s.alpha * STD) ** 2)
    mean = torch.where(seen > 0, gain * (s.alpha * y + s.sigma * x), torch.zeros(()))
    std = torch.where(seen > 0, s.alpha * STD * gain**0.5, s.sigma)
    white_noise = (states[0] - mean) / std
    n = white_noise.numel()
    assert abs(float(white_noise.mean())) < 4 / n**0.5
    assert abs(float(white_noise.var()) - 1) < 4 * (2 / n) ** 0.5


def test_hidden_cells_are_never_read() -> None:
    found = problem("inpaint")
    assert found.observed is not None
    spoiled = replace(found, y_z=torch.where(found.observed.expand_as(found.y_z) > 0, found.y_z, 1e6))
    assert torch.equal(
        sampler("ding")(prior(), found, Noise([0, 1])), sampler("ding")(prior(), spoiled, Noise([0, 1]))
    )


def test_erosion_drops_the_rim_around_the_hole() -> None:
    found = problem("inpaint")
    assert found.observed is not None
    kept = DING(erode=True).seen(found)[0, 0]
    whole = found.observed[0, 0] > 0
    assert whole.sum() - kept.sum() == 6 * 6 - 4 * 4  # the ring around a hole of 4×4 cells
    assert not kept[2:6, 2:6].any()


def test_exact_observations_are_reproduced() -> None:
    found = problem("inpaint")
    assert found.observed is not None
    z = sampler("ding", observation_noise=0.0, steps=28, eta="ddpm")(
        GaussianPrior.white((12, 8, 8)), found, Noise([0, 1])
    )
    seen = found.observed.expand_as(z) > 0
    assert (z - found.y_z)[seen].abs().mean() < 0.3 * (z - found.y_z)[~seen].abs().mean()
