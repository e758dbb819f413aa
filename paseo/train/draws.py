"""Random degradations of a family, one for each training sample.

    kinds   jpeg, blur (round and stretched), motion, sr, mask, noise, chain (blur → sr → noise → JPEG)

Parameters are drawn log-uniformly over the ranges below, so that each doubling is seen equally often. Masks
are the paper's box, other boxes, scratches, blobs and halves. The probes are the degradations at which an
operator is judged and its errors are stored.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from paseo.base import Degradation
from paseo.degrade import (
    JPEG,
    CentreBox,
    Compose,
    Downsample,
    GaussianBlur,
    Grain,
    Mask,
    MotionBlur,
    StretchedBlur,
)
from paseo.degrade.family import PARAMETERS
from paseo.errors import BadInput

QUALITY, WIDTH, LENGTH, FACTOR, GRAIN = (5, 95), (0.3, 5.0), (2.0, 25.0), (1.2, 8.0), (0.005, 0.1)
PAPER_MASKS = 0.5  # of the masks are the paper's centre box, the rest drawn at random
NOISE = 0.2  # largest s on [-1,1] images: σ_y = 0.1
RANGES = {
    "width_xx": (0.0, 8.8),
    "width_xy": (-4.4, 4.4),
    "width_yy": (0.0, 8.8),
    "motion": (0.0, 1.0),
    "octaves": (0.0, 3.0),
    "grain": (0.0, 1.0),
    "jpeg": (0.0, 1.0),
    "coarseness": (0.0, 6.7),
}
assert tuple(RANGES) == PARAMETERS


class Dice:
    """Uniform numbers from one generator."""

    def __init__(self, rng: torch.Generator) -> None:
        self.rng = rng

    def uniform(self, low: float = 0.0, high: float = 1.0) -> float:
        return low + (high - low) * float(torch.rand((), generator=self.rng, dtype=torch.float64))

    def log(self, span: tuple[float, float]) -> float:
        return math.exp(self.uniform(math.log(span[0]), math.log(span[1])))

    def below(self, share: float) -> bool:
        return self.uniform() < share


def _jpeg(dice: Dice, side: int) -> Degradation:
    return JPEG(round(dice.log(QUALITY)))


def _blur(dice: Dice, side: int) -> Degradation:
    if dice.below(0.6):
        return GaussianBlur(dice.log(WIDTH))
    return StretchedBlur(dice.log(WIDTH), dice.log(WIDTH), dice.uniform(0, 180))


def _motion(dice: Dice, side: int) -> Degradation:
    return MotionBlur(dice.log(LENGTH), dice.uniform(0, 180))


def _sr(dice: Dice, side: int) -> Degradation:
    return Downsample(float(2 + int(7 * dice.uniform())) if dice.below(0.6) else dice.log(FACTOR))


def _noise(dice: Dice, side: int) -> Degradation:
    return Grain(0.0)  # the identity: its noise comes with s


def _chain(dice: Dice, side: int) -> Degradation:
    parts: list[Degradation] = []
    if dice.below(0.7):
        parts.append(_blur(dice, side) if dice.below(0.8) else _motion(dice, side))
    if dice.below(0.6) or not parts:
        parts.append(Downsample(dice.log((1.2, 4.0))))
    if dice.below(0.5):
        parts.append(Grain(dice.log(GRAIN)))
    parts.append(_jpeg(dice, side))
    return Compose(*parts)


def _mask(dice: Dice, side: int) -> Degradation:
    return CentreBox() if dice.below(PAPER_MASKS) else Mask(torch.from_numpy(random_mask(dice, side)))


def random_mask(dice: Dice, side: int) -> np.ndarray:
    """(side, side) of 0 and 1, 1 = seen: a box, scratches, blobs or a half."""
    from PIL import Image, ImageDraw

    hole = Image.new("L", (side, side), 0)
    pen = ImageDraw.Draw(hole)
    kind = dice.uniform()
    if kind < 0.3:
        w, h = (side * dice.uniform(0.1, 0.7) for _ in range(2))
        left, top = dice.uniform(0, side - w), dice.uniform(0, side - h)
        pen.rectangle((left, top, left + w, top + h), fill=1)
    elif kind < 0.65:
        for _ in range(1 + int(6 * dice.uniform())):
            points = [(dice.uniform(0, side), dice.uniform(0, side)) for _ in range(3)]
            pen.line(points, fill=1, width=1 + int(dice.log((1.0, side / 12))))
    elif kind < 0.9:
        for _ in range(1 + int(5 * dice.uniform())):
            r, x, y = side * dice.log((0.02, 0.25)), dice.uniform(0, side), dice.uniform(0, side)
            pen.ellipse((x - r, y - r * dice.uniform(0.4, 1), x + r, y + r), fill=1)
    else:
        cut = side * dice.uniform(0.3, 0.6)
        pen.rectangle((0, 0, cut, side) if dice.below(0.5) else (0, 0, side, cut), fill=1)
    seen = 1 - np.asarray(hole, dtype=np.float32)
    return np.ascontiguousarray(np.rot90(seen, int(4 * dice.uniform())))


KINDS: dict[str, tuple[float, Callable[[Dice, int], Degradation]]] = {
    "jpeg": (0.2, _jpeg),
    "blur": (0.2, _blur),
    "motion": (0.1, _motion),
    "sr": (0.2, _sr),
    "mask": (0.3, _mask),
    "noise": (0.03, _noise),
    "chain": (0.13, _chain),
}
PROBES: dict[str, tuple[str, ...]] = {
    "jpeg": ("jpeg:5", "jpeg:10", "jpeg:20", "jpeg:35", "jpeg:50", "jpeg:75", "jpeg:95"),
    "blur": ("blur:0.7", "blur:1", "blur:2", "blur:3", "blur:4.5", "blur:4x1@30", "blur:4x1@120"),
    "motion": ("motion:7@20", "motion:15@45", "motion:20@100"),
    "sr": ("sr:1.5", "sr:2", "sr:3", "sr:4", "sr:6", "sr:8"),
    "mask": ("inpaint",),
    "noise": ("noise:0.05",),
    "chain": ("blur:1.5,sr:2,jpeg:60", "blur:1,sr:3,noise:0.02,jpeg:30", "sr:1.5,jpeg:75"),
}


@dataclass(frozen=True)
class FamilyDraw:
    """Draws degradations of some of the kinds, in their usual proportion."""

    kinds: tuple[str, ...]

    def __call__(self, rng: torch.Generator, side: int) -> Degradation:
        dice = Dice(rng)
        at = dice.uniform(0, sum(KINDS[kind][0] for kind in self.kinds))
        for kind in self.kinds:
            share, draw = KINDS[kind]
            if at < share:
                return draw(dice, side)
            at -= share
        return KINDS[self.kinds[-1]][1](dice, side)

    def noise(self, rng: torch.Generator) -> float:
        """s on [-1,1] images: mostly what the paper trains on, sometimes up to σ_y = 0.1."""
        dice = Dice(rng)
        return dice.uniform(0, 0.04) if dice.below(0.75) else dice.uniform(0.04, NOISE)

    @property
    def probes(self) -> tuple[str, ...]:
        return tuple(name for kind in self.kinds for name in PROBES[kind])


def family_of(name: str) -> FamilyDraw | None:
    """ "family" is all kinds, "family:jpeg+sr" some; None for the names of single tasks."""
    word, _, kinds = name.partition(":")
    if word != "family":
        return None
    chosen = tuple(kinds.split("+")) if kinds else tuple(KINDS)
    if unknown := [kind for kind in chosen if kind not in KINDS]:
        raise BadInput(
            f"{name!r}: there is no kind {unknown[0]!r} in the family. It has: {', '.join(KINDS)}."
        )
    return FamilyDraw(chosen)
