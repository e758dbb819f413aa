"""PnP-Flow: the noise level cancels, the data step is a gradient step, averages are averages."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from paseo.base import Noise
from paseo.samplers.misfit import adjoint
from samplers.toys import prior, problem, sampler


def test_sigma_y_cancels() -> None:
    found = problem()
    runs = [sampler("pnp-flow")(prior(), replace(found, sigma_y=s), Noise([0, 1])) for s in (0.0, 0.01, 0.5)]
    assert torch.equal(runs[0], runs[1])
    assert torch.equal(runs[0], runs[2])


class Echo:
    """A denoiser that returns the state over its signal, so that only the data step moves the estimate."""

    def __init__(self) -> None:
        self.schedule = prior("vp").schedule

    def x0(self, x: Tensor, t: float) -> Tensor:
        p = self.schedule.point(t)
        return x / p.alpha


def test_the_data_step_is_a_gradient_step() -> None:
    """One level: z = y_z − lr Dᵀ Aᵀ (A D y_z − y) + (σ/α) ξ."""
    found, echo = problem(), Echo()
    states: list[Tensor] = []
    sampler("pnp-flow", lr=0.3, samples=1)(echo, found, Noise([0, 1]), lambda step: states.append(step.z))
    codec, A = found.codec, found.degradation
    assert codec is not None
    assert A is not None
    moved = found.y_z - 0.3 * codec.encode(adjoint(found, A(codec.decode(found.y_z)) - found.y))
    level = echo.schedule.point(1000.0).level
    torch.testing.assert_close(
        states[0], moved + level * Noise([0, 1]).normal(found.shape), rtol=1e-4, atol=1e-4
    )


def test_more_samples_are_less_noisy() -> None:
    """Echo's estimates of one level have variance ς²/S around the moved latent: the mean of 16 has a
    sixteenth.
    """
    found, variance = problem(), {}
    for samples in (1, 16):
        states: list[Tensor] = []
        sampler("pnp-flow", lr=0.0, samples=samples)(
            Echo(), found, Noise([0, 1]), lambda step, states=states: states.append(step.z)
        )
        variance[samples] = float((states[0] - found.y_z).var())
    n = found.y_z.numel()
    assert abs(variance[1] / variance[16] / 16 - 1) < 4 * (4 / n) ** 0.5


def test_the_power_weight_follows_the_flow_time() -> None:
    chosen = sampler("pnp-flow", weighting="power", exponent=0.5)
    flow = prior().schedule.point(0.49)
    assert abs(chosen.weight_at(flow) - 0.7) < 1e-12
    assert sampler("pnp-flow").weight_at(flow) == 1.0
