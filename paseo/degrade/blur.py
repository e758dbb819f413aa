"""Blur: convolution with a kernel of sum 1 on an image mirrored at its borders (the edge pixel is not
repeated).

    y(p) = Σ_u k(u) x(p − u)

The task of the paper is a Gaussian "61×61, σ = 3". Its kernel is cut at 4σ, so only the central 25×25 taps
are not zero; it is separable, one matrix per side. Images smaller than the kernel are mirrored as often as
needed. The adjoint correlates with the kernel and folds the mirrored margins back onto the pixels they were
copied from; it is not the blur itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from paseo.degrade.common import Size, check_images, check_positive, check_size, separable, size_of, wide
from paseo.degrade.kernels import (
    Moments,
    gaussian_kernel,
    gaussian_moments,
    moments_of,
    motion_kernel,
    motion_moments,
)
from paseo.errors import BadInput


@dataclass(frozen=True)
class GaussianBlur:
    """A(x): Gaussian blur of images (B,C,H,W) in [-1,1], same size. Linear."""

    sigma: float = 3.0  # in pixels
    size: int = 61  # side of the kernel; taps beyond 4σ are zero and not computed
    linear: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_positive(self.sigma, "The blur's sigma")
        if not (isinstance(self.size, int) and self.size > 0 and self.size % 2):
            raise BadInput(f"The blur kernel's side must be an odd number of pixels, got {self.size!r}.")

    @property
    def name(self) -> str:
        return "blur"

    @property
    def params(self) -> dict[str, object]:
        return {"sigma": self.sigma, "size": self.size}

    @property
    def moments(self) -> Moments:
        return gaussian_moments(self.sigma, self.sigma, 0.0)

    @property
    def taps(self) -> Tensor:
        """The one-dimensional kernel in float64; the kernel is its outer product with itself."""
        return _gaussian(self.sigma, self.size)

    def output_size(self, height: int, width: int) -> Size:
        return height, width

    def __call__(self, x: Tensor) -> Tensor:
        """The measurement without noise; not clamped."""
        check_images(x)
        return separable(x, *self._matrices(x))

    def lift(self, y: Tensor, size: Size | None = None) -> Tensor:
        """The measurement itself: it has the image's size."""
        check_size(size, y, size or size_of(y), "Blur")
        return y

    def adjoint(self, y: Tensor, size: Size | None = None) -> Tensor:
        """Aᵀy: ⟨Ax, y⟩ = ⟨x, Aᵀy⟩, borders included."""
        check_images(y, "The measurement")
        rows, columns = self._matrices(self.lift(y, size))
        return separable(y, rows.mT, columns.mT)

    def _matrices(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The blur of all columns and of all rows; on CPUs their products are many times faster than a
        depthwise convolution.
        """
        rows, columns = (_blur_matrix(self.sigma, self.size, n, wide(x).dtype, x.device) for n in size_of(x))
        return rows, columns


class KernelBlur(ABC):
    """What all blurs by a kernel share; a subclass says which one."""

    linear: ClassVar[bool] = True

    @abstractmethod
    def spread(self) -> Tensor:
        """(h, w), odd sides and sum 1: what a single bright pixel becomes."""

    def output_size(self, height: int, width: int) -> Size:
        return height, width

    def __call__(self, x: Tensor) -> Tensor:
        """The measurement without noise; not clamped."""
        check_images(x)
        return _convolve(x, self.spread())

    def lift(self, y: Tensor, size: Size | None = None) -> Tensor:
        """The measurement itself: it has the image's size."""
        check_size(size, y, size or size_of(y), "Blur")
        return y

    def adjoint(self, y: Tensor, size: Size | None = None) -> Tensor:
        """Aᵀy: ⟨Ax, y⟩ = ⟨x, Aᵀy⟩, borders included."""
        check_images(y, "The measurement")
        return _convolve_adjoint(self.lift(y, size), self.spread())


@dataclass(frozen=True, eq=False)
class Blur(KernelBlur):
    """A(x): blur with any kernel of odd sides, normalised to sum 1, such as a lens. Linear."""

    kernel: Tensor  # (h, w): what a single bright pixel becomes
    name: str = "blur"

    def __post_init__(self) -> None:
        k = torch.as_tensor(self.kernel, dtype=torch.float64, device="cpu").detach()
        if k.ndim != 2 or not all(side % 2 for side in k.shape):
            raise BadInput(
                f"A blur kernel is a matrix with odd sides, got the shape {tuple(k.shape)}. Pad it with "
                "zeros."
            )
        if not bool(torch.isfinite(k).all()) or float(k.sum()) <= 0:
            raise BadInput(
                "A blur kernel must be finite with a sum above 0, so that it can be normalised to keep the "
                "brightness."
            )
        object.__setattr__(self, "kernel", k / k.sum())

    @property
    def params(self) -> dict[str, object]:
        return {"kernel": self.kernel.tolist()}

    def spread(self) -> Tensor:
        return self.kernel

    @property
    def moments(self) -> Moments:
        return moments_of(self.kernel)


@dataclass(frozen=True)
class StretchedBlur(KernelBlur):
    """A(x): Gaussian blur of two widths in pixels, `along` the angle in degrees and `across` it. Linear."""

    along: float
    across: float
    angle: float = 0.0

    def __post_init__(self) -> None:
        for width in (self.along, self.across):
            check_positive(width, "The blur's width")

    @property
    def name(self) -> str:
        return "blur"

    @property
    def params(self) -> dict[str, object]:
        return asdict(self)

    def spread(self) -> Tensor:
        return gaussian_kernel(self.along, self.across, self.angle)

    @property
    def moments(self) -> Moments:
        return gaussian_moments(self.along, self.across, self.angle)


@dataclass(frozen=True)
class MotionBlur(KernelBlur):
    """A(x): an even, straight movement of `length` pixels at an angle in degrees. Linear."""

    length: float
    angle: float = 0.0

    def __post_init__(self) -> None:
        check_positive(self.length, "The length of the movement")

    @property
    def name(self) -> str:
        return "motion"

    @property
    def params(self) -> dict[str, object]:
        return asdict(self)

    def spread(self) -> Tensor:
        return motion_kernel(self.length, self.angle)

    @property
    def moments(self) -> Moments:
        return motion_moments(self.length, self.angle)


@lru_cache(maxsize=32)
def _gaussian(sigma: float, size: int) -> Tensor:
    radius = min(size // 2, int(4 * sigma + 0.5))
    with torch.inference_mode(False):
        u = torch.arange(-radius, radius + 1, dtype=torch.float64)
        taps = torch.exp(-0.5 * (u / sigma) ** 2)
        return taps / taps.sum()


@lru_cache(maxsize=16)
def _blur_matrix(sigma: float, size: int, n: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """(n, n): row i holds the taps around pixel i, with those beyond the border added to the pixels they
    mirror.
    """
    taps = _gaussian(sigma, size)
    with torch.inference_mode(False):
        source = _mirror_index(n, len(taps) // 2).unfold(0, len(taps), 1)  # (n, taps)
        matrix = torch.zeros(n, n, dtype=torch.float64).scatter_add(1, source, taps.expand(n, -1))
        return matrix.to(device, dtype)


def _convolve(x: Tensor, kernel: Tensor) -> Tensor:
    work = wide(x)
    rows, columns = _mirror(x, kernel)
    padded = work.index_select(-2, rows).index_select(-1, columns)
    b, c, h, w = padded.shape
    weight = kernel.flip(0, 1).to(work)[None, None]  # conv2d correlates
    return F.conv2d(padded.reshape(b * c, 1, h, w), weight).reshape(x.shape).to(x.dtype)


def _convolve_adjoint(y: Tensor, kernel: Tensor) -> Tensor:
    work = wide(y)
    b, c, h, w = y.shape
    rows, columns = _mirror(y, kernel)
    spread = F.conv_transpose2d(work.reshape(b * c, 1, h, w), kernel.flip(0, 1).to(work)[None, None])
    folded = spread.new_zeros(b * c, 1, h, spread.shape[-1]).index_add(-2, rows, spread)
    return spread.new_zeros(b * c, 1, h, w).index_add(-1, columns, folded).reshape(y.shape).to(y.dtype)


def _mirror(x: Tensor, kernel: Tensor) -> tuple[Tensor, Tensor]:
    """Which pixel stands at each row and column of the padded image: … 2 1 | 0 1 2 … n−1 | n−2 …"""
    rows, columns = (_mirror_index(n, k // 2) for n, k in zip(size_of(x), kernel.shape, strict=True))
    return rows.to(x.device), columns.to(x.device)


@lru_cache(maxsize=64)
def _mirror_index(n: int, margin: int) -> Tensor:
    with torch.inference_mode(False):
        period = max(2 * (n - 1), 1)
        i = torch.arange(-margin, n + margin) % period
        return torch.where(i < n, i, period - i)
