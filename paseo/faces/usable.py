"""Which faces the face model can help, and what it says about the others."""

from __future__ import annotations

import torch
from torch import Tensor

from paseo.faces.align import Frame, Size

SMALLEST = 40  # pixels of the frame: below, nothing of a face is left to be explained
LARGEST = 1.25  # times the model's side: above, the photograph has more detail than the model can give back
TURNED = 0.75  # the nose's offset from the middle line, in half eye distances; 99 % of FFHQ has less
NARROW = 0.65  # eye to eye over eyes to mouth; 0.98 ± 0.10 there
INSIDE = 0.75  # part of the frame that must lie in the picture
FILLS = 0.6  # of the picture's shorter side: the picture is a portrait


def refusal(landmarks: Tensor, frame: Frame, size: Size) -> str | None:
    """Why this face of a picture of `size` is left as it is, or None."""
    if frame.size < SMALLEST:
        return f"too small: {frame.size:.0f} px, at least {SMALLEST} are needed"
    if frame.size > LARGEST * frame.side:
        return f"too large: {frame.size:.0f} px, and the face model knows {frame.side}"
    if turned(landmarks):
        return "turned away"
    if (part := inside(frame, size)) < INSIDE:
        return f"cut off: only {part:.0%} of its surroundings are in the picture"
    return None


def turned(landmarks: Tensor) -> bool:
    """Whether a face looks too far to the side, up or down for a model of faces from the front."""
    left, right, nose, corner, other = landmarks.double()
    eyes, mouth = (left + right) / 2, (corner + other) / 2
    across, down = right - left, mouth - eyes
    if float(across.norm()) < NARROW * float(down.norm()):
        return True
    axis = across / across.norm()
    offset = float((nose - (eyes + mouth) / 2) @ axis) / (0.5 * float(across.norm()))
    height = float((nose - eyes) @ down) / float(down @ down)  # 0 at the eyes, 1 at the mouth
    return abs(offset) > TURNED or not 0.2 < height < 0.9


def inside(frame: Frame, size: Size) -> float:
    """The part of the frame's area that lies in the picture."""
    steps = (torch.arange(32, dtype=torch.float64) + 0.5) / 32 * frame.side
    points = frame.to_picture(torch.cartesian_prod(steps, steps))
    limit = torch.tensor([size[1], size[0]], dtype=torch.float64)
    return float(((points >= 0) & (points < limit)).all(1).double().mean())


def hint(frames: list[Frame], size: Size) -> str | None:
    """Words for a picture that is one face, but not placed as the face model knows faces."""
    short = min(size)
    if len(frames) != 1 or frames[0].size < FILLS * short:
        return None
    frame = frames[0]
    shift = max(abs(frame.centre[0] - size[1] / 2), abs(frame.centre[1] - size[0] / 2)) / short
    scale = frame.size / short
    if size[0] == size[1] and abs(frame.degrees) < 6 and shift < 0.08 and 0.88 < scale < 1.14:
        return None
    return (
        f"The picture is a face, but not placed as the face model knows them (leaning {frame.degrees:.0f}°, "
        f"{scale:.0%} of the expected size, {shift:.0%} off the middle): restore it as a photograph."
    )
