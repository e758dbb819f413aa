"""JPEG as a degradation: the exact codec in value, its differentiable twin in derivative.

    A(x) = decode(encode(x, quality)),    dA(x) := dÃ(x)

Values are bit for bit those of a JPEG file (4:2:0, baseline), so an image is first rounded to 8 bit. Its true
derivative is 0 almost everywhere; gradient methods therefore see that of the twin Ã at the same point
(`SoftJPEG`: polynomial rounding as in the public codes, or straight-through). There is no adjoint.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.autograd import forward_ad

from paseo.degrade.common import Size, check_images, check_size, size_of
from paseo.degrade.jpeg_exact import round_trip
from paseo.degrade.jpeg_tables import check_quality
from paseo.degrade.jpeg_twin import Rounding, SoftJPEG, no_adjoint
from paseo.errors import BadInput


@dataclass(frozen=True)
class JPEG:
    """A(x): JPEG compression of images (B,3,H,W) in [-1,1], same size. Not linear.

    `twin` is the codec whose derivatives it shows; use it in A's place where value and derivative must belong
    together.
    """

    quality: int = 10  # 1 … 100
    rounding: Rounding = "polynomial"  # of the twin
    linear: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_quality(self.quality)
        SoftJPEG(self.quality, self.rounding)  # checks the rounding

    @property
    def name(self) -> str:
        return "jpeg"

    @property
    def params(self) -> dict[str, object]:
        return {"quality": self.quality}

    @property
    def twin(self) -> SoftJPEG:
        """The differentiable codec of the same quality."""
        return SoftJPEG(self.quality, self.rounding)

    def output_size(self, height: int, width: int) -> Size:
        return height, width

    def __call__(self, x: Tensor) -> Tensor:
        """The decoded image, on the 256 levels of 8 bit."""
        check_images(x, channels=3)
        y = _exact(x.detach(), self.quality)
        if not _differentiating(x):
            return y
        soft = self.twin(x)
        return y + (soft - soft.detach())  # adds exactly 0 to the value, and the twin's derivative

    def lift(self, y: Tensor, size: Size | None = None) -> Tensor:
        """The measurement itself: it has the image's size."""
        check_size(size, y, size or size_of(y), "JPEG")
        return y

    def adjoint(self, y: Tensor, size: Size | None = None) -> Tensor:
        """There is none: the codec is not linear."""
        raise no_adjoint()


def _exact(x: Tensor, quality: int) -> Tensor:
    if not bool(torch.isfinite(x).all()):
        raise BadInput("JPEG cannot encode NaN or infinite pixels.")
    levels = ((x.float() + 1) * 127.5).round().clamp(0, 255).to(torch.int32)
    return round_trip(levels, quality).to(x.dtype) / 127.5 - 1


def _differentiating(x: Tensor) -> bool:
    """Whether somebody asks for a derivative: autograd, forward mode, or torch.func, which shows itself as
    one of them.
    """
    return (torch.is_grad_enabled() and x.requires_grad) or forward_ad.unpack_dual(x).tangent is not None
