"""What an operator is told of a degradation: a handful of numbers c, all 0 where nothing was done, and which
pixels are seen.

    width_xx, width_xy, width_yy   root of the blur kernels' second moments, in px ((σ, 0, σ) where round)
    motion                         share of those moments that a straight movement has, 0 to 1
    octaves                        log₂ of the down-sampling factor
    grain                          std of noise before the compression, on [0,1] images, ×10
    jpeg                           1 where the picture was stored as JPEG
    coarseness                     log₂(1 + S/10), S libjpeg's percentage for its tables: 0 at quality 100

Chains are described in the order blur, down-sampling, noise, JPEG: that of a camera and a web upload.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from paseo.base import Condition, Degradation, HoldsDegradation
from paseo.degrade.blur import Blur, GaussianBlur, MotionBlur, StretchedBlur
from paseo.degrade.common import Size
from paseo.degrade.compose import Compose
from paseo.degrade.grain import Grain
from paseo.degrade.jpeg import JPEG
from paseo.degrade.jpeg_tables import table_scale
from paseo.degrade.kernels import widths_of
from paseo.degrade.mask import Masking
from paseo.degrade.resize import Downsample
from paseo.errors import Unsupported

PARAMETERS = ("width_xx", "width_xy", "width_yy", "motion", "octaves", "grain", "jpeg", "coarseness")
SUBCELLS = 4  # per side of a latent cell: seen pixels are told as 4×4 means
_BLURS = (GaussianBlur, StretchedBlur, MotionBlur, Blur)
_ORDER = ((*_BLURS, Masking), (Downsample,), (Grain,), (JPEG,))


def condition_of(degradation: Degradation, factor: int, size: Size, padded: Size | None = None) -> Condition:
    """c and the seen pixels of an image of `size` that is mirrored up to `padded` before the encoder."""
    parts = parts_of(degradation)
    masks = [part for part in parts if isinstance(part, Masking)]
    seen = None
    for mask in masks:
        one = seen_blocks(_mirrored(mask.observed_at(*size), padded or size), factor)
        seen = one if seen is None else seen * one
    return Condition(numbers_of(parts), seen)


def parts_of(degradation: Degradation) -> tuple[Degradation, ...]:
    """The parts of a chain, or the degradation alone."""
    inner = degradation.degradation if isinstance(degradation, HoldsDegradation) else degradation
    return inner.parts if isinstance(inner, Compose) else (inner,)


def numbers_of(parts: Sequence[Degradation]) -> dict[str, float]:
    """c by name; raises Unsupported for what the family does not know."""
    reached = 0
    for part in parts:
        place = next((i for i, kinds in enumerate(_ORDER) if isinstance(part, kinds)), None)
        if place is None:
            raise Unsupported(
                f"{part.name} is no member of the family of blur, down-sampling, noise, JPEG and masks. "
                "Train an operator for it with `paseo train operator`."
            )
        if place < reached:
            raise Unsupported(
                "The family knows chains in the order blur, down-sampling, noise, JPEG; "
                f"here {part.name} comes too late. Train an operator for this chain."
            )
        reached = place
    return _blur_numbers(parts) | _other_numbers(parts)


def _blur_numbers(parts: Sequence[Degradation]) -> dict[str, float]:
    total, moved = [0.0, 0.0, 0.0], 0.0
    for part in parts:
        if isinstance(part, _BLURS):
            total = [a + b for a, b in zip(total, part.moments, strict=True)]
            moved += part.moments[0] + part.moments[2] if isinstance(part, MotionBlur) else 0.0
    names = PARAMETERS[:3]
    widths = widths_of((total[0], total[1], total[2]))
    spread = total[0] + total[2]
    return dict(zip(names, widths, strict=True)) | {"motion": moved / spread if spread else 0.0}


def _other_numbers(parts: Sequence[Degradation]) -> dict[str, float]:
    factor = math.prod(part.factor for part in parts if isinstance(part, Downsample))
    grain = math.sqrt(sum(part.sigma**2 for part in parts if isinstance(part, Grain)))
    jpegs = [part for part in parts if isinstance(part, JPEG)]
    scale = max((table_scale(part.quality) for part in jpegs), default=0)
    return {
        "octaves": math.log2(factor),
        "grain": 10 * grain,
        "jpeg": float(bool(jpegs)),
        "coarseness": math.log2(1 + scale / 10),
    }


def with_found(numbers: Mapping[str, float], found: Mapping[str, float]) -> dict[str, float]:
    """c with the blur's width σ and the factor that were found, where they were."""
    told = dict(numbers)
    if "sigma" in found:
        told |= {"width_xx": found["sigma"], "width_xy": 0.0, "width_yy": found["sigma"]}
    if "factor" in found:
        told["octaves"] = math.log2(found["factor"])
    return told


def seen_blocks(observed: Tensor, factor: int) -> Tensor:
    """(B, 16, h, w): the share of seen pixels in each of 4×4 parts of a latent cell, of a mask (B,1,H,W)."""
    side = max(1, factor // SUBCELLS)
    return F.pixel_unshuffle(F.avg_pool2d(observed, side), SUBCELLS)


def _mirrored(mask: Tensor, size: Size) -> Tensor:
    """The mask of an image that was mirrored at the bottom and the right up to `size`."""
    for axis, target in ((-2, size[0]), (-1, size[1])):
        n = mask.shape[axis]
        period = max(2 * (n - 1), 1)
        i = torch.arange(target) % period
        mask = mask.index_select(axis, torch.where(i < n, i, period - i))
    return mask
