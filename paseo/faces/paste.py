"""Putting a face back:  x = (1 − m) ∘ picture + m ∘ face,  with a mask m that ends before the frame does."""

from __future__ import annotations

import torch
from torch import Tensor

from paseo.faces.align import Frame, Size, pixel_centres, to_picture

CENTRE = (0.5, 0.54)  # of the oval, as parts of the frame: FFHQ's faces sit a little below the middle
RADII = (0.40, 0.46)
FADE = 0.25  # part of the radius over which the mask falls from 1 to 0


def oval(size: Size, frame: Frame) -> Tensor:
    """(1, H, W) in [0,1]: 1 on the face, 0 outside its frame, smooth between: for the final picture."""
    u = frame.to_face(pixel_centres(size)) / frame.side
    radius = ((u - torch.tensor(CENTRE)) / torch.tensor(RADII)).norm(dim=-1)
    return smoothstep((1 - radius) / FADE).float()[None]


def square(size: Size, frame: Frame, fade: float = 0.05) -> Tensor:
    """(1, H, W) in [0,1]: 1 in nearly the whole frame: all that the face model explains."""
    u = frame.to_face(pixel_centres(size)) / frame.side
    inside = torch.minimum(u, 1 - u).amin(-1)
    return smoothstep(inside / fade).float()[None]


def smoothstep(t: Tensor) -> Tensor:
    """0 below 0, 1 above 1, and 3t² − 2t³ between: no kink at either end."""
    t = t.clamp(0, 1)
    return t * t * (3 - 2 * t)


def paste(picture: Tensor, face: Tensor, frame: Frame) -> Tensor:
    """The picture (3,H,W) with the face (3,side,side) in its place."""
    size = (int(picture.shape[-2]), int(picture.shape[-1]))
    mask = oval(size, frame).to(picture)
    return picture + mask * (to_picture(size, frame)(face[None])[0] - picture)
