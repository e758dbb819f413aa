"""DAPS: its Langevin dynamics has a law in closed form on Gaussian problems, for any number of steps."""

from __future__ import annotations

import math

import pytest
import torch

from paseo.base import Counted, Noise
from paseo.samplers import DAPS
from samplers.toys import mask_problem, prior, problem, sampler

SIDE, TAU, LEVEL = 64, 0.5, 0.8


def explored(steps: int, h: float, **changes: object) -> tuple[torch.Tensor, torch.Tensor, float, float]:
    """z after J steps on N(x̂₀, ς²) × N(y; z, τ²) from x̂₀, entry by entry alike; with precision and
    posterior mean.
    """
    y, x0 = torch.full((1, 3, SIDE, SIDE), 1.0), torch.full((1, 3, SIDE, SIDE), -1.0)
    found = mask_problem(torch.ones(SIDE, SIDE), y, TAU)
    z = DAPS(mcmc_steps=steps, tau=TAU, **changes).explore(found, x0, LEVEL, h, Noise([0]))
    precision = 1 / TAU**2 + 1 / LEVEL**2
    return z, x0, precision, (1 / TAU**2 - 1 / LEVEL**2) / precision


@pytest.mark.parametrize(("steps", "h"), [(3, 0.02), (60, 0.02), (60, 0.1)])
def test_langevin_has_its_closed_form_law(steps: int, h: float) -> None:
    """z' = z + h(b − Pz) + √(2h)ξ is autoregressive with a = 1 − hP: mean m + aᴶ(z₀ − m), variance 2h(1 −
    a²ᴶ)/(1 − a²).
    """
    z, x0, P, m = explored(steps, h)
    a, n = 1 - h * P, z.numel()
    mean = m + a**steps * (float(x0[0, 0, 0, 0]) - m)
    variance = 2 * h * (1 - a ** (2 * steps)) / (1 - a**2)
    assert abs(float(z.mean()) - mean) < 4 * math.sqrt(variance / n)
    assert abs(float(z.var()) / variance - 1) < 4 * math.sqrt(2 / n)


def test_langevin_is_stationary_at_the_posterior() -> None:
    z, _, P, m = explored(400, 0.005)  # hP = 0.028: the variance's bias 1/(1 − hP/2) is 1.4 %
    n = z.numel()
    assert abs(float(z.mean()) - m) < 4 / math.sqrt(P * n)
    assert abs(float(z.var()) * P * (1 - 0.005 * P / 2) - 1) < 4 * math.sqrt(2 / n)


def test_hamiltonian_dynamics_has_the_posteriors_mean() -> None:
    z, _, P, m = explored(400, 0.005, dynamics="hmc", momentum=0.5)
    assert abs(float(z.mean()) - m) < 4 / math.sqrt(P * z.numel()) * 1.2


def test_likelihood_options() -> None:
    found = problem()
    z, x0 = prior().sample(Noise([0, 1])), torch.zeros(2, 12, 8, 8)
    half = DAPS(tau=1.0).score(found, z, z, 1.0)
    torch.testing.assert_close(DAPS(tau=1.0, likelihood="square").score(found, z, z, 1.0), 2 * half)
    assert DAPS(tau=1.0, clip=0.01).score(found, z, z, 1.0).abs().max() <= 0.01
    torch.testing.assert_close(DAPS(tau=1.0).score(found, z, x0, 0.5) - half, -z / 0.25)


@pytest.mark.parametrize("schedule", ["flow", "vp"])
@pytest.mark.parametrize(
    "options", [{"ode": "edm"}, {"anneal": "edm"}, {"ode": "edm", "anneal": "edm", "dynamics": "hmc"}]
)
def test_official_grids_run_and_their_calls_are_declared(schedule: str, options: dict[str, str]) -> None:
    chosen, counted = sampler("daps", clip=1.0, likelihood="square", **options), Counted(prior(schedule))
    assert torch.isfinite(chosen(counted, problem(), Noise([0, 1]))).all()
    assert counted.nfe == chosen.nfe == 4 * (2 if options.get("ode") == "edm" else 3)


def test_the_step_shrinks_linearly() -> None:
    """With J = 1, no likelihood gradient (τ huge) and x̂₀ as start, the move is √(2h_k) ξ."""
    moves: list[float] = []

    class Spy(DAPS):
        def explore(self, problem, x0, level, h, noise):  # type: ignore[no-untyped-def]
            moves.append(h)
            return super().explore(problem, x0, level, h, noise)

    Spy(steps=6, mcmc_steps=0, step_size=1.0, step_ratio=0.5)(prior(), problem(), Noise([0, 1]))
    assert moves == pytest.approx([1.0, 0.9, 0.8, 0.7])
