"""The picture's own degradation, as the face model sees it.

    A_face(u) = A((1 − m) ∘ picture + m ∘ T u)[window],        lift_face(y) = T⁻¹ lift(y)

u is the face at the model's size, T puts it into a window of the restored picture, A is the task as it is. A
face that was turned and scaled first would not be a measurement of any task: JPEG's blocks and the grid of
super-resolution would turn with it. Here nothing is approximated: the face model explains the measured pixels
themselves, and what surrounds the face is the photograph's restoration. With `Chain(codec, view)` as the
operator it needs no training.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from paseo.base import Degradation
from paseo.errors import BadInput
from paseo.faces.align import Frame, Resample, Size, to_face, to_picture
from paseo.faces.paste import square
from paseo.units import to_signed

MARGIN = 24  # pixels of the picture around the frame: a blur of σ = 3 reaches 12
GRID = 16  # measured pixels: JPEG's largest block
AGREE = 0.02  # in [-1,1]: a window measures like the whole picture when it differs by less (RMS)


@dataclass(frozen=True)
class Window:
    """A part of the picture and the part of the measurement that belongs to it."""

    top: int
    left: int
    height: int
    width: int
    ratio: int  # picture pixels per measured pixel and side

    @property
    def picture(self) -> tuple[slice, slice]:
        return slice(self.top, self.top + self.height), slice(self.left, self.left + self.width)

    @property
    def measured(self) -> tuple[slice, slice]:
        rows, columns, r = *self.picture, self.ratio
        return slice(rows.start // r, -(-rows.stop // r)), slice(columns.start // r, -(-columns.stop // r))


@dataclass(frozen=True, eq=False)
class FaceView:
    """A(u): what the window of the measurement would be with the face u in it. (B,3,side,side) in [-1,1]."""

    task: Degradation
    background: Tensor  # (1,3,h,w) in [-1,1]: the window of the restored picture
    frame: Frame  # in the window
    linear: ClassVar[bool] = False  # affine: the background does not vanish
    place: Resample = field(init=False)
    look: Resample = field(init=False)
    mask: Tensor = field(init=False)  # (1,1,h,w)

    def __post_init__(self) -> None:
        object.__setattr__(self, "place", to_picture(self.size, self.frame))
        object.__setattr__(self, "look", to_face(self.size, self.frame))
        object.__setattr__(self, "mask", square(self.size, self.frame)[None].to(self.background))

    @property
    def name(self) -> str:
        return f"{self.task.name} of a face"

    @property
    def size(self) -> Size:
        """(h, w) of the window."""
        return int(self.background.shape[-2]), int(self.background.shape[-1])

    def output_size(self, height: int, width: int) -> Size:
        return self.task.output_size(*self.size)

    def __call__(self, x: Tensor) -> Tensor:
        background, mask = self.background.to(x), self.mask.to(x)
        return self.task(background + mask * (self.place(x) - background))

    def lift(self, y: Tensor, size: Size | None = None) -> Tensor:
        """The measured window, brought to the face model's frame."""
        side = self.frame.side
        if size is not None and size != (side, side):
            raise BadInput(f"A face is seen at {side}×{side} pixels, not {size[0]}×{size[1]}.")
        return self.look(self.task.lift(y, self.size))


def view_of(task: Degradation, restored: Tensor, frame: Frame) -> tuple[FaceView, Window]:
    """The face's view of a restored picture (3,H,W) in [0,1], on the smallest window that measures alike."""
    whole = to_signed(restored[None])
    size = (int(restored.shape[-2]), int(restored.shape[-1]))
    every = Window(0, 0, *size, ratio=1)
    window = _window(task, size, frame)
    if window is not None and window != every and _alike(task, whole, window, frame):
        part = whole[(..., *window.picture)]
        return FaceView(task, part, frame.moved(window.left, window.top)), window
    return FaceView(task, whole, frame), every


def _window(task: Degradation, size: Size, frame: Frame) -> Window | None:
    """Around the frame, with its corners on the grid of the measurement; None where there is no such grid."""
    measured = task.output_size(*size)
    ratio = round(size[0] / measured[0])
    if measured != (math.ceil(size[0] / ratio), math.ceil(size[1] / ratio)):
        return None
    step, corners = GRID * ratio, frame.corners
    low, high = corners.amin(0) - MARGIN, corners.amax(0) + MARGIN
    left, top = (max(0, math.floor(float(v) / step) * step) for v in low)
    right, bottom = (
        min(n, math.ceil(float(v) / step) * step) for v, n in zip(high, (size[1], size[0]), strict=True)
    )
    if right <= left or bottom <= top:
        return None
    return Window(top, left, bottom - top, right - left, ratio)


@torch.no_grad()
def _alike(task: Degradation, whole: Tensor, window: Window, frame: Frame) -> bool:
    """Whether the window alone gives the numbers that the whole picture has there (a centre box does not)."""
    size = (int(whole.shape[-2]), int(whole.shape[-1]))
    part = whole[(..., *window.picture)]
    try:
        alone = task.lift(task(part), (window.height, window.width))
    except BadInput:  # made for one size, as a mask is
        return False
    together = task.lift(task(whole), size)[(..., *window.picture)]
    look = to_face((window.height, window.width), frame.moved(window.left, window.top))
    return float(look(alone - together).square().mean().sqrt()) < AGREE
