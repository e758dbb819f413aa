"""Covariances through their eigenvalues: `apply(f, x)` is f(C) x, without a matrix where the structure allows
it.

    Isotropic    v·I                             any shape
    Dense        U diag(v) Uᵀ                    one eigendecomposition, in float64
    Stationary   Fᴴ diag(v) F                    circulant per channel: v is the power of each Fourier mode

With x of shape (B, *shape). Everything an exact Gaussian prior needs is a function of C: the denoiser's gain,
a square root for drawing, a log-determinant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from paseo.errors import BadInput

Function = Callable[[Tensor], Tensor]  # of eigenvalues, entrywise


class Covariance(Protocol):
    """A symmetric positive semi-definite matrix on latents of `shape`."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def values(self) -> Tensor:
        """All eigenvalues, in float64; their number is the latent's dimension."""
        ...

    def apply(self, f: Function, x: Tensor) -> Tensor: ...
    def diagonal(self) -> Tensor:
        """The variance of each entry, of `shape`."""
        ...

    def matrix(self) -> Tensor: ...


class Isotropic:
    """v·I."""

    def __init__(self, variance: float, shape: tuple[int, ...]) -> None:
        if not variance >= 0:
            raise BadInput(f"variance={variance} cannot be used: a variance is not negative.")
        self.variance, self.shape = float(variance), tuple(shape)

    @property
    def values(self) -> Tensor:
        return torch.full((_size(self.shape),), self.variance, dtype=torch.float64)

    def apply(self, f: Function, x: Tensor) -> Tensor:
        return float(f(torch.tensor(self.variance, dtype=torch.float64))) * x

    def diagonal(self) -> Tensor:
        return self.values.view(self.shape)

    def matrix(self) -> Tensor:
        return torch.diag(self.values)


class Dense:
    """Any covariance matrix, of latents with `shape` (by default vectors)."""

    def __init__(self, matrix: Tensor, shape: tuple[int, ...] | None = None) -> None:
        C = matrix.detach().to(torch.float64)
        if C.ndim != 2 or C.shape[0] != C.shape[1] or not torch.isfinite(C).all():
            raise BadInput(f"A covariance is a finite square matrix, got shape {tuple(C.shape)}.")
        self.shape = tuple(shape) if shape is not None else (C.shape[0],)
        if _size(self.shape) != C.shape[0]:
            raise BadInput(
                f"A covariance of {C.shape[0]} entries does not fit latents of shape {self.shape}."
            )
        if (C - C.T).abs().max() > 1e-6 * C.abs().max():
            raise BadInput("The covariance is not symmetric. Pass (C + C.T) / 2 if that is what was meant.")
        values, self.vectors = torch.linalg.eigh((C + C.T) / 2)
        if values.min() < -1e-6 * values.abs().max():
            raise BadInput(
                f"The covariance has a negative eigenvalue, {values.min():.3g}; variances are not negative."
            )
        self._values = values.clamp_min(0.0)  # what rounding left below zero

    @property
    def values(self) -> Tensor:
        return self._values

    def apply(self, f: Function, x: Tensor) -> Tensor:
        U = self.vectors.to(x)
        return ((x.flatten(1) @ U) * f(self._values).to(x) @ U.T).view(x.shape)

    def diagonal(self) -> Tensor:
        return (self.vectors.square() @ self._values).view(self.shape)

    def matrix(self) -> Tensor:
        return self.vectors * self._values @ self.vectors.T


class Stationary:
    """The same statistics at every place of a torus: `power` (c, h, w) holds the variance of each orthonormal
    Fourier mode.
    """

    def __init__(self, power: Tensor) -> None:
        power = power.detach().to(torch.float64)
        if power.ndim != 3 or not torch.isfinite(power).all() or power.min() < 0:
            raise BadInput(
                "A power spectrum is a finite, non-negative tensor (channels, height, width), got "
                f"{tuple(power.shape)}."
            )
        mirrored = power.flip(-2, -1).roll((1, 1), (-2, -1))  # the power at −f
        if (power - mirrored).abs().max() > 1e-6 * power.max():
            raise BadInput(
                "The spectrum of a real latent is symmetric, power(−f) = power(f), and this one is not."
            )
        self.power, self.shape = power, tuple(power.shape)

    @property
    def values(self) -> Tensor:
        return self.power.flatten()

    def apply(self, f: Function, x: Tensor) -> Tensor:
        half = f(self.power[..., : self.shape[-1] // 2 + 1]).to(x)
        return torch.fft.irfft2(torch.fft.rfft2(x) * half, s=self.shape[-2:])

    def diagonal(self) -> Tensor:
        return self.power.mean((-2, -1), keepdim=True).expand(self.shape)

    def matrix(self) -> Tensor:
        eye = torch.eye(_size(self.shape), dtype=torch.float64).view(-1, *self.shape)
        return self.apply(lambda v: v, eye).flatten(1)


def natural_spectrum(shape: tuple[int, int, int], exponent: float = 1.0) -> Tensor:
    """Power of a natural-image-like latent: amplitude ∝ 1/f^exponent in every channel, each entry of unit
    variance.

    f is the radial frequency in cycles per cell; the constant mode is given the power of the coarsest wave.
    """
    c, h, w = shape
    f = radial_frequency(h, w)
    power = f.clamp_min(1.0 / max(h, w)) ** (-2.0 * exponent)
    return (power / power.mean()).expand(c, h, w).clone()


def radial_frequency(h: int, w: int) -> Tensor:
    """|f| in cycles per cell of each mode of an (h, w) FFT, in float64."""
    fy, fx = torch.fft.fftfreq(h, dtype=torch.float64), torch.fft.fftfreq(w, dtype=torch.float64)
    return (fy[:, None] ** 2 + fx[None, :] ** 2).sqrt()


def _size(shape: tuple[int, ...]) -> int:
    return int(torch.Size(shape).numel())
