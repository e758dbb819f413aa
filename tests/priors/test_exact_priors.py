"""Exact priors: their denoisers against brute force, their draws, their posteriors, and one prior in three
scalings.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from paseo.base import Counted, Prior
from paseo.errors import BadInput
from paseo.noise import Noise
from paseo.operators.exact import LatentBlur, LatentMask, LatentMatrix, Linear
from paseo.priors import (
    Covariance,
    Dense,
    Gaussian,
    GaussianPrior,
    Isotropic,
    Mixture,
    MixturePrior,
    Stationary,
    View,
    as_flow,
    as_ve,
    as_vp,
    natural_spectrum,
    posterior,
)
from paseo.schedule import VE, VP, Cosine, Flow, Schedule, SD3Flow

F64 = torch.float64
SHAPE = (2, 4, 6)
SIZE = 48


def spd(size: int, seed: int = 0) -> Tensor:
    A = torch.randn(size, size, generator=torch.Generator().manual_seed(seed), dtype=F64)
    return A @ A.T / size + 0.1 * torch.eye(size, dtype=F64)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


COVARIANCES: dict[str, Callable[[], Covariance]] = {
    "isotropic": lambda: Isotropic(0.7, SHAPE),
    "dense": lambda: Dense(spd(SIZE), SHAPE),
    "stationary": lambda: Stationary(natural_spectrum(SHAPE)),
}


@pytest.fixture(params=list(COVARIANCES))
def covariance(request: pytest.FixtureRequest) -> Covariance:
    return COVARIANCES[request.param]()


def test_functions_of_a_covariance(covariance: Covariance) -> None:
    C, x = covariance.matrix(), normal(3, *SHAPE)
    torch.testing.assert_close(covariance.apply(lambda v: v, x).flatten(1), x.flatten(1) @ C)
    torch.testing.assert_close(
        covariance.apply(torch.reciprocal, x).flatten(1), torch.linalg.solve(C, x.flatten(1).T).T
    )
    root = covariance.apply(torch.sqrt, torch.eye(SIZE, dtype=F64).view(-1, *SHAPE)).flatten(1)
    torch.testing.assert_close(root @ root.T, C)
    torch.testing.assert_close(covariance.diagonal().flatten(), C.diagonal())
    torch.testing.assert_close(covariance.values.sort().values, torch.linalg.eigvalsh(C))


def test_natural_spectrum_has_unit_variance_and_amplitude_1_over_f() -> None:
    power = natural_spectrum((3, 16, 16))
    assert power.mean().item() == pytest.approx(1.0)
    assert torch.equal(power[0], power[2])
    assert (power[0, 0, 2] / power[0, 0, 4]).item() == pytest.approx(4.0)  # amplitude ∝ 1/f: power ∝ 1/f²
    assert power[0, 0, 0] == power[0, 0, 1]


def test_what_is_no_covariance() -> None:
    with pytest.raises(BadInput, match="negative eigenvalue"):
        Dense(torch.diag(torch.tensor([1.0, -1.0])))
    with pytest.raises(BadInput, match="not symmetric"):
        Dense(torch.tensor([[1.0, 0.5], [0.0, 1.0]]))
    with pytest.raises(BadInput, match="finite square matrix"):
        Dense(torch.ones(2, 3))
    with pytest.raises(BadInput, match="symmetric, power"):
        Stationary(torch.rand(1, 8, 8) + 0.1)
    with pytest.raises(BadInput, match="non-negative"):
        Stationary(-torch.ones(1, 4, 4))
    with pytest.raises(BadInput, match="does not fit a covariance"):
        Gaussian(torch.zeros(3), Isotropic(1.0, (2,)))
    with pytest.raises(BadInput, match="over latents of shape"):
        GaussianPrior.white((2,)).x0(torch.zeros(1, 3), 0.5)


@pytest.mark.parametrize("schedule", [Flow(), VP(), VE(), Cosine()], ids=repr)
@pytest.mark.parametrize("fraction", [0.0, 0.3, 1.0])
def test_gaussian_denoiser_is_the_conditional_mean(
    covariance: Covariance, schedule: Schedule, fraction: float
) -> None:
    mean, x = normal(*SHAPE, seed=1), normal(3, *SHAPE, seed=2)
    t = schedule.times(20)[0] * fraction
    p = schedule.point(t)
    C, m = covariance.matrix(), mean.flatten()
    S = p.alpha**2 * C + p.sigma**2 * torch.eye(SIZE, dtype=F64)
    expected = m + (p.alpha * C @ torch.linalg.solve(S, (x.flatten(1) - p.alpha * m).T)).T
    found = GaussianPrior(mean, covariance, schedule).x0(x, t)
    torch.testing.assert_close(found.flatten(1), expected)


def test_pure_noise_denoises_to_the_mean_and_a_clean_state_to_itself() -> None:
    prior = GaussianPrior(normal(5), spd(5))  # ty: ignore[invalid-argument-type]
    x = normal(2, 5, seed=3)
    torch.testing.assert_close(prior.x0(x, 1.0), prior.mean.expand(2, 5))
    torch.testing.assert_close(prior.x0(x, 0.0), x)


def test_a_singular_covariance_at_the_clean_end() -> None:
    prior = GaussianPrior.dense(torch.zeros(2, dtype=F64), torch.diag(torch.tensor([1.0, 0.0], dtype=F64)))
    assert torch.equal(prior.x0(torch.ones(1, 2, dtype=F64), 0.0), torch.tensor([[1.0, 0.0]], dtype=F64))


def test_exact_draws_have_the_prior_s_moments(covariance: Covariance) -> None:
    n = 4000
    prior = GaussianPrior(normal(*SHAPE, seed=1), covariance)
    draws = prior.sample(Noise(range(n))).flatten(1)
    v, C = prior.covariance.diagonal().flatten(), covariance.matrix()
    z = (draws.mean(0) - prior.mean.flatten()) / (v / n).sqrt()
    assert z.abs().max() < 4.5  # 48 standard normal scores
    found = torch.cov(draws.T)
    z = (found - C) / ((v[:, None] * v[None, :] + C**2) / n).sqrt()  # the variance of a sample covariance
    assert z.abs().max() < 5.0  # 48·49/2 scores
    torch.testing.assert_close(prior.std().flatten(), v.sqrt())


def test_mixture_denoiser_by_brute_force() -> None:
    """E[z|x] by importance: an average of prior draws weighted with the likelihood of x, to five standard
    errors.
    """
    prior = MixturePrior(
        torch.tensor([0.3, 0.7]),
        (Gaussian(normal(2) + 2.0, Dense(spd(2))), Gaussian(normal(2) - 1.0, Dense(spd(2, 1)))),
    )
    x, t = torch.tensor([[0.4, -0.2]], dtype=F64), 0.6
    p = prior.schedule.point(t)
    z = prior.sample(Noise(range(20_000)))
    w = (-((x - p.alpha * z) ** 2).sum(1) / (2 * p.sigma**2)).exp()
    w = w / w.sum()
    average = (w[:, None] * z).sum(0)
    error = (w[:, None] ** 2 * (z - average) ** 2).sum(0).sqrt()
    assert ((prior.x0(x, t)[0] - average).abs() < 5 * error).all()


def test_mixture_of_one_is_a_gaussian(covariance: Covariance) -> None:
    mean, x = normal(*SHAPE, seed=1), normal(3, *SHAPE, seed=2)
    mixture = MixturePrior(torch.ones(1), (Gaussian(mean, covariance),))
    for t in (0.0, 0.2, 0.9, 1.0):
        torch.testing.assert_close(mixture.x0(x, t), GaussianPrior(mean, covariance).x0(x, t))


def test_mixture_moments() -> None:
    prior = MixturePrior.isotropic(
        [normal(3, seed=i) for i in range(3)], std=0.3, weights=torch.tensor([1.0, 2.0, 1.0])
    )
    n = 5000
    draws = prior.sample(Noise(range(n)))
    C = prior.covariance()
    assert ((draws.mean(0) - prior.mean()).abs() < 4.5 * (C.diagonal() / n).sqrt()).all()
    share = prior.responsibilities(draws, 1.0, 1e-3).mean(0)
    assert ((share - prior.weights).abs() < 4.5 * (prior.weights * (1 - prior.weights) / n).sqrt()).all()


def test_what_is_no_mixture() -> None:
    with pytest.raises(BadInput, match="one positive weight per component"):
        MixturePrior.isotropic([torch.zeros(2)], 1.0, torch.tensor([0.5, 0.5]))
    with pytest.raises(BadInput, match="one positive weight"):
        MixturePrior.isotropic([torch.zeros(2), torch.ones(2)], 1.0, torch.tensor([1.0, -1.0]))
    with pytest.raises(BadInput, match="different shapes"):
        Mixture(
            torch.ones(2),
            (Gaussian(torch.zeros(2), Isotropic(1.0, (2,))), Gaussian(torch.zeros(3), Isotropic(1.0, (3,)))),
        )


OPERATORS: dict[str, Callable[[], Linear]] = {
    "mask": lambda: LatentMask.holes(SHAPE[1:], hidden=0.5),
    "blur": lambda: LatentBlur.gaussian((4, 6)),
    "matrix": lambda: LatentMatrix(normal(7, SIZE, seed=9), SHAPE),
}


@pytest.mark.parametrize("name", list(OPERATORS))
def test_posterior_of_every_linear_pair(covariance: Covariance, name: str) -> None:
    """Against the precision form, (C⁻¹ + HᵀH/r²)⁻¹: another route to the same moments."""
    operator, r, mean = OPERATORS[name](), 0.3, normal(*SHAPE, seed=1)
    y = operator(normal(2, *SHAPE, seed=4))
    found = posterior(Gaussian(mean, covariance), operator, y, r)
    assert isinstance(found, Gaussian)
    C, H = covariance.matrix(), operator.matrix(SHAPE)
    precision = torch.linalg.inv(C) + H.T @ H / r**2
    expected = torch.linalg.solve(
        precision, (torch.linalg.solve(C, mean.flatten()) + y.flatten(1) @ H / r**2).T
    ).T
    torch.testing.assert_close(found.mean.flatten(1), expected, rtol=1e-7, atol=1e-8)
    torch.testing.assert_close(found.covariance.matrix(), torch.linalg.inv(precision), rtol=1e-7, atol=1e-8)


def test_stationary_posterior_stays_in_fourier_at_full_size() -> None:
    prior = GaussianPrior.natural((16, 64, 64))
    y = prior.sample(Noise(0))
    found = posterior(prior, LatentBlur.gaussian((64, 64)), y, 0.01)
    assert isinstance(found, Gaussian)
    assert isinstance(found.covariance, Stationary)
    with pytest.raises(BadInput, match="too large for a dense posterior"):
        posterior(prior, LatentMask.holes((64, 64)), y, 0.01)


def test_mixture_posterior_by_brute_force() -> None:
    prior = MixturePrior.isotropic(
        [normal(3, seed=i) * 2 for i in range(3)], std=0.5, weights=torch.tensor([1.0, 2.0, 3.0])
    )
    operator, r = LatentMatrix(normal(2, 3, seed=8)), 0.7
    y = operator(prior.components[1].mean[None]) + 0.2
    found = posterior(prior, operator, y, r)
    assert isinstance(found, Mixture)
    z = prior.sample(Noise(range(20_000)))
    w = (-((y - operator(z)) ** 2).sum(1) / (2 * r**2)).exp()
    w = w / w.sum()
    average = (w[:, None] * z).sum(0)
    assert ((found.mean() - average).abs() < 5 * (w[:, None] ** 2 * (z - average) ** 2).sum(0).sqrt()).all()


def test_a_posterior_needs_a_known_operator() -> None:
    with pytest.raises(BadInput, match="no closed form"):
        posterior(GaussianPrior.white((2,)), torch.nn.Linear(2, 2), torch.zeros(1, 2), 0.1)
    with pytest.raises(BadInput, match="one measurement at a time"):
        posterior(
            MixturePrior.isotropic([torch.zeros(2)], 1.0), LatentMatrix(torch.eye(2)), torch.zeros(2, 2), 0.1
        )


@pytest.mark.parametrize("view", [as_flow, as_vp, as_ve], ids=lambda f: f.__name__)
@pytest.mark.parametrize("schedule", [SD3Flow(), VP(), VE(), Cosine()], ids=repr)
def test_views_estimate_the_same(view: Callable[[Prior], Prior], schedule: Schedule) -> None:
    prior = GaussianPrior(normal(*SHAPE, seed=1), Dense(spd(SIZE), SHAPE), schedule)
    seen = view(prior)
    for t in prior.schedule.times(9)[:-1]:
        p = prior.schedule.point(t)
        q = seen.schedule.at_level(p.level)
        x = normal(2, *SHAPE, seed=5)
        capped = 1e-7 if p.level < 1e4 else 1e-3  # VE has no pure noise: it enters with 1e-4 of signal
        torch.testing.assert_close(
            seen.x0(x * (q.scale / p.scale), q.t), prior.x0(x, t), rtol=1e-6, atol=capped
        )


def test_a_view_of_the_native_scaling_is_the_prior_itself() -> None:
    prior = GaussianPrior.white((2,), SD3Flow())
    assert as_flow(prior) is prior
    assert isinstance(as_ve(prior), View)
    vp = GaussianPrior.white((2,), VP())
    assert as_vp(vp) is vp


def test_counted_counts_calls_not_samples() -> None:
    prior = Counted(GaussianPrior.white((2,)))
    prior.x0(torch.zeros(7, 2), 0.5)
    prior.x0(torch.zeros(1, 2), 0.5)
    assert prior.nfe == 2
    assert prior.schedule == Flow()
