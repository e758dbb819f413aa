"""Where the faces are, with five landmarks each: MTCNN's cascade (Zhang et al., 2016).

    pyramid ─ P-Net ─▶ boxes ─ R-Net, 24×24 crops ─▶ fewer boxes ─ O-Net, 48×48 crops ─▶ faces, landmarks

Coordinates are (x, y) in pixels with the origin at the picture's top left corner: the first pixel's centre is
(½, ½). Boxes are (x₀, y₀, x₁, y₁).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from paseo.errors import BadInput
from paseo.faces.weights import Cascade, load_cascade
from paseo.units import to_signed

CELL, STRIDE = 12, 2  # of P-Net: pixels that one of its outputs sees, and pixels between two outputs
PYRAMID = 0.709  # ≈ √½: each level has half the area of the one before
SCORES = (
    0.6,
    0.7,
    0.9,
)  # a box passes each network above these; a false face would be painted in


@dataclass(frozen=True, eq=False)
class Face:
    """One face of a picture."""

    box: tuple[float, float, float, float]  # x₀, y₀, x₁, y₁
    score: float  # 0 … 1
    landmarks: Tensor  # (5, 2) float64: eye, eye, nose, corner and corner of the mouth; left to right as seen


@torch.no_grad()
def detect(picture: Tensor, *, smallest: int = 20, cascade: Cascade | None = None) -> list[Face]:
    """All faces of (3,H,W) in [0,1] with boxes of at least `smallest` pixels, the surest first."""
    if picture.ndim != 3 or picture.shape[0] != 3 or 0 in picture.shape:
        raise BadInput(f"Faces are sought in a picture (3,H,W), got the shape {tuple(picture.shape)}.")
    if smallest < CELL:
        raise BadInput(f"smallest={smallest} is below {CELL} pixels, the least that the networks can see.")
    nets = cascade or load_cascade()
    x = to_signed(picture.detach().to("cpu", torch.float32).clamp(0, 1))[None]
    boxes = _propose(x, nets, smallest)
    boxes, _ = _refine(x, boxes, nets)
    return _finish(x, boxes, nets)


def _propose(x: Tensor, nets: Cascade, smallest: int) -> Tensor:
    """P-Net on every level of the pyramid: square boxes (N, 4)."""
    height, width = x.shape[-2:]
    found = [x.new_zeros(0, 9)]  # box, moves, score
    for scale in pyramid((height, width), smallest):
        size = (math.ceil(height * scale), math.ceil(width * scale))
        score, move = nets.propose(F.interpolate(x, size, mode="area"))
        row, column = (score[0] >= SCORES[0]).nonzero(as_tuple=True)
        corner = torch.stack([column, row], 1) * STRIDE / scale
        level = torch.cat(
            [corner, corner + CELL / scale, move[0, :, row, column].mT, score[0, row, column, None]], 1
        )
        found.append(level[suppress(level[:, :4], level[:, 8], 0.5)])
    every = torch.cat(found)
    every = every[suppress(every[:, :4], every[:, 8], 0.7)]
    return _square(_moved(every[:, :4], every[:, 4:8]))


def _refine(x: Tensor, boxes: Tensor, nets: Cascade) -> tuple[Tensor, Tensor]:
    """R-Net on each box: square boxes (N, 4) and scores (N,)."""
    if not len(boxes):
        return boxes, boxes.new_zeros(0)
    score, move = nets.refine(_crops(x, boxes, 24))
    passed = score > SCORES[1]
    boxes, score = _moved(boxes[passed], move[passed]), score[passed]
    kept = suppress(boxes, score, 0.7)
    return _square(boxes[kept]), score[kept]


def _finish(x: Tensor, boxes: Tensor, nets: Cascade) -> list[Face]:
    """O-Net on each box."""
    if not len(boxes):
        return []
    score, move, points = nets.output(_crops(x, boxes, 48))
    landmarks = boxes[:, None, :2] + points * (boxes[:, None, 2:] - boxes[:, None, :2])
    passed = score > SCORES[2]
    boxes, score, landmarks = _moved(boxes[passed], move[passed]), score[passed], landmarks[passed]
    kept = suppress(boxes, score, 0.7, by="smaller").tolist()
    return [
        Face((float(a), float(b), float(c), float(d)), float(score[i]), landmarks[i].double())
        for i in kept
        for a, b, c, d in [boxes[i].tolist()]
    ]


def pyramid(size: tuple[int, int], smallest: int) -> list[float]:
    """Scales at which a face of `smallest` pixels, and then ever larger ones, fills P-Net's cell."""
    scales, scale = [], CELL / smallest
    while min(size) * scale >= CELL:
        scales.append(scale)
        scale *= PYRAMID
    return scales


def suppress(
    boxes: Tensor, scores: Tensor, overlap: float, *, by: Literal["union", "smaller"] = "union"
) -> Tensor:
    """Indices of the boxes that stay, the surest first: one that overlaps a surer one by more goes.

    The overlap is the shared area as a part of the union, or of the smaller box (which finds a box in a box).
    """
    area = (boxes[:, 2:] - boxes[:, :2]).clamp_min(0).prod(1)
    left, kept = scores.argsort(descending=True, stable=True), []
    while len(left):
        best, left = left[0], left[1:]
        kept.append(int(best))
        corner = torch.maximum(boxes[best, :2], boxes[left, :2])
        shared = (torch.minimum(boxes[best, 2:], boxes[left, 2:]) - corner).clamp_min(0).prod(1)
        whole = area[best] + area[left] - shared if by == "union" else torch.minimum(area[best], area[left])
        left = left[shared <= overlap * whole]
    return torch.tensor(kept, dtype=torch.long)


def _moved(boxes: Tensor, move: Tensor) -> Tensor:
    """Each corner by a fraction of the box's side."""
    return boxes + move * (boxes[:, 2:] - boxes[:, :2]).repeat(1, 2)


def _square(boxes: Tensor) -> Tensor:
    """The squares around the boxes' centres with their longer sides."""
    centre, half = (boxes[:, :2] + boxes[:, 2:]) / 2, (boxes[:, 2:] - boxes[:, :2]).amax(1, keepdim=True) / 2
    return torch.cat([centre - half, centre + half], 1)


def _crops(x: Tensor, boxes: Tensor, side: int) -> Tensor:
    """(N, 3, side, side): what the boxes hold; black beyond the picture."""
    height, width = x.shape[-2:]
    crops = []
    for x0, y0, x1, y1 in boxes.round().int().tolist():
        x1, y1 = max(x1, x0 + 1), max(y1, y0 + 1)
        inside = x[..., max(y0, 0) : max(y1, 0), max(x0, 0) : max(x1, 0)]
        margins = (max(-x0, 0), max(x1 - width, 0), max(-y0, 0), max(y1 - height, 0))
        if 0 in inside.shape:
            crops.append(x.new_full((1, 3, side, side), -1.0))
            continue
        crops.append(F.interpolate(F.pad(inside, margins, value=-1.0), (side, side), mode="area"))
    return torch.cat(crops)
