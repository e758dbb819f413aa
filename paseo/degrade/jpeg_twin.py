"""A JPEG codec that can be differentiated: the one that gradient methods and the public latent operators use.

    rgb → YCbCr → chroma halved → 8×8 DCT of (value − 128) → r(c/Q)·Q → inverse → rgb

Only the rounding r differs from a real codec:

    polynomial   r(u) = ⌊u⌉ + (u − ⌊u⌉)³, with the derivative 3(u − ⌊u⌉)² ∈ [0, ¾]: 0 at the integers
    straight     r(u) = ⌊u⌉, differentiated as if it were u

Shin & Song, "JPEG-resistant Adversarial Images", 2017; the same steps as kornia's
`jpeg_codec_differentiable`, from which this departs in that quantisation tables are true integers and that
sides need not be multiples of 16 (the last row and column are repeated). The result is clamped to [-1,1].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from paseo.degrade.common import Size, check_images, check_size, size_of, to_signed, to_unit, wide
from paseo.degrade.jpeg_tables import check_quality, quantisation_tables
from paseo.errors import BadInput, Unsupported

Rounding = Literal["polynomial", "straight"]


@dataclass(frozen=True)
class SoftJPEG:
    """A(x): JPEG with a differentiable rounding, 4:2:0, images (B,3,H,W) in [-1,1], same size. Not linear."""

    quality: int = 10  # 1 … 100
    rounding: Rounding = "polynomial"
    linear: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_quality(self.quality)
        if self.rounding not in ("polynomial", "straight"):
            raise BadInput(f"JPEG's rounding is 'polynomial' or 'straight', not {self.rounding!r}.")

    @property
    def name(self) -> str:
        return "jpeg"

    @property
    def params(self) -> dict[str, object]:
        return {"quality": self.quality, "rounding": self.rounding}

    def output_size(self, height: int, width: int) -> Size:
        return height, width

    def __call__(self, x: Tensor) -> Tensor:
        """The decoded image."""
        check_images(x, channels=3)
        h, w = size_of(x)
        ycc = _to_ycc(F.pad(to_unit(wide(x)) * 255, (0, -w % 16, 0, -h % 16), mode="replicate"))
        luma_table, chroma_table = (t.to(ycc) for t in quantisation_tables(self.quality))
        luma = self._quantise(ycc[:, :1], luma_table)
        chroma = self._quantise(
            F.interpolate(ycc[:, 1:], scale_factor=0.5, mode="bilinear", antialias=True), chroma_table
        )
        chroma = F.interpolate(chroma, scale_factor=2.0, mode="bilinear")
        rgb = _to_rgb(torch.cat([luma, chroma], dim=1)) / 255
        return to_signed(rgb[..., :h, :w].clamp(0, 1)).to(x.dtype)

    def lift(self, y: Tensor, size: Size | None = None) -> Tensor:
        """The measurement itself: it has the image's size."""
        check_size(size, y, size or size_of(y), "JPEG")
        return y

    def adjoint(self, y: Tensor, size: Size | None = None) -> Tensor:
        """There is none: the codec is not linear."""
        raise no_adjoint()

    def _quantise(self, plane: Tensor, table: Tensor) -> Tensor:
        b, c, h, w = plane.shape
        basis = _dct(plane.dtype, plane.device)
        blocks = (plane - 128).reshape(b, c, h // 8, 8, w // 8, 8).transpose(3, 4)
        u = basis @ blocks @ basis.mT / table
        back = basis.mT @ (self._round(u) * table) @ basis
        return back.transpose(3, 4).reshape(b, c, h, w) + 128

    def _round(self, u: Tensor) -> Tensor:
        nearest = u.round().detach()
        return nearest + (u - nearest) ** 3 if self.rounding == "polynomial" else u + (nearest - u).detach()


def no_adjoint() -> Unsupported:
    """The error that both codecs raise when asked for an adjoint."""
    return Unsupported(
        "JPEG has no adjoint: quantisation is not linear. Use a method that needs none, or gradients "
        "through the codec."
    )


def _to_ycc(rgb: Tensor) -> Tensor:
    """JFIF, all on 0 … 255 with chroma centred at 128."""
    r, g, b = rgb.unbind(1)
    y = 0.299 * r + 0.587 * g + 0.114 * b
    return torch.stack([y, 0.564 * (b - y) + 128, 0.713 * (r - y) + 128], dim=1)


def _to_rgb(ycc: Tensor) -> Tensor:
    y, cb, cr = ycc.unbind(1)
    cb, cr = cb - 128, cr - 128
    return torch.stack([y + 1.403 * cr, y - 0.714 * cr - 0.344 * cb, y + 1.773 * cb], dim=1)


@lru_cache(maxsize=8)
def _dct(dtype: torch.dtype, device: torch.device) -> Tensor:
    """The orthonormal DCT-II of length 8."""
    with torch.inference_mode(False):
        k = torch.arange(8, dtype=torch.float64)
        basis = 0.5 * torch.cos(math.pi / 16 * k[:, None] * (2 * k + 1))
        basis[0] = math.sqrt(1 / 8)
        return basis.to(device, dtype)
