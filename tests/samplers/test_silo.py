"""SILO: the clamp, the grid, and the gradient through operator and denoiser."""

from __future__ import annotations

import torch
from torch import Tensor

from paseo.base import Noise
from paseo.priors import GaussianPrior
from paseo.schedule import VP, shifted
from samplers.toys import prior, problem, sampler


def states(**changes: object) -> list[Tensor]:
    seen: list[Tensor] = []
    sampler("silo", **changes)(prior("vp"), problem(), Noise([0, 1]), lambda step: seen.append(step.x))
    return seen


def test_no_entry_moves_further_than_the_scale() -> None:
    free, guided = states(scale=0.0), states(scale=50.0, clamp_gradient=1e-3)
    move = (guided[0] - free[0]).abs()
    assert move.max() <= 50.0 * 1e-3 * (1 + 1e-5)
    assert (move > 0.99 * 50.0 * 1e-3).any()  # the bound is reached


def test_a_clamp_that_is_never_reached_changes_nothing() -> None:
    """‖∇‖J x̂₀ − y‖‖ ≤ ‖J‖ of order 1 here: entries of a unit-norm gradient over 768 coordinates stay below
    1.
    """
    assert torch.equal(states(clamp_gradient=None)[-1], states(clamp_gradient=1.0)[-1])


def test_guidance_follows_the_norm_not_its_square() -> None:
    """On a white unit prior and H = I, ∇_x ‖y_z − gain·x‖ = −gain (y_z − x̂₀)/‖y_z − x̂₀‖."""
    from dataclasses import replace

    white = GaussianPrior.white((12, 8, 8), VP())
    found = replace(problem(), operator=lambda z: z)
    seen: dict[float, Tensor] = {}
    for scale in (0.0, 0.3):
        first: list[Tensor] = []
        sampler("silo", scale=scale)(
            white, found, Noise([0, 1]), lambda step, first=first: first.append(step.x)
        )
        seen[scale] = first[0]
    t = white.schedule.point(white.schedule.times(7)[0])
    gain = t.alpha / (t.alpha**2 + t.sigma**2)
    x = t.scale * Noise([0, 1]).normal((2, 12, 8, 8))
    off = found.y_z - gain * x
    expected = 0.3 * gain * off / off.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
    torch.testing.assert_close(seen[0.3] - seen[0.0], expected, atol=1e-6, rtol=1e-4)


def test_the_shift_warps_the_flow_grid() -> None:
    times: list[float] = []
    sampler("silo", shift=0.125, steps=8)(
        prior(), problem(), Noise([0, 1]), lambda step: times.append(step.point.t)
    )
    expected = [shifted(1 - i / 8, 0.125) for i in range(1, 9)]
    assert all(abs(a - b) < 1e-12 for a, b in zip(times, expected, strict=True))


def test_measurement_can_be_clamped() -> None:
    from dataclasses import replace

    found = problem()
    clamped = replace(found, y_z=found.y_z.clamp(-0.1, 0.1))
    a = sampler("silo", clamp_measurement=0.1)(prior(), found, Noise([0, 1]))
    assert torch.equal(a, sampler("silo")(prior(), clamped, Noise([0, 1])))
