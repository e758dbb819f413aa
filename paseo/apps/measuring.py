"""From a file to a measurement: given as it is, or made by a degradation with its own reproducible noise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from paseo.apps.far import FarJob
from paseo.apps.inputs import Job
from paseo.apps.sinks import Tars
from paseo.base import Degradation, HidesPixels
from paseo.degrade import Mask, Task, measure, task
from paseo.errors import BadInput, PaseoError
from paseo.images import EXTENSIONS, Picture, read
from paseo.recipe import Recipe
from paseo.recipe.key import same_run
from paseo.units import to_signed, to_unit


def degradation_for(
    recipe: Recipe, mask: Path | None, job: Job, picture: Picture
) -> tuple[Degradation, str | None]:
    """The task's degradation, or the mask's for this input, with the mask's hash."""
    if mask is None:
        found = recipe.degradation or task(recipe.task)
        return found.degradation if isinstance(found, Task) else found, None
    hole = read(mask_file(mask, job))
    if hole.size != picture.size:
        (h, w), (a, b) = hole.size, picture.size
        raise BadInput(f"the mask is {w}×{h} and the image {b}×{a}. Bring the mask to the image's size.")
    return Mask.from_hole(hole.rgb.mean(0)), hole.sha256


def mask_file(mask: Path, job: Job) -> Path:
    """The mask itself, or in a folder of masks the one with the input's name."""
    if not mask.is_dir():
        return mask
    stem = mask / Path(job.relative).with_suffix("")
    found = [
        p for p in sorted(stem.parent.glob(f"{_escaped(stem.name)}.*")) if p.suffix.lower() in EXTENSIONS
    ]
    if not found:
        raise BadInput(f"there is no mask for it in {mask}: expected {stem.name} with an image's ending.")
    return found[0]


def _escaped(name: str) -> str:
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)


def measured(picture: Picture, degradation: Degradation, sigma_y: float, noise_seed: int | None) -> Tensor:
    """(1,3,h,w) in [0,1] units: a noisy measurement of the picture, or with no seed the picture as it was
    measured.
    """
    x = picture.rgb[None]
    if noise_seed is not None:
        return measure(x, degradation, sigma_y, [noise_seed])
    if isinstance(degradation, HidesPixels):
        return to_unit(degradation(to_signed(x)))  # whatever colour the hole was painted in
    return x


def paste_known(images: Tensor, y: Tensor, degradation: Degradation, feather: int) -> Tensor:
    """The measured pixels where they were seen and the restored ones in the hole, blended over `feather`
    pixels around it.
    """
    if not isinstance(degradation, HidesPixels):
        raise BadInput("Known pixels can only be kept in inpainting: this task hides no pixels.")
    hole = 1 - degradation.observed_at(*images.shape[-2:]).to(images)
    ramp = hole.clone()
    for step in range(1, feather + 1):
        grown = F.max_pool2d(hole, 2 * step + 1, stride=1, padding=step)
        ramp = torch.maximum(ramp, grown * (1 - step / (feather + 1)))
    return ramp * images + (1 - ramp) * y.to(images).clamp(0, 1)


def complete(job: Job, suffixes: Sequence[str], record: Callable[[], Mapping[str, Any]]) -> bool:
    """Whether this very run of this very file lies there already: the record, which is written last, is of
    the same run, and all outputs, which it names, are there.
    """
    if isinstance(job, FarJob) and isinstance(job.sink, Tars):
        return job.sink.has_run(job, record())
    try:
        found = job.stored()
        if found is None:
            return False
        named = [entry["file"] for entry in found["outputs"]]
        if named != [job.path(suffix).name for suffix in suffixes]:
            return False
        return all(job.has(name) for name in named) and same_run(found, record())
    except (PaseoError, KeyError, TypeError, AttributeError):  # half a record is none
        return False
