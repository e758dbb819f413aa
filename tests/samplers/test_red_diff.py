"""RED-diff: its gradient against autograd on the loss as printed, its weights, its start."""

from __future__ import annotations

import math

import pytest
import torch

from paseo.base import Noise, Step
from paseo.samplers import REDDiff
from paseo.samplers.misfit import explain
from paseo.schedule import Flow
from samplers.toys import prior, problem, sampler


def test_the_gradient_is_that_of_the_loss() -> None:
    found, t = problem(dtype=torch.float64), Flow().point(0.6)
    z = prior().sample(Noise([0, 1])).double().requires_grad_(True)
    mistake = Noise([2, 3]).like(z.detach())
    chosen = REDDiff(prior_weight=0.25, measurement_weight=2.0)
    data = 2.0 * 0.5 * (found.y - explain(found, z)).square().flatten(1).mean(1)
    loss = data + 0.25 * (0.6 / 0.4) * (mistake * z).flatten(1).mean(1)
    (want,) = torch.autograd.grad(loss.sum(), z)
    torch.testing.assert_close(chosen.gradient(found, z.detach(), mistake, t), want)


def test_the_regulariser_alone_is_the_denoisers_mistake() -> None:
    found, t = problem(), Flow().point(0.6)
    mistake = Noise([2, 3]).normal(found.shape)
    g = REDDiff(measurement_weight=0.0).gradient(found, found.y_z, mistake, t)
    torch.testing.assert_close(g, 0.25 * 1.5 * mistake / mistake[0].numel())


@pytest.mark.parametrize(
    ("weighting", "value"),
    [
        ("linear", 4.0),
        ("sqrt", 2.0),
        ("square", 16.0),
        ("log", math.log(5.0)),
        ("clip", 1.0),
        ("two_thirds", 4 ** (2 / 3)),
        ("constant", 1.0),
    ],
)
def test_weights(weighting: str, value: float) -> None:
    assert REDDiff(weighting=weighting).weight_at(Flow().at_level(4.0)) == pytest.approx(value)
    assert math.isfinite(REDDiff(weighting=weighting).weight_at(Flow().point(1.0)))


def test_starts_at_the_encoded_measurement_and_moves_by_adam() -> None:
    """The first Adam step moves every entry with a gradient by exactly lr (1/(1 + ε/|g|) of it)."""
    steps: list[Step] = []
    found = problem()
    sampler("red-diff", lr=0.01)(prior("vp"), found, Noise([0, 1]), steps.append)
    move = (steps[0].x - found.y_z).abs()
    assert move.max() <= 0.01 * (1 + 1e-4)
    assert move.median() > 0.0099
