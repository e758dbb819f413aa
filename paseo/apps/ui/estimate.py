"""How long a run will take, said before it starts, and whether the picture has a face.

    seconds ≈ draws · NFE · pixels · pace

The pace is that of the last run of the model here. Before the first one it is timed: one denoiser call at
the trained size, times what a whole run takes beside its calls.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import torch
from torch import Tensor

from paseo.apps.ui.form import SHOW, Form
from paseo.degrade import task as find_task
from paseo.faces import detect, frame_of, weights_available
from paseo.faces.usable import FILLS, hint, turned
from paseo.models import AUTO, Model
from paseo.problem import device_of
from paseo.recipe.recipe import FACES

BESIDE = 2.3  # a run over its denoiser calls, as measured on the embedded models
SEARCHED = 640  # pixels of the longer side in which faces are sought: the page must answer at once

Size = tuple[int, int]


@dataclass
class Pace:
    """Seconds of a denoiser call per pixel of one draw, for every model."""

    known: dict[str, float] = field(default_factory=dict)

    def of(self, model: Model) -> float:
        if model.name not in self.known:
            self.known[model.name] = BESIDE * timed_call(model) / model.size**2
        return self.known[model.name]

    def learn(self, model: str, seconds: float, calls: int, draws: int, size: Size) -> None:
        """From a run that has ended."""
        if seconds > 0 and calls > 0:
            self.known[model] = seconds / (calls * draws * size[0] * size[1])


@torch.no_grad()
def timed_call(model: Model) -> float:
    """Seconds of one denoiser call for one picture of the trained size; the first one warms up."""
    cells = model.size // model.codec.factor
    z = torch.zeros(1, model.latent_channels, cells, cells, device=device_of(model.codec))
    t = model.prior.schedule.at_level(1.0).t
    model.prior.x0(z, t)
    start = time.perf_counter()
    model.prior.x0(z, t)
    return time.perf_counter() - start


def restored_size(form: Form, size: Size, trained: int) -> Size:
    """(H, W) of the result for a picture of `size`."""
    if form.way == SHOW:
        return (trained, trained) if form.fit else size
    if form.task == AUTO:
        return size
    small, _ = find_task(form.task).output_size(1024, 1024)
    return size[0] * 1024 // small, size[1] * 1024 // small


def has_face(rgb: Tensor, model: str) -> bool:
    """Whether `--faces` may help this picture (3,H,W). One that is an aligned face is what the face model
    restores anyway.
    """
    if not weights_available() or min(rgb.shape[-2:]) < 24:
        return False
    seen = shrunk(rgb)
    found = [face for face in detect(seen) if not turned(face.landmarks)]
    frames, size = [frame_of(face.landmarks) for face in found], (int(seen.shape[-2]), int(seen.shape[-1]))
    fills = len(frames) == 1 and frames[0].size > FILLS * min(size) and hint(frames, size) is None
    return bool(found) and not (fills and model == FACES)


def shrunk(rgb: Tensor) -> Tensor:
    """The picture with a longer side of at most `SEARCHED` pixels."""
    height, width = rgb.shape[-2:]
    scale = SEARCHED / max(height, width)
    if scale >= 1:
        return rgb
    size = (max(1, round(height * scale)), max(1, round(width * scale)))
    return torch.nn.functional.interpolate(rgb[None], size, mode="area")[0]
