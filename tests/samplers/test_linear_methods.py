"""DDS, DiffPIR and DDNM: one minimiser seen three ways, equal to PASEO's correction, and their own loops."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from paseo.base import Counted, Noise, Problem
from paseo.codecs.identity import IdentityCodec
from paseo.operators.exact import LatentBlur, LatentMask, LatentMatrix
from paseo.samplers import DDNM, PASEO, DiffPIR
from paseo.samplers.ddnm import correction
from paseo.samplers.linear import linear_model
from paseo.schedule import VP, Flow
from samplers.toys import prior, problem, sampler

SHAPE = (2, 8, 8)
OPERATORS = {
    "mask": LatentMask.holes((8, 8), 0.4),
    "blur": LatentBlur.gaussian((8, 8), 0.6),
    "matrix": LatentMatrix(
        torch.randn(40, 128, generator=torch.Generator().manual_seed(0)).double() / 8, SHAPE
    ),
}


def latent_problem(name: str) -> tuple[Problem, torch.Tensor]:
    H, z = OPERATORS[name], torch.randn(2, *SHAPE, generator=torch.Generator().manual_seed(1)).double()
    y = H(z) + 0.1 * torch.randn(H(z).shape, generator=torch.Generator().manual_seed(2)).double()
    return Problem(y, y, 0.1, H, latent_shape=(2, *SHAPE)), z


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("rho", [0.01, 1.0, 50.0])
def test_dds_converged_is_diffpir_in_closed_form(name: str, rho: float) -> None:
    found, z = latent_problem(name)
    model = linear_model(found)
    dds = model.correct(z, 1 / rho, 1.0, 300, 1e-14)
    closed = model.closed_form(z, rho)
    assert closed is not None
    torch.testing.assert_close(dds, closed, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(model.correct(z, 1.0, rho, 300, 1e-14), closed, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", OPERATORS)
def test_both_tend_to_ddnm(name: str) -> None:
    """The gain s/(ρ + s²) differs from 1/s by at most ρ/s³: linear in ρ for a fixed operator."""
    found, z = latent_problem(name)
    model = linear_model(found)
    ddnm = model.correct(z, 1.0, 0.0, 500, 1e-14)
    gaps = [float((model.closed_form(z, rho) - ddnm).norm()) for rho in (1e-4, 1e-6)]
    assert gaps[1] < 0.02 * gaps[0]
    dense = found.operator.matrix(SHAPE)
    expected = z + (torch.linalg.pinv(dense) @ (found.y - found.operator(z)).flatten(1).T).T.view_as(z)
    torch.testing.assert_close(ddnm, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", OPERATORS)
def test_paseos_correction_from_the_denoised_estimate_is_the_same(name: str) -> None:
    """r²/η_z² = ρ, the anchor at the estimate, nothing perturbed."""
    found, z = latent_problem(name)
    eta_z, r = 0.7, 0.3
    paseo = PASEO(operator_noise=r, cg_budget=300, cg_tolerance=1e-14)
    star = paseo.correct(
        found.operator, z, z, found.y, eta_z, torch.ones((), dtype=torch.float64), Noise([0, 1])
    )
    closed = linear_model(found).closed_form(z, r**2 / eta_z**2)
    assert closed is not None
    torch.testing.assert_close(star, closed, rtol=1e-8, atol=1e-8)


def test_dds_iterates_are_those_of_cg_started_at_the_estimate() -> None:
    """Textbook CG on (I + γAᵀA) x = x̂₀ + γAᵀy from x̂₀, written out for one sample."""
    found, z = latent_problem("matrix")
    model, gamma = linear_model(found), 3.0

    def S(v: torch.Tensor) -> torch.Tensor:
        return v + gamma * model.AT(model.A(v))

    x, b = z.clone(), z + gamma * model.AT(found.y)
    r = b - S(x)
    p, rr = r, r.flatten(1).square().sum(1).view(-1, 1, 1, 1)
    for _ in range(4):
        a = rr / (p * S(p)).flatten(1).sum(1).view(-1, 1, 1, 1)
        x, r = x + a * p, r - a * S(p)
        rr, old = r.flatten(1).square().sum(1).view(-1, 1, 1, 1), rr
        p = r + rr / old * p
    torch.testing.assert_close(model.correct(z, gamma, 1.0, 4, 0.0), x, rtol=1e-9, atol=1e-9)


def test_a_measurement_that_no_latent_explains_does_no_harm() -> None:
    """Noise in the hole of a mask: A⁺ ignores it."""
    found, _ = latent_problem("mask")
    noisy = replace(found, y_z=torch.where(found.y_z == 0, 5.0, found.y_z))
    a, b = (
        linear_model(q).correct(torch.zeros(2, *SHAPE).double(), 1.0, 0.0, 50, 1e-12) for q in (found, noisy)
    )
    torch.testing.assert_close(a, b)


def test_where_the_linear_model_comes_from() -> None:
    exact, _ = latent_problem("blur")
    assert linear_model(exact).A is exact.operator
    pixels = problem("sr4")
    assert linear_model(pixels).y is pixels.y
    masked = replace(problem("inpaint"), codec=object())  # not an identity: only the mask is left
    model = linear_model(masked)
    assert torch.equal(model.y, masked.observed * masked.y_z)
    free = replace(
        masked, operator=LatentMask(torch.ones(()))
    )  # a mask of one's own: hidden cells do not count
    assert torch.equal(linear_model(free).A(masked.y_z), model.A(masked.y_z))
    scaled = linear_model(replace(pixels, codec=IdentityCodec(2, std=0.5)))
    z, r = prior().sample(Noise([0, 1])), Noise([2, 3]).like(pixels.y)
    torch.testing.assert_close((scaled.A(z) * r).sum(), (z * scaled.AT(r)).sum(), rtol=1e-4, atol=1e-4)
    assert "linear" in str(DDNM().unsupported(replace(pixels, codec=object())))


def test_ddnm_reproduces_the_measurement() -> None:
    found = problem("sr4")
    z = sampler("ddnm")(prior(), found, Noise([0, 1]))
    assert found.codec is not None
    assert found.degradation is not None
    assert (found.degradation(found.codec.decode(z)) - found.y).abs().max() < 1e-4


@pytest.mark.parametrize("std", [0.01, 0.5])
def test_ddnm_plus_keeps_the_noise_budget(std: float) -> None:
    """α²Λ²σ_n² + c² = σ_s² wherever the measurement's noise fits, and Λ α σ_n = σ_s below."""
    for t in (0.9, 0.5, 0.2, 0.05, 0.005):
        s = Flow().point(t)
        share, spread = correction(s, std)
        assert (s.alpha * share * std) ** 2 + spread**2 == pytest.approx(s.sigma**2)
        assert 0 <= share <= 1
    assert correction(Flow().point(0.0), std) == (0.0, 0.0)


def test_time_travel_walks_back_and_counts() -> None:
    chosen = DDNM(steps=6, travel_length=2, travel_repeat=3)
    assert chosen.route()[:8] == [(0, 1), (1, 2), (2, 0), (0, 1), (1, 2), (2, 0), (0, 1), (1, 2)]
    counted = Counted(prior())
    chosen(counted, problem(), Noise([0, 1]))
    assert counted.nfe == chosen.nfe == 15


def test_diffpir_trusts_the_measurement_more_at_high_noise() -> None:
    found, chosen = problem(), DiffPIR()
    rhos = [chosen.rho(VP().point(t), found) for t in (1000.0, 500.0, 100.0, 1.0)]
    assert rhos == sorted(rhos)
    assert chosen.rho(Flow().point(1.0), found) > 0
    expected = 7 * 0.02**2 / VP().point(100.0).level ** 2
    assert chosen.rho(VP().point(100.0), found) == pytest.approx(expected)


def test_diffpir_skips_the_last_data_step_unless_asked() -> None:
    found = problem()
    plain, full = (
        sampler("diffpir", last_data_step=flag)(prior(), found, Noise([0, 1])) for flag in (False, True)
    )
    assert not torch.equal(plain, full)
