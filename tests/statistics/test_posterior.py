"""Draws are draws from the posterior where theory says so.

Scores are standard normal or chi-square under the hypothesis; limits are multiples of standard errors, wide
enough for the number of scores that are looked at, and the seeds are fixed.
"""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch import Tensor

from paseo.base import Problem
from paseo.lab.reproduce.calibration import evidence
from paseo.lab.reproduce.yardstick import exact_draws, sampler_power
from paseo.noise import Noise
from paseo.operators.exact import LatentBlur, LatentMask, LatentMatrix, Linear
from paseo.priors import Gaussian, GaussianPrior, MixturePrior, Stationary, natural_spectrum, posterior
from paseo.samplers import PASEO
from paseo.samplers.anchor import coefficients
from paseo.schedule import SD3Flow, grid

F64 = torch.float64
N = 4000


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


def scores(draws: Tensor, mean: Tensor, covariance: Tensor) -> tuple[float, float]:
    """Largest z-score of a mean entry and of a covariance entry, for Gaussian draws (n, d)."""
    n, v = len(draws), covariance.diagonal()
    of_mean = (draws.mean(0) - mean) / (v / n).sqrt()
    of_cov = (torch.cov(draws.T) - covariance) / ((v[:, None] * v[None, :] + covariance**2) / n).sqrt()
    return of_mean.abs().max().item(), of_cov.abs().max().item()


def chi_square(draws: Tensor, mean: Tensor, covariance: Tensor) -> float:
    """z-score of Σ (z−m)ᵀΣ⁻¹(z−m), which has n·d degrees of freedom."""
    off = draws - mean
    total = (off * torch.linalg.solve(covariance, off.T).T).sum().item()
    degrees = off.numel()
    return (total - degrees) / (2 * degrees) ** 0.5


OPERATORS: dict[str, Linear] = {
    "mask": LatentMask(torch.tensor([1.0, 0.0, 1.0, 1.0, 0.0, 1.0], dtype=F64)),
    "wide matrix": LatentMatrix(normal(3, 6)),
    "square matrix": LatentMatrix(normal(6, 6, seed=1)),
    "tall matrix": LatentMatrix(normal(9, 6, seed=2)),
}


@pytest.mark.parametrize("name", list(OPERATORS))
@pytest.mark.parametrize("beta", [1.0, 0.5, 0.0])
def test_one_correction_is_a_posterior_draw(name: str, beta: float) -> None:
    """Prior N(0, η²I), exact solve, fresh bridge noise: every anchor on the arc draws from the posterior."""
    operator, eta, r = OPERATORS[name], 1.4, 0.5
    random = torch.Generator().manual_seed(2024)
    truth = torch.randn(1, 6, generator=random, dtype=F64)
    y = operator(truth) + r * torch.randn(operator(truth).shape, generator=random, dtype=F64)
    w, xi, xi_y = (torch.randn(N, d, generator=random, dtype=F64) for d in (6, 6, y.shape[1]))
    c1, c2 = coefficients("arc", beta)
    z, one = eta * w, torch.ones((), dtype=F64)
    sampler = PASEO(operator_noise=r, cg_budget=None)
    draws = sampler.correct(operator, z, eta * (c1 * w + c2 * xi), y + r * xi_y, eta, one, Noise(0))
    target = posterior(GaussianPrior.white((6,), std=eta), operator, y, r)
    assert isinstance(target, Gaussian)
    of_mean, of_cov = scores(draws, target.mean[0], target.covariance.matrix())
    assert of_mean < 4.0
    assert of_cov < 4.5
    assert abs(chi_square(draws, target.mean[0], target.covariance.matrix())) < 4.0


@pytest.mark.parametrize("beta", [0.5, 0.0])
def test_with_fixed_bridge_noise_the_draw_is_shifted_and_narrow(beta: float) -> None:
    """The paper's conditional mean and covariance: m_p + c₁η(I−KH)w' and Σ_p[c₂²(I−KH) + KH]."""
    H, eta, r = normal(3, 6), 1.4, 0.5
    operator, y, w = LatentMatrix(H), normal(1, 3, seed=4), normal(6, seed=5)
    c1, c2 = coefficients("arc", beta)
    z, one = (eta * w).expand(N, 6), torch.ones((), dtype=F64)
    anchors = c1 * z + c2 * eta * normal(N, 6, seed=6)
    draws = PASEO(operator_noise=r, cg_budget=None).correct(
        operator, z, anchors, y + r * normal(N, 3, seed=7), eta, one, Noise(0)
    )
    K = eta**2 * H.T @ torch.linalg.inv(r**2 * torch.eye(3, dtype=F64) + eta**2 * H @ H.T)
    rest = torch.eye(6, dtype=F64) - K @ H
    mean = K @ y[0] + c1 * eta * rest @ w
    covariance = eta**2 * rest @ (c2**2 * rest + K @ H)
    of_mean, of_cov = scores(draws, mean, covariance + 1e-12 * torch.eye(6, dtype=F64))
    assert of_mean < 4.0
    assert of_cov < 4.5


