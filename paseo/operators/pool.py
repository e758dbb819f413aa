"""The inner levels of a leaner operator see every second cell: a quarter of the work where most of it is.

halved    mean of 2×2 cells, odd sizes filled up with zeros      its transpose: doubled / 4
doubled   every cell four times, cut to the size asked for       its transpose: 4 · halved
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def halved(x: Tensor) -> Tensor:
    """(B, C, h, w) → (B, C, ⌈h/2⌉, ⌈w/2⌉)."""
    h, w = x.shape[-2:]
    return F.avg_pool2d(F.pad(x, (0, w % 2, 0, h % 2)) if h % 2 or w % 2 else x, 2)


def doubled(x: Tensor, size: tuple[int, int]) -> Tensor:
    """(B, C, ⌈h/2⌉, ⌈w/2⌉) → (B, C, h, w) with (h, w) = size."""
    return F.interpolate(x, scale_factor=2.0, mode="nearest")[..., : size[0], : size[1]]
