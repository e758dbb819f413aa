"""Random crops of pictures of any sizes, decoded as they are needed: scale, place and mirror are drawn on the
fly.

A picture whose short side is S is first reduced so that its short side is log-uniform between `side` and S
(it is never enlarged, unless it is smaller than a crop), then a square of `side` pixels is cut out anywhere
and mirrored half of the time. Several sets are mixed by share, so that a few sharp photographs are not
outnumbered by a hundred thousand small ones.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from paseo.train.data import Source, to_tensor

if TYPE_CHECKING:
    from PIL import Image


@dataclass(frozen=True, eq=False)
class CropSet:
    """Training crops of `side` pixels from several sets of pictures, `shares[i]` of them from `sets[i]`."""

    sets: Sequence[Sequence[Source]]
    shares: Sequence[float]
    side: int

    def batch(self, count: int, rng: torch.Generator) -> Tensor:
        """(count,3,side,side) float in [-1,1]; everything about them is drawn from `rng`."""
        chosen = torch.multinomial(torch.tensor(self.shares), count, replacement=True, generator=rng)
        crops = []
        for k in chosen.tolist():
            u = torch.rand(5, generator=rng, dtype=torch.float64).tolist()
            source = self.sets[k][int(u[0] * len(self.sets[k]))]
            crops.append(random_crop(source.read(), self.side, u[1:]))
        return to_tensor(np.stack(crops))


def random_crop(blob: bytes, side: int, u: Sequence[float]) -> np.ndarray:
    """(side,side,3) uint8 of an encoded picture; u holds four uniform numbers: scale, top, left, mirror."""
    from PIL import Image

    picture = _upright(blob)
    short = min(picture.size)
    target = side * math.exp(u[0] * math.log(max(1.0, short / side)))
    scale = target / short
    if abs(scale - 1) > 0.02:  # hardly smaller is left as it is: a resampling would only soften it
        size = (max(side, round(picture.width * scale)), max(side, round(picture.height * scale)))
        picture = picture.resize(size, Image.Resampling.LANCZOS)
    top, left = int(u[1] * (picture.height - side + 1)), int(u[2] * (picture.width - side + 1))
    pixels = np.asarray(picture.crop((left, top, left + side, top + side)))
    return pixels[:, ::-1] if u[3] < 0.5 else pixels


def centre_crop(blob: bytes, side: int) -> np.ndarray:
    """(side,side,3) uint8 from the middle, at the picture's own scale; a smaller picture is enlarged."""
    from PIL import Image

    picture = _upright(blob)
    if min(picture.size) < side:
        scale = side / min(picture.size)
        size = (max(side, round(picture.width * scale)), max(side, round(picture.height * scale)))
        picture = picture.resize(size, Image.Resampling.LANCZOS)
    left, top = (picture.width - side) // 2, (picture.height - side) // 2
    return np.asarray(picture.crop((left, top, left + side, top + side)))


def _upright(blob: bytes) -> Image.Image:
    from PIL import Image, ImageOps

    with Image.open(io.BytesIO(blob)) as image:
        return ImageOps.exif_transpose(image).convert("RGB")
