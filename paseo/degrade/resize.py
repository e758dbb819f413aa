"""Super-resolution: antialiased bicubic down-sampling by any factor, its adjoint, and the bicubic way back
up.

    y = W_h x W_wᵀ,    W[j,i] ∝ κ((u_j − i)/s),    u_j = (j + ½)s − ½

κ is Keys' cubic with a = −½, stretched by the factor s so that it also removes what the small grid cannot
carry; pixels are aligned by their centres, rows are normalised to sum 1, and beyond the border the image is
mirrored with its edge pixel repeated. This is MATLAB's `imresize`, and the down-sampling of DPS, PSLD, DAPS
and SILO. (torch's and Pillow's antialiased bicubic agree with it except at the border, where they renormalise
instead of mirroring.)

An image whose side is no multiple of the factor gives ceil(H/s) rows; the last one looks past the border.
`lift` and `adjoint` take the image size as an argument for such images, since the measurement alone does not
tell it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from paseo.degrade.common import Size, check_images, check_positive, check_size, separable, size_of, wide

_SLACK = 1e-9  # a side that is a multiple of a fractional factor must not be rounded up by its last bit


@dataclass(frozen=True)
class Downsample:
    """A(x): antialiased bicubic down-sampling of images (B,C,H,W) in [-1,1] to (B,C,⌈H/s⌉,⌈W/s⌉). Linear."""

    factor: float = 4.0  # s ≥ 1, image pixels per measured pixel and side
    linear: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_positive(self.factor, "The down-sampling factor", at_least=1.0)

    @property
    def name(self) -> str:
        return f"sr{self.factor:g}"

    @property
    def params(self) -> dict[str, object]:
        return {"factor": self.factor}

    def output_size(self, height: int, width: int) -> Size:
        """Size of the measurement of an image."""
        return math.ceil(height / self.factor - _SLACK), math.ceil(width / self.factor - _SLACK)

    def image_size(self, height: int, width: int) -> Size:
        """The largest image that has a measurement of this size."""
        return math.floor(height * self.factor + _SLACK), math.floor(width * self.factor + _SLACK)

    def __call__(self, x: Tensor) -> Tensor:
        """The measurement without noise; not clamped (the cubic overshoots a little at edges)."""
        check_images(x)
        h, w = size_of(x)
        m, n = self.output_size(h, w)
        return _apply(x, ("down", h, m, self.factor), ("down", w, n, self.factor))

    def lift(self, y: Tensor, size: Size | None = None) -> Tensor:
        """Bicubic up-sampling back to the image's grid; `size` (H, W) for images that are no multiple of the
        factor.
        """
        size = self._image_size_of(y, size)
        m, n = size_of(y)
        return _apply(y, ("up", m, size[0], self.factor), ("up", n, size[1], self.factor))

    def adjoint(self, y: Tensor, size: Size | None = None) -> Tensor:
        """Aᵀy, an image of the given size: ⟨Ax, y⟩ = ⟨x, Aᵀy⟩."""
        size = self._image_size_of(y, size)
        m, n = size_of(y)
        return _apply(
            y, ("down", size[0], m, self.factor), ("down", size[1], n, self.factor), transposed=True
        )

    def _image_size_of(self, y: Tensor, size: Size | None) -> Size:
        check_images(y, "The measurement")
        size = size or self.image_size(*size_of(y))
        check_size(size, y, self.output_size(*size), f"Down-sampling by {self.factor:g}")
        return size


def resize(x: Tensor, size: Size) -> Tensor:
    """Any size → any size with the same kernel; used to lift measurements of degradations without a known
    factor.
    """
    check_images(x)
    h, w = size_of(x)
    ways = [
        ("down" if m <= n else "up", n, m, n / m if m <= n else m / n)
        for n, m in ((h, size[0]), (w, size[1]))
    ]
    return _apply(x, ways[0], ways[1])


Way = tuple[str, int, int, float]  # direction, samples in, samples out, factor


def _apply(x: Tensor, rows: Way, columns: Way, *, transposed: bool = False) -> Tensor:
    a, b = (_matrix(*way, wide(x).dtype, x.device) for way in (rows, columns))
    return separable(x, a.mT, b.mT) if transposed else separable(x, a, b)


@lru_cache(maxsize=32)
def _matrix(
    direction: str, n_in: int, n_out: int, factor: float, dtype: torch.dtype, device: torch.device
) -> Tensor:
    with torch.inference_mode(
        False
    ):  # a matrix that is first needed in inference mode must still serve autograd later
        return torch.from_numpy(
            bicubic_matrix(n_in, n_out, 1 / factor if direction == "down" else factor)
        ).to(device, dtype)


def bicubic_matrix(n_in: int, n_out: int, scale: float) -> np.ndarray:
    """The (n_out, n_in) weights of one side; `scale` is output samples per input sample."""
    stretch = max(1.0, 1.0 / scale)
    centre = (np.arange(n_out) + 0.5) / scale - 0.5
    first = np.floor(centre - 2 * stretch).astype(int)
    taps = first[:, None] + np.arange(math.ceil(4 * stretch) + 2)
    weight = _cubic((centre[:, None] - taps) / stretch)
    weight /= weight.sum(axis=1, keepdims=True)
    matrix = np.zeros((n_out, n_in))
    folded = taps % (2 * n_in)  # … 1 0 | 0 1 … n−1 | n−1 n−2 …
    np.add.at(
        matrix, (np.arange(n_out)[:, None], np.where(folded < n_in, folded, 2 * n_in - 1 - folded)), weight
    )
    return matrix


def _cubic(t: np.ndarray) -> np.ndarray:
    """Keys (1981) with a = −½."""
    t = np.abs(t)
    inner = 1.5 * t**3 - 2.5 * t**2 + 1
    outer = -0.5 * t**3 + 2.5 * t**2 - 4 * t + 2
    return np.where(t <= 1, inner, np.where(t <= 2, outer, 0.0))
