"""A large canvas walked in overlapping windows: where they lie, and the smooth weights that join what they
give.

    f(x) ≈ Σ_k R_kᵀ W_k f(R_k x),      Σ_k R_kᵀ W_k R_k = 1

R_k cuts window k out of the canvas. W_k is zero in the `halo` next to a cut, where f lacks its surroundings,
rises like sin² over the `blend` behind it, and is one in the middle and up to the canvas's own border. If the
halo is at least as wide as f's reach the sum is f(x) itself. All lengths are latent cells; windows start at
multiples of `grain`, because a network that halves its input is equivariant to such shifts only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from paseo.errors import BadInput


@dataclass(frozen=True)
class Windows:
    """How windows are cut; neighbours share at least 2·halo + blend cells."""

    side: int = 128  # cells
    halo: int = 8  # cells next to a cut that are computed and thrown away
    blend: int = 8  # cells over which one window hands over to the next
    batch: int = 1  # windows in one call of a network

    def __post_init__(self) -> None:
        if self.halo < 0 or self.blend < 1 or self.batch < 1:
            raise BadInput(f"{self}: expected halo ≥ 0, blend ≥ 1 and batch ≥ 1.")
        if self.side <= 2 * self.overlap:
            raise BadInput(
                f"A window of {self.side} cells cannot share {self.overlap} with each neighbour "
                f"(2·halo + blend); give a side above {2 * self.overlap}, or a smaller halo."
            )

    @property
    def overlap(self) -> int:
        return 2 * self.halo + self.blend


@dataclass(frozen=True)
class Area:
    """One window of a canvas, in cells."""

    top: int
    left: int
    height: int
    width: int

    def cut(self, x: Tensor, scale: int = 1) -> Tensor:
        """R x: the window of a canvas that has `scale` entries per cell and side."""
        rows = slice(self.top * scale, (self.top + self.height) * scale)
        return x[..., rows, self.left * scale : (self.left + self.width) * scale]


class Cover:
    """A canvas of (h, w) cells with the windows that cover it."""

    def __init__(self, canvas: tuple[int, int], windows: Windows, grain: int = 1) -> None:
        self.canvas, self.windows = canvas, windows
        self.sides = tuple(min(length, _up(windows.side, grain)) for length in canvas)
        self.starts = tuple(
            starts(length, side, windows.overlap, grain)
            for length, side in zip(canvas, self.sides, strict=True)
        )
        self._weights: dict[int, tuple[Tensor, Tensor]] = {}

    @property
    def areas(self) -> list[Area]:
        return [Area(top, left, *self.sides) for top in self.starts[0] for left in self.starts[1]]

    def weight(self, area: Area, scale: int, like: Tensor) -> Tensor:
        """W of a window for results with `scale` entries per cell and side."""
        if scale not in self._weights:
            rows, columns = (
                axis_weights(s, side, length, self.windows, scale)
                for s, side, length in zip(self.starts, self.sides, self.canvas, strict=True)
            )
            self._weights[scale] = rows, columns
        rows, columns = self._weights[scale]
        row = rows[self.starts[0].index(area.top)].to(like)
        return row[:, None] * columns[self.starts[1].index(area.left)].to(like)


def starts(length: int, side: int, overlap: int, grain: int = 1) -> list[int]:
    """First cells of the windows along one axis: evenly spread multiples of the grain, from 0 to the end."""
    if length <= side:
        return [0]
    if length % grain or side % grain:
        raise BadInput(f"A canvas of {length} cells and windows of {side} are not both multiples of {grain}.")
    stride = (side - overlap) // grain * grain
    if stride < 1:
        raise BadInput(f"Windows of {side} cells that share {overlap} do not advance by {grain}.")
    gaps = math.ceil((length - side) / stride)
    return [i * (length - side) // gaps // grain * grain for i in range(gaps + 1)]


def axis_weights(first: list[int], side: int, length: int, windows: Windows, scale: int = 1) -> Tensor:
    """(windows, side·scale): the weights along one axis; at every entry of the canvas they sum to one."""
    inside = (torch.arange(side * scale, dtype=torch.float64) + 0.5) / scale  # cells behind the first edge
    raw = torch.ones(len(first), side * scale, dtype=torch.float64)
    for k, start in enumerate(first):
        if start > 0:
            raw[k] *= _rise(inside, windows)
        if start + side < length:
            raw[k] *= _rise(side - inside, windows)
    total = torch.zeros(length * scale, dtype=torch.float64)
    for k, start in enumerate(first):
        total[start * scale : (start + side) * scale] += raw[k]
    return torch.stack(
        [raw[k] / total[start * scale : (start + side) * scale] for k, start in enumerate(first)]
    )


def blended(
    f: Callable[[Tensor], Tensor], x: Tensor, cover: Cover, *, entries: int = 1, results: int = 1
) -> Tensor:
    """Σ_k R_kᵀ W_k f(R_k x): f on the windows of x (B,C,H,W), which has `entries` per cell and side, joined
    to a canvas with `results` per cell and side. Where gradients are asked for, a window's graph is made
    again on the way back, so that only one lives at a time.
    """
    areas = cover.areas
    if len(areas) == 1:
        return f(x)
    tracked = torch.is_grad_enabled() and x.requires_grad
    whole: Tensor | None = None
    for group in _groups(areas, cover.windows.batch):
        crops = torch.cat([area.cut(x, entries) for area in group])
        parts = checkpoint(f, crops, use_reentrant=False) if tracked else f(crops)
        for area, part in zip(group, parts.chunk(len(group)), strict=True):
            if whole is None:
                whole = canvas_like(part, x.shape[0], cover, results)
            add(whole, part, area, cover, results)
    assert whole is not None
    return whole


def canvas_like(part: Tensor, batch: int, cover: Cover, scale: int) -> Tensor:
    """An empty canvas for results that look like `part`."""
    return part.new_zeros(batch, part.shape[1], *(length * scale for length in cover.canvas))


def add(whole: Tensor, part: Tensor, area: Area, cover: Cover, scale: int) -> None:
    """whole += Rᵀ W part."""
    area.cut(whole, scale).add_(part * cover.weight(area, scale, part))


def _groups(areas: list[Area], count: int) -> Iterator[list[Area]]:
    for i in range(0, len(areas), count):
        yield areas[i : i + count]


def _rise(distance: Tensor, windows: Windows) -> Tensor:
    """0 in the halo, sin² over the blend, then 1; `distance` in cells from the cut."""
    return torch.sin(((distance - windows.halo) / windows.blend).clamp(0, 1) * (math.pi / 2)).square()


def _up(length: int, grain: int) -> int:
    return math.ceil(length / grain) * grain
