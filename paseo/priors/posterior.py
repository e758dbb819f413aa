"""The posterior of y = H z + r ε in closed form, for every exact prior and linear operator of the library.

    Σ_p = C − C Hᵀ (H C Hᵀ + r² I)⁻¹ H C,    m_p = μ + C Hᵀ (H C Hᵀ + r² I)⁻¹ (y − H μ)

A stationary prior seen through a circular convolution stays diagonal in Fourier; everything else is done with
matrices. A mixture's posterior is the mixture of its components' posteriors, weighted by how well each
explains y.
"""

from __future__ import annotations

import torch
from torch import Tensor

from paseo.base import DiagonalInFourier, HasMatrix
from paseo.errors import BadInput
from paseo.priors.covariance import Dense, Stationary
from paseo.priors.gaussian import Gaussian
from paseo.priors.mixture import Mixture

LARGEST = 8192  # entries of a latent whose covariance is still handled as a matrix


def posterior(prior: Gaussian | Mixture, operator: object, y: Tensor, r: float) -> Gaussian | Mixture:
    """p(z | y) for one of the exact operators; y is a batch (B, …) of measurements, of which a mixture takes
    one.
    """
    if (
        isinstance(prior, Gaussian)
        and isinstance(prior.covariance, Stationary)
        and isinstance(operator, DiagonalInFourier)
    ):
        return stationary_posterior(prior, operator.transfer, y, r)
    if not isinstance(operator, HasMatrix):
        raise BadInput(
            f"{type(operator).__name__} is not one of the exact linear operators, so its posterior has no "
            "closed form."
        )
    size = int(torch.Size(prior.shape).numel())
    if size > LARGEST:
        raise BadInput(
            f"A latent of {size} entries is too large for a dense posterior (at most {LARGEST}). Use a "
            "smaller latent."
        )
    H = operator.matrix(prior.shape)
    return (
        mixture_posterior(prior, H, y, r) if isinstance(prior, Mixture) else dense_posterior(prior, H, y, r)
    )


def dense_posterior(prior: Gaussian, H: Tensor, y: Tensor, r: float) -> Gaussian:
    """With H as a (q, d) matrix on the flattened latent and y a batch of measurements."""
    C, H = prior.covariance.matrix(), H.to(torch.float64)
    mean, y = prior.mean.to(torch.float64).reshape(-1, C.shape[0]), y.to(torch.float64).flatten(1)
    S = H @ C @ H.T + r**2 * torch.eye(H.shape[0], dtype=torch.float64)
    K = torch.linalg.solve(S, H @ C).T  # C Hᵀ S⁻¹
    rest = torch.eye(C.shape[0], dtype=torch.float64) - K @ H
    covariance = (
        rest @ C @ rest.T + r**2 * K @ K.T
    )  # Joseph's form: symmetric and positive whatever the rounding
    return Gaussian((mean + (y - mean @ H.T) @ K.T).view(-1, *prior.shape), Dense(covariance, prior.shape))


def stationary_posterior(prior: Gaussian, transfer: Tensor, y: Tensor, r: float) -> Gaussian:
    """With H the circular convolution of transfer function g (…, h, w): each Fourier mode is a problem of its
    own.
    """
    if not isinstance(prior.covariance, Stationary):
        raise BadInput("A posterior that is diagonal in Fourier needs a prior with a stationary covariance.")
    v, g = prior.covariance.power, transfer.to(torch.complex128)
    total = v * g.abs() ** 2 + r**2
    K = v * g.conj() / total
    mean, y = prior.mean.to(torch.float64), y.to(torch.float64)
    residual = torch.fft.fft2(y) - g * torch.fft.fft2(mean)
    return Gaussian(mean + torch.fft.ifft2(K * residual).real, Stationary(v * r**2 / total))


def mixture_posterior(prior: Mixture, H: Tensor, y: Tensor, r: float) -> Mixture:
    """For one measurement y of shape (1, …)."""
    if y.shape[0] != 1:
        raise BadInput(f"The posterior of a mixture is made for one measurement at a time, got {y.shape[0]}.")
    H64, target = H.to(torch.float64), y.to(torch.float64).flatten()
    logs = []
    for part in prior.components:
        S = H64 @ part.covariance.matrix() @ H64.T + r**2 * torch.eye(H.shape[0], dtype=torch.float64)
        predicted = torch.distributions.MultivariateNormal(H64 @ part.mean.to(torch.float64).flatten(), S)
        logs.append(predicted.log_prob(target))
    weights = (torch.stack(logs) + prior.weights.log()).softmax(0)
    parts = [dense_posterior(part, H, y, r) for part in prior.components]
    kept = [
        k for k, w in enumerate(weights.tolist()) if w > 0.0
    ]  # what the measurement rules out is left out
    return Mixture(weights[kept], tuple(Gaussian(parts[k].mean[0], parts[k].covariance) for k in kept))
