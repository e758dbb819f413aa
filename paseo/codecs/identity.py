"""The codec that loses nothing: space to depth, so that pixel models fit where latents are expected.

encode: (B, 3, H, W) → (B, 3f², H/f, W/f)        decode is its exact inverse
"""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from paseo.errors import BadInput


@dataclass(frozen=True)
class IdentityCodec:
    """Each f×f block of pixels becomes one cell with 3f² channels; f = 1 leaves the image as it is."""

    factor: int = 1  # f
    # of the images on [-1,1]: latents are in units of it, so that a unit-variance prior fits
    std: float = 1.0

    def __post_init__(self) -> None:
        if not self.std > 0:
            raise BadInput(
                f"std={self.std} cannot be used: it is the standard deviation of images on [-1,1], such as "
                "0.5."
            )
        if self.factor < 1:
            raise BadInput(
                f"factor={self.factor} cannot be used: it counts pixels per cell and side and starts at 1."
            )

    @property
    def channels(self) -> int:
        return 3 * self.factor**2

    @property
    def latent_space(self) -> str:
        return f"identity-{self.factor}"

    def encode(self, x: Tensor) -> Tensor:
        if x.ndim != 4 or x.shape[1] != 3 or x.shape[2] % self.factor or x.shape[3] % self.factor:
            raise BadInput(
                f"The codec takes (B,3,H,W) with H and W multiples of {self.factor}, got {tuple(x.shape)}."
            )
        return F.pixel_unshuffle(x, self.factor) / self.std

    def decode(self, z: Tensor) -> Tensor:
        if z.ndim != 4 or z.shape[1] != self.channels:
            raise BadInput(f"The codec decodes (B,{self.channels},h,w), got {tuple(z.shape)}.")
        return F.pixel_shuffle(z, self.factor) * self.std
