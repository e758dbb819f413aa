"""LDPS, PSLD and GML-DPS: what they share, what sets them apart, and one step done by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from paseo.base import Counted, Noise
from paseo.degrade import Mask
from paseo.samplers import GMLDPS, LDPS, PSLD
from paseo.samplers.misfit import adjoint
from samplers.toys import prior, problem, sampler


@pytest.mark.parametrize("schedule", ["flow", "vp"])
@pytest.mark.parametrize("loss", ["norm", "square"])
def test_psld_without_gluing_is_ldps_bit_for_bit(schedule: str, loss: str) -> None:
    settings = {"steps": 7, "guidance": 0.05, "loss": loss}
    found = problem()
    a = PSLD(**settings, gluing=0.0)(prior(schedule), found, Noise([3, 4]))
    b = LDPS(**settings)(prior(schedule), found, Noise([3, 4]))
    assert torch.equal(a, b)


def test_gluing_and_goodness_matter_and_differ() -> None:
    found = replace(problem("blur"), codec=Lossy())
    runs = [sampler(name, **{field: 0.5})(prior(), found, Noise([0, 1])) for name, field in FIELDS]
    plain = sampler("ldps")(prior(), found, Noise([0, 1]))
    assert all((z - plain).abs().max() > 1e-3 for z in runs)
    assert (runs[0] - runs[1]).abs().max() > 1e-3


FIELDS = (("psld", "gluing"), ("gml-dps", "goodness"))


class Lossy:
    """A codec whose decoder is not the encoder's inverse: 12×8×8 ↔ 3×16×16, squashed."""

    factor = 2

    def encode(self, x: Tensor) -> Tensor:
        return torch.nn.functional.pixel_unshuffle(x, 2)

    def decode(self, z: Tensor) -> Tensor:
        return torch.tanh(torch.nn.functional.pixel_shuffle(z, 2))


def test_goodness_vanishes_for_a_codec_that_loses_nothing() -> None:
    found = problem()
    codec = found.codec
    z = prior().sample(Noise([5, 6]))
    method = GMLDPS(goodness=3.0)
    assert codec is not None
    assert torch.equal(method.distance(found, z, codec.decode(z)), torch.zeros(2))
    z_gml = sampler("gml-dps", goodness=3.0)(prior(), found, Noise([0, 1]))
    assert torch.equal(z_gml, sampler("ldps")(prior(), found, Noise([0, 1])))


def test_goodness_is_added_to_the_error() -> None:
    """The step descends on ‖y − A(x̂)‖ + γ ‖x̂₀ − E(x̂)‖."""
    found = replace(problem("blur"), codec=Lossy())
    z = prior().sample(Noise([5, 6]))
    image = Lossy().decode(z)
    plain, good = (GMLDPS(goodness=g).error(found, z, image, Noise([0, 1])) for g in (0.0, 2.0))
    apart = (z - Lossy().encode(image)).flatten(1).norm(dim=1)
    assert (apart > 0.1).all()
    torch.testing.assert_close(good, plain + 2.0 * apart)


def test_gluing_of_an_identity_measurement_is_the_distance_to_the_encoding() -> None:
    found = problem("inpaint")
    all_seen = replace(found, degradation=Mask(torch.ones(1, 1, 16, 16)))
    assert all_seen.codec is not None
    z = prior().sample(Noise([5, 6]))
    image = all_seen.codec.decode(z)
    error = PSLD(guidance=0.0, gluing=1.0).error(all_seen, z, image, Noise([0, 1]))
    expected = (z - all_seen.codec.encode(all_seen.y)).flatten(1).norm(dim=1)
    torch.testing.assert_close(error, expected)


@pytest.mark.parametrize("task", ["sr4", "blur", "inpaint"])
def test_gluing_has_the_gradient_of_the_formula(task: str) -> None:
    """The self-adjoint shortcut against plain autograd through A and Aᵀ, in float64."""
    found = problem(task, dtype=torch.float64)
    x = torch.randn(
        2, 3, 16, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    ).requires_grad_(True)
    probe = torch.randn(x.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    A = found.degradation
    assert A is not None
    plain = adjoint(found, found.y) + x - adjoint(found, A(x))
    short = PSLD().glue(found, x)
    torch.testing.assert_close(short, plain)
    (want,) = torch.autograd.grad((plain * probe).sum(), x)
    (have,) = torch.autograd.grad((short * probe).sum(), x)
    torch.testing.assert_close(have, want)


def test_the_released_adjoint_is_nearest_upsampling() -> None:
    found = problem("sr4")
    image = torch.zeros(2, 3, 16, 16)
    glued = PSLD(adjoint="nearest").glue(found, image)
    assert torch.equal(glued, found.y.repeat_interleave(4, -1).repeat_interleave(4, -2))


def test_one_step_by_hand() -> None:
    """On a white unit prior x̂₀ = αx/(α²+σ²), so ∇_x ‖y − A D x̂₀‖ = −(α/(α²+σ²)) Aᵀ r/‖r‖ in closed form."""
    from paseo.priors import GaussianPrior
    from paseo.samplers.state import walk
    from paseo.schedule import VP

    white, found = GaussianPrior.white((12, 8, 8), VP()), problem()
    states: list[Tensor] = []
    sampler("ldps", guidance=0.7, eta=0.0)(white, found, Noise([0, 1]), lambda step: states.append(step.x))
    t, s = walk(white.schedule, 6)[:2]
    x = t.scale * Noise([0, 1]).normal((2, 12, 8, 8))
    gain = t.alpha / (t.alpha**2 + t.sigma**2)
    x0 = gain * x
    codec, A = found.codec, found.degradation
    assert codec is not None
    assert A is not None
    r = found.y - A(codec.decode(x0))
    g = -gain * codec.encode(adjoint(found, r / r.flatten(1).norm(dim=1).view(-1, 1, 1, 1)))
    expected = s.alpha * x0 + s.sigma * (x - t.alpha * x0) / t.sigma - 0.7 * g
    torch.testing.assert_close(states[0], expected)


@pytest.mark.parametrize("name", ["ldps", "psld", "gml-dps", "silo", "resample"])
def test_checkpointing_changes_the_calls_and_not_the_result(name: str) -> None:
    found, counted = problem(), Counted(prior())
    lean = sampler(name, checkpoint=True)
    z = lean(counted, found, Noise([0, 1]))
    torch.testing.assert_close(z, sampler(name)(prior(), found, Noise([0, 1])))
    assert counted.nfe == lean.nfe == 2 * sampler(name).nfe


def test_redrawn_noise_has_the_measurements_std() -> None:
    """E‖y − A x̂ − s n‖² = ‖y − A x̂‖² + s² numel, with s = σ_y; within four standard errors of 200 draws."""
    found = replace(problem(seeds=(0,)), sigma_y=0.2)
    image = torch.zeros(1, 3, 16, 16)
    method = LDPS(guidance=1.0, loss="square", redraw_noise=True)
    noise = Noise([9])
    draws = torch.stack([method.consistency(found, image, noise) for _ in range(200)])
    numel, s = found.y.numel(), 0.2
    expected = float(found.y.square().sum()) + s**2 * numel
    assert abs(float(draws.mean()) - expected) < 4 * float(draws.std()) / 200**0.5