def exact_run_law(power: Tensor, gain: Tensor, y: Tensor, r: float, steps: int) -> tuple[Tensor, Tensor]:
    """Mean and variance of PASEO† with an exact solve on a diagonal problem, by pushing moments through
    Algorithm 2.

    Every line is affine in (x, w', ξ_z, ξ_y): with k the denoiser's gain and K = η_z²g/(r² + η_z²g²),
    z = μ̃ + K(ỹ − gμ̃) and μ_z = (m − σ x̂₁')/α, where x̂₁' = (1 − αk_s)/σ · (m + ηw').
    """
    points = grid(SD3Flow(), steps, "square")
    mean, variance = torch.zeros_like(y), torch.full_like(y, points[0].scale ** 2)
    for t, s in pairwise(points[:-1]):
        k_t, k_s = (p.alpha * power / (p.alpha**2 * power + p.sigma**2) for p in (t, s))
        to_m = s.alpha * k_t + (s.sigma**2 - s.eta**2) ** 0.5 * (1 - t.alpha * k_t) / t.sigma  # m = to_m · x
        to_noise = (1 - s.alpha * k_s) / s.sigma  # x̂₁' = to_noise · (m + ηw')
        K = s.eta_z**2 * gain / (r**2 + s.eta_z**2 * gain**2)
        keep = 1 - K * gain
        of_m = s.alpha * keep * (1 - s.sigma * to_noise) / s.alpha + s.sigma * to_noise
        of_w = (s.sigma * to_noise - keep * s.sigma * to_noise) * s.eta
        mean = of_m * to_m * mean + s.alpha * K * y
        variance = (
            (of_m * to_m) ** 2 * variance + of_w**2 + (s.alpha * keep * s.eta_z) ** 2 + (s.alpha * K * r) ** 2
        )
    last = points[-2]
    k = last.alpha * power / (last.alpha**2 * power + last.sigma**2)
    return k * mean, k**2 * variance


def test_a_whole_run_has_the_law_that_algorithm_2_implies() -> None:
    """On a diagonal problem with an exact solve the run is affine in its noise: its moments are known to the
    last digit.
    """
    power, gain = (
        torch.tensor([4.0, 1.0, 0.3, 0.05], dtype=F64),
        torch.tensor([1.0, 0.5, 0.1, 0.0], dtype=F64),
    )
    y, r = torch.tensor([1.5, -0.4, 0.2, 0.1], dtype=F64), 0.1
    mean, variance = exact_run_law(power, gain, y, r, steps=12)
    model = GaussianPrior.dense(torch.zeros(4, dtype=F64), torch.diag(power), SD3Flow())
    rows = y.expand(N, 4)
    task = Problem(y=rows, y_z=rows, sigma_y=0.0, operator=LatentMatrix(torch.diag(gain)))
    sampler = PASEO(steps=12, anchor="fresh", cg_budget=None, operator_noise=r, eta="square")
    draws = sampler(model, task, Noise(range(N)))
    of_mean, of_cov = scores(draws, mean, torch.diag(variance))
    assert of_mean < 4.0
    assert of_cov < 4.5


@pytest.mark.parametrize("anchor", ["fresh", "arc", "denoiser"])
def test_with_nothing_observed_the_sampler_draws_its_own_prior(anchor: str) -> None:
    """Its power per Fourier mode is a recursion; all anchors on the unit circle share it."""
    shape, n = (2, 8, 8), 1500
    model = GaussianPrior.natural(shape, SD3Flow())
    expected = sampler_power(natural_spectrum(shape), grid(SD3Flow(), 10, "square"))
    y = torch.zeros(n, *shape)
    task = Problem(y=y, y_z=y, sigma_y=0.0, operator=LatentMask.nothing())
    draws = PASEO(steps=10, anchor=anchor, eta="square", operator_noise=0.01)(model, task, Noise(range(n)))  # ty: ignore[invalid-argument-type]
    found = torch.fft.fft2(draws.double(), norm="ortho").abs().square().mean(0)
    z = (found / expected - 1) / (2 / n) ** 0.5  # real modes have n degrees of freedom, complex ones 2n
    assert z.abs().max() < 4.5
    total = (found / expected).mean() - 1
    assert abs(total) < 4 * (2 / (n * 128)) ** 0.5


def two_modes() -> MixturePrior:
    """z₁ ~ N(−1, 0.3²), z₂ = ±2 with the same width: independent of each other."""
    return MixturePrior.isotropic(
        [torch.tensor([-1.0, -2.0], dtype=F64), torch.tensor([-1.0, 2.0], dtype=F64)], std=0.3
    )


