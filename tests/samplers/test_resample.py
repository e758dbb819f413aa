"""ReSample: the stochastic resample's law and limits, hard consistency, the events and their cost."""

from __future__ import annotations

import pytest
import torch

from paseo.base import Counted, Noise
from paseo.samplers import ReSample
from paseo.samplers.descent import descend
from paseo.samplers.misfit import explain
from paseo.samplers.resample import resample
from paseo.schedule import Flow
from samplers.toys import prior, problem, sampler

LEVEL = Flow().point(0.6)


def test_resample_limits() -> None:
    x, z, fresh = (Noise([s]).normal((1, 4, 4)) for s in (0, 1, 2))
    torch.testing.assert_close(resample(x, z, LEVEL, 0.0, fresh), x)
    wide = resample(x, z, LEVEL, 1e12, fresh)
    torch.testing.assert_close(wide, LEVEL.alpha * z + LEVEL.sigma * fresh, rtol=1e-5, atol=1e-5)


def test_resample_is_the_product_of_two_gaussians() -> None:
    gamma, n = 0.3, 200_000
    x, z, fresh = torch.full((1, n), 1.5), torch.full((1, n), -0.5), Noise([0]).normal((1, n))
    draws = resample(x, z, LEVEL, gamma, fresh)
    precision = 1 / gamma + 1 / LEVEL.sigma**2
    mean = (1.5 / gamma - 0.5 * LEVEL.alpha / LEVEL.sigma**2) / precision
    assert abs(float(draws.mean()) - mean) < 4 * precision**-0.5 / n**0.5
    assert abs(float(draws.var()) * precision - 1) < 4 * (2 / n) ** 0.5


def test_hard_consistency_explains_the_measurement() -> None:
    found = problem("sr4")
    z = prior().sample(Noise([8, 9]))
    before = (found.y - explain(found, z)).square().mean()
    for stage in ("pixel", "latent"):
        fitted = ReSample(max_iterations=200, lr_latent=0.05, lr_pixel=0.05, weight_decay=0.0).optimise(
            found, z, stage
        )
        assert (found.y - explain(found, fitted)).square().mean() < 1e-4 * before


def test_a_sample_that_has_converged_stops_alone() -> None:
    start = torch.tensor([[1.0], [1e-4]])
    end = descend(start, lambda v: v.square().sum(1), "sgd", 0.1, 5, stop_below=1e-6)
    assert end[1] == start[1]  # below the bound from the beginning
    assert torch.allclose(end[0], start[0] * 0.8**5)


def test_patience_stops_what_no_longer_improves() -> None:
    """Steps that overshoot: |v| doubles, so the loss after one iteration is above the first."""
    end = descend(torch.tensor([[1.0]]), lambda v: v.square().sum(1), "sgd", 1.5, 50, patience=1)
    assert end.item() == pytest.approx(-2.0)


def test_events_fall_in_the_last_two_thirds() -> None:
    stages = [ReSample(steps=79, every=15).stage(k) for k in range(79)]
    assert [k for k, s in enumerate(stages) if s == "pixel"] == [31, 46]
    assert [k for k, s in enumerate(stages) if s == "latent"] == [61, 76]
    assert ReSample(steps=77, every=15).stage(76) is None  # the last step leaves no noise behind


@pytest.mark.parametrize("level", ["from", "to"])
@pytest.mark.parametrize("differentiate", [True, False])
def test_official_options_run_and_their_calls_are_declared(level: str, differentiate: bool) -> None:
    chosen = sampler(
        "resample",
        steps=12,
        resample_level=level,
        differentiate=differentiate,
        time_travel=5,
        final_optimisation=True,
        patience=2,
        loss="norm",
    )
    counted = Counted(prior())
    z = chosen(counted, problem(), Noise([0, 1]))
    assert torch.isfinite(z).all()
    assert counted.nfe == chosen.nfe > 12


def test_without_guidance_and_events_it_is_ddim() -> None:
    from itertools import pairwise

    from paseo.samplers.state import bridge, predict, walk

    p, found = prior(), problem()
    z = sampler("resample", guidance=0.0, every=100)(p, found, Noise([0, 1]))
    points = walk(p.schedule, 7)
    x = points[0].scale * Noise([0, 1]).normal(found.shape)
    for t, s in pairwise(points):
        x = bridge(*predict(p, x, t), s, eta=0.0)
    assert torch.equal(z, x)
