"""The frame of a face: the square in which FFHQ would show it, from its landmarks.

    x' = e − R m,    x = x'/‖x'‖ · max(2‖e‖, 1.8‖m‖),    centre = eyes + m/10

with e from eye to eye, m from the eyes' middle to the mouth's, and R a quarter turn: x is half of the
square's upper side (Karras et al., "A Style-Based Generator Architecture for Generative Adversarial
Networks", 2019, in the script that made the data). That script takes the mean of six points for each eye.
Five landmarks have the eye itself, and MTCNN places it a little differently: on 250 faces that are framed by
construction the square came out 1.7 ± 3.0 % too large and 0.5 ± 0.5 % of its side too high, which two
constants mend.

Points are (x, y) in pixels, the origin at the top left corner, so that the first pixel's centre is (½, ½).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from paseo.degrade import GaussianBlur
from paseo.errors import BadInput

Size = tuple[int, int]

SMALLER = 0.983  # the square, against FFHQ's formula
LOWER = 0.005  # its centre, in sides of the square


@dataclass(frozen=True)
class Frame:
    """A turned square in a picture, and the `side` pixels at which the face model sees it."""

    centre: tuple[float, float]
    half: tuple[float, float]  # from the centre to the middle of the square's right side
    side: int = 128

    @property
    def size(self) -> float:
        """The square's side in the picture, in pixels."""
        return 2 * math.hypot(*self.half)

    @property
    def degrees(self) -> float:
        """How far the head leans, clockwise as seen."""
        return math.degrees(math.atan2(self.half[1], self.half[0]))

    @property
    def matrix(self) -> Tensor:
        """(2, 3) float64: picture = M · (u, v, 1) for (u, v) in 0 … side."""
        (cx, cy), (hx, hy), k = self.centre, self.half, 2 / self.side
        return torch.tensor(
            [[k * hx, -k * hy, cx - hx + hy], [k * hy, k * hx, cy - hy - hx]], dtype=torch.float64
        )

    def to_picture(self, points: Tensor) -> Tensor:
        """Points (…, 2) of the face's frame in the picture."""
        m = self.matrix
        return points.double() @ m[:, :2].T + m[:, 2]

    def to_face(self, points: Tensor) -> Tensor:
        """Points (…, 2) of the picture in the face's frame: the inverse."""
        m = self.matrix
        # a turn times a scale: its inverse is its transpose over the scale squared
        return (points.double() - m[:, 2]) @ m[:, :2] / (self.size / self.side) ** 2

    @property
    def corners(self) -> Tensor:
        """(4, 2): the square in the picture, clockwise from its upper left corner."""
        n = float(self.side)
        return self.to_picture(torch.tensor([[0.0, 0.0], [n, 0.0], [n, n], [0.0, n]]))

    def moved(self, x: float, y: float) -> Frame:
        """The same square in a picture whose origin lies at (x, y)."""
        return Frame((self.centre[0] - x, self.centre[1] - y), self.half, self.side)


def frame_of(landmarks: Tensor, side: int = 128) -> Frame:
    """FFHQ's frame for five landmarks (5, 2): eyes, nose, corners of the mouth."""
    if landmarks.shape != (5, 2) or not bool(torch.isfinite(landmarks).all()):
        raise BadInput(f"A face has five finite landmarks (5, 2), got the shape {tuple(landmarks.shape)}.")
    left, right, _, corner, other = landmarks.double()
    e, m = right - left, (corner + other) / 2 - (left + right) / 2
    x = e - torch.stack([-m[1], m[0]])
    length = float(x.norm())
    if length == 0:
        raise BadInput("All landmarks of the face lie in one point.")
    x = x / length * max(2.0 * float(e.norm()), 1.8 * float(m.norm())) * SMALLER
    centre = (left + right) / 2 + 0.1 * m + 2 * LOWER * torch.stack([-x[1], x[0]])
    return Frame((float(centre[0]), float(centre[1])), (float(x[0]), float(x[1])), side)


def pixel_centres(size: Size) -> Tensor:
    """(H, W, 2) float64: the points (x, y) of all pixels."""
    v, u = torch.meshgrid(*(torch.arange(n, dtype=torch.float64) + 0.5 for n in size), indexing="ij")
    return torch.stack([u, v], -1)


class Resample:
    """x ↦ x at given points, a linear map of images (B,C,h,w): cubic, smoothed first where points are sparse.

    `spacing` is the distance of neighbouring points in the source's pixels. Beyond the border the edge pixel
    is repeated. Made of sums of selected pixels, so that derivatives exist in both directions.
    """

    def __init__(self, size: Size, points: Tensor, spacing: float) -> None:
        self.source, self.target = size, (int(points.shape[0]), int(points.shape[1]))
        self.smooth = GaussianBlur(0.5 * math.sqrt(spacing**2 - 1)) if spacing > 1.05 else None
        at = points.reshape(-1, 2) - 0.5  # pixel centres at integers
        first = at.floor()
        t = at - first
        (rows, down), (columns, across) = (
            _taps(first[:, axis], t[:, axis], n) for axis, n in ((1, size[0]), (0, size[1]))
        )
        self.index = [r * size[1] + c for r in rows for c in columns]
        self.weight = [(a * b).float() for a in down for b in across]

    def __call__(self, x: Tensor) -> Tensor:
        if x.shape[-2:] != self.source:
            raise BadInput(f"This map is made for images of {self.source}, got {tuple(x.shape[-2:])}.")
        flat = (self.smooth(x) if self.smooth is not None else x).flatten(-2)
        total = torch.zeros((), dtype=x.dtype, device=x.device)
        for index, weight in zip(self.index, self.weight, strict=True):
            total = total + flat.index_select(-1, index.to(x.device)) * weight.to(x)
        return total.unflatten(-1, self.target)


def _taps(first: Tensor, t: Tensor, n: int) -> tuple[list[Tensor], list[Tensor]]:
    """Four pixels of one axis and their weights: Keys (1981) with a = −½."""
    index = [(first + k).long().clamp(0, n - 1) for k in (-1, 0, 1, 2)]
    weight = [
        ((-0.5 * t + 1) * t - 0.5) * t,
        (1.5 * t - 2.5) * t * t + 1,
        ((-1.5 * t + 2) * t + 0.5) * t,
        (0.5 * t - 0.5) * t * t,
    ]
    return index, weight


def to_face(size: Size, frame: Frame) -> Resample:
    """Pictures of `size` → the face at frame.side pixels."""
    points = frame.to_picture(pixel_centres((frame.side, frame.side)))
    return Resample(size, points, frame.size / frame.side)


def to_picture(size: Size, frame: Frame) -> Resample:
    """The face → pictures of `size`; what lies beyond the face's border is its edge, to be masked."""
    return Resample((frame.side, frame.side), frame.to_face(pixel_centres(size)), frame.side / frame.size)
