"""Operators that are known exactly: linear maps of the latent, and the chain E∘A∘D itself.

    LatentMask    M ∘ z                     hides cells
    LatentBlur    k ⊛ z, circular           diagonal in Fourier
    LatentMatrix  H z on the flat latent    any (q, d) matrix
    Chain         E(lift(A(D(z))))          what a learned operator stands for, at the price of the codec

The linear ones bring `linearize(z)`, whose products cost one application each, and `solve(b, trust, eta2)`,
which returns (trust·I + eta2·H Hᵀ)⁻¹ b in closed form: with them a sampler can be compared with the posterior
itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from paseo.base import Codec, Degradation
from paseo.errors import BadInput

Map = Callable[[Tensor], Tensor]


class Linear(ABC):
    """What the exact maps share."""

    @abstractmethod
    def __call__(self, z: Tensor) -> Tensor: ...
    @abstractmethod
    def adjoint(self, y: Tensor) -> Tensor: ...
    @abstractmethod
    def solve(self, b: Tensor, trust: float, eta2: float) -> Tensor:
        """(trust·I + eta2·H Hᵀ)⁻¹ b."""
        ...

    def linearize(self, z: Tensor) -> tuple[Tensor, Map, Map]:
        """(H z, H, Hᵀ): a linear map is its own derivative, everywhere."""
        return self(z), self, self.adjoint

    def matrix(self, shape: tuple[int, ...]) -> Tensor:
        """H on flattened latents of `shape`, as (q, d) in float64."""
        size = int(torch.Size(shape).numel())
        return self(torch.eye(size, dtype=torch.float64).view(-1, *shape)).flatten(1).T.contiguous()


@dataclass(frozen=True, eq=False)
class LatentMask(Linear):
    """H z = M ∘ z with entries in [0, 1], broadcast over batch and channels; 1 = seen."""

    mask: Tensor

    def __post_init__(self) -> None:
        if not ((self.mask >= 0) & (self.mask <= 1)).all():
            raise BadInput("A mask has entries from 0 (hidden) to 1 (seen).")

    @classmethod
    def holes(cls, size: tuple[int, int], hidden: float = 0.2, cell: int = 2, seed: int = 0) -> LatentMask:
        """Square holes of `cell` × `cell`, on their own grid, that hide the given part of the latent at
        random.
        """
        h, w = size
        if h % cell or w % cell or not 0 <= hidden <= 1:
            raise BadInput(
                f"Holes of {cell} cells hiding {hidden} of the latent do not fit a latent of {h}×{w}."
            )
        blocks = torch.randperm((h // cell) * (w // cell), generator=torch.Generator().manual_seed(seed))
        seen = (blocks >= round(hidden * blocks.numel())).view(h // cell, w // cell)
        return cls(seen.repeat_interleave(cell, 0).repeat_interleave(cell, 1).float())

    @classmethod
    def nothing(cls) -> LatentMask:
        """Observes nothing: a sampler with it draws from its prior."""
        return cls(torch.zeros(()))

    def __call__(self, z: Tensor) -> Tensor:
        return self.mask.to(z) * z

    def adjoint(self, y: Tensor) -> Tensor:
        return self.mask.to(y) * y

    def solve(self, b: Tensor, trust: float, eta2: float) -> Tensor:
        return b / (trust + eta2 * self.mask.to(b).square())


@dataclass(frozen=True, eq=False)
class LatentBlur(Linear):
    """Circular convolution of every channel, given by its transfer function g(f), the kernel's FFT."""

    transfer: Tensor  # complex or real

    @classmethod
    def gaussian(cls, size: tuple[int, int], std: float = 1.0) -> LatentBlur:
        """A Gaussian kernel of `std` cells, sampled at the cells and scaled to sum 1."""
        h, w = size
        y, x = (
            torch.fft.fftfreq(n, 1.0 / n, dtype=torch.float64) for n in (h, w)
        )  # offsets 0, 1, …, −1 around the torus
        kernel = torch.exp(-(y[:, None] ** 2 + x[None, :] ** 2) / (2.0 * std**2))
        return cls.kernel(kernel / kernel.sum())

    @classmethod
    def kernel(cls, kernel: Tensor) -> LatentBlur:
        """From a kernel of the latent's size with its centre at [0, 0]."""
        return cls(torch.fft.fft2(kernel.to(torch.float64)))

    def __call__(self, z: Tensor) -> Tensor:
        return self._multiply(z, self._half)

    def adjoint(self, y: Tensor) -> Tensor:
        return self._multiply(y, self._half.conj())

    def solve(self, b: Tensor, trust: float, eta2: float) -> Tensor:
        return self._multiply(b, 1.0 / (trust + eta2 * self._half.abs() ** 2))

    @property
    def _half(self) -> Tensor:
        return self.transfer[
            ..., : self.transfer.shape[-1] // 2 + 1
        ]  # real signals need half of the spectrum

    def _multiply(self, z: Tensor, half: Tensor) -> Tensor:
        if z.shape[-2:] != self.transfer.shape[-2:]:
            raise BadInput(
                f"This blur is made for {tuple(self.transfer.shape[-2:])} cells, got {tuple(z.shape[-2:])}."
            )
        spectrum = torch.fft.rfft2(z)
        return torch.fft.irfft2(spectrum * half.to(spectrum), s=z.shape[-2:])


class LatentMatrix(Linear):
    """H z with any (q, d) matrix on the flattened latent; the measurement is (B, q)."""

    def __init__(self, matrix: Tensor, shape: tuple[int, ...] | None = None) -> None:
        if matrix.ndim != 2 or not torch.isfinite(matrix).all():
            raise BadInput(f"A linear operator is a finite (q, d) matrix, got shape {tuple(matrix.shape)}.")
        self.H, self.shape = matrix, shape or (matrix.shape[1],)
        if torch.Size(self.shape).numel() != matrix.shape[1]:
            raise BadInput(
                f"A matrix with {matrix.shape[1]} columns does not fit latents of shape {self.shape}."
            )
        values, self.vectors = torch.linalg.eigh(matrix.to(torch.float64) @ matrix.to(torch.float64).T)
        self.values = values.clamp_min(0.0)  # eigenvalues of H Hᵀ

    def __call__(self, z: Tensor) -> Tensor:
        return z.flatten(1) @ self.H.to(z).T

    def adjoint(self, y: Tensor) -> Tensor:
        return (y @ self.H.to(y)).view(-1, *self.shape)

    def solve(self, b: Tensor, trust: float, eta2: float) -> Tensor:
        U = self.vectors.to(b)
        return (b @ U / (trust + eta2 * self.values).to(b)) @ U.T


@dataclass(frozen=True, eq=False)
class Chain:
    """E∘A∘D: decode, degrade, lift to image size, encode. Differentiable wherever its parts are."""

    codec: Codec
    degradation: Degradation

    def __call__(self, z: Tensor) -> Tensor:
        x = self.codec.decode(z)
        return self.codec.encode(self.degradation.lift(self.degradation(x), (x.shape[-2], x.shape[-1])))