def see_first(n: int, operator: Linear, steps: int, anchor: str = "fresh") -> Tensor:
    rows = torch.full((n, 1), -0.5, dtype=F64)
    task = Problem(y=rows, y_z=rows, sigma_y=0.0, operator=operator, latent_shape=(n, 2))
    return PASEO(steps=steps, anchor=anchor, cg_budget=1, operator_noise=0.2)(
        two_modes(), task, Noise(range(n))
    )  # ty: ignore[invalid-argument-type]


@pytest.mark.parametrize("anchor", ["fresh", "arc", "denoiser"])
def test_both_modes_of_a_mixture_are_drawn_equally_often(anchor: str) -> None:
    """Mirror symmetry makes the share exactly one half for any number of steps; no allowance but the standard
    error.
    """
    n = 2000
    draws = see_first(n, LatentMatrix(torch.tensor([[1.0, 0.0]], dtype=F64)), steps=12, anchor=anchor)
    share = (draws[:, 1] > 0).double().mean().item()
    assert abs(share - 0.5) < 4 * 0.5 / n**0.5
    assert draws[:, 0].mean() > -1.0  # pulled from the prior's −1 towards the measured −0.5


def test_what_is_independent_of_the_measurement_stays_so() -> None:
    """The prior factorises and H sees z₁ alone: z₂ is drawn as if nothing had been observed, path by path."""
    seen = see_first(50, LatentMatrix(torch.tensor([[1.0, 0.0]], dtype=F64)), steps=12)
    unseen = see_first(50, LatentMatrix(torch.zeros(1, 2, dtype=F64)), steps=12)
    torch.testing.assert_close(seen[:, 1], unseen[:, 1], rtol=1e-9, atol=1e-9)
    assert not torch.allclose(seen[:, 0], unseen[:, 0], atol=1e-2)


def test_a_mixture_is_sampled_with_its_weights_when_nothing_is_observed() -> None:
    """60 steps leave a discretisation error of the shares well below the standard error of 1000 draws."""
    n, weights = 1000, torch.tensor([0.6, 0.4], dtype=F64)
    model = MixturePrior.isotropic(
        [torch.tensor([-2.0], dtype=F64), torch.tensor([2.0], dtype=F64)], std=0.3, weights=weights
    )
    rows = torch.zeros(n, 1, dtype=F64)
    task = Problem(y=rows, y_z=rows, sigma_y=0.0, operator=LatentMask.nothing())
    draws = PASEO(steps=60, cg_budget=1)(model, task, Noise(range(n)))
    share = (draws < 0).double().mean().item()
    assert abs(share - 0.6) < 4 * (0.24 / n) ** 0.5
    inside = draws[draws < 0] + 2.0
    assert abs(inside.mean()) < 4 * 0.3 / len(inside) ** 0.5


@pytest.mark.parametrize("name", ["mask", "blur"])
def test_exact_posterior_draws_are_calibrated(name: str) -> None:
    """The yardstick of the check with exact operators: spread 1, flat ranks, for truths of the same law."""
    shape, r = (8, 16, 16), 0.05
    power = natural_spectrum(shape)
    prior = Gaussian(torch.zeros(shape, dtype=F64), Stationary(power))
    operator = LatentMask.holes((16, 16), hidden=0.25) if name == "mask" else LatentBlur.gaussian((16, 16))
    region = operator.mask < 0.5 if isinstance(operator, LatentMask) else None
    total = None
    for image in range(6):
        truth = prior.sample(Noise(1000 + image))
        y = operator(truth) + r * Noise(2000 + image).like(truth)
        draws = exact_draws(power, operator, y, r, Noise(range(20 * image, 20 * image + 20)))
        found = evidence(draws, truth, region)
        total = found if total is None else total + found
    assert total is not None
    spread, error = total.spread()
    assert abs(spread - 1) < 4 * error
    assert error < 0.03
    for band in ("coarse", "medium", "fine", "finest"):
        value, error = total.band(band)
        assert abs(value - 1) < 4 * error + 1e-3
    assert total.tv() < 0.05


def test_masked_draws_have_the_dense_posterior_s_moments() -> None:
    shape, r, n = (1, 6, 6), 0.2, 3000
    power = natural_spectrum(shape)
    operator = LatentMask.holes((6, 6), hidden=1 / 3)
    prior = Gaussian(torch.zeros(shape, dtype=F64), Stationary(power))
    y = normal(1, *shape, seed=3)
    draws = exact_draws(power, operator, y, r, Noise(range(n))).flatten(1)
    target = posterior(prior, operator, y, r)
    assert isinstance(target, Gaussian)
    of_mean, of_cov = scores(draws, target.mean.flatten(), target.covariance.matrix())
    assert of_mean < 4.0
    assert of_cov < 4.8
