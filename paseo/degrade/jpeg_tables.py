"""The quantisation tables of JPEG: ISO/IEC 10918-1 Annex K, scaled by quality as libjpeg does.

Q(q) = clip(⌊(Q·S + 50)/100⌋, 1, 255),    S = 5000/q for q < 50, else 200 − 2q
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from paseo.errors import BadInput

_LUMA = [
    [16, 11, 10, 16, 24, 40, 51, 61],
    [12, 12, 14, 19, 26, 58, 60, 55],
    [14, 13, 16, 24, 40, 57, 69, 56],
    [14, 17, 22, 29, 51, 87, 80, 62],
    [18, 22, 37, 56, 68, 109, 103, 77],
    [24, 35, 55, 64, 81, 104, 113, 92],
    [49, 64, 78, 87, 103, 121, 120, 101],
    [72, 92, 95, 98, 112, 100, 103, 99],
]
_CHROMA = [
    [17, 18, 24, 47, 99, 99, 99, 99],
    [18, 21, 26, 66, 99, 99, 99, 99],
    [24, 26, 56, 99, 99, 99, 99, 99],
    [47, 66, 99, 99, 99, 99, 99, 99],
    *[[99] * 8] * 4,
]


@lru_cache(maxsize=128)
def quantisation_tables(quality: int) -> tuple[Tensor, Tensor]:
    """(luma, chroma), each (8,8) int32, for a quality of 1 … 100."""
    scale = table_scale(quality)
    with torch.inference_mode(False):
        luma, chroma = (
            ((torch.tensor(table) * scale + 50) // 100).clamp(1, 255).to(torch.int32)
            for table in (_LUMA, _CHROMA)
        )
    return luma, chroma


def table_scale(quality: int) -> int:
    """S, the percentage by which the standard's tables are multiplied."""
    return 5000 // quality if quality < 50 else 200 - 2 * quality


def check_quality(quality: int) -> None:
    """JPEG quality is an integer from 1 to 100."""
    if not (isinstance(quality, int) and 1 <= quality <= 100):
        raise BadInput(f"JPEG quality is an integer from 1 to 100, got {quality!r}.")
