"""From a file to a measurement: given as it is, or made by a degradation with its own reproducible noise."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from torch import Tensor

from paseo.apps.inputs import Job
from paseo.degrade import Mask, measure, task
from paseo.errors import BadInput
from paseo.images import EXTENSIONS, Picture, read, to_signed, to_unit


def degradation_for(name: str, mask: Path | None, job: Job, picture: Picture) -> tuple[Any, str | None]:
    """The task's degradation, or the mask's for this input, with the mask's hash."""
    if mask is None:
        return task(name), None
    hole = read(_mask_file(mask, job))
    if hole.size != picture.size:
        (h, w), (a, b) = hole.size, picture.size
        raise BadInput(f"the mask is {w}×{h} and the image {b}×{a}. Bring the mask to the image's size.")
    return Mask.from_hole(hole.rgb.mean(0)), hole.sha256


def _mask_file(mask: Path, job: Job) -> Path:
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


def measurement_seed(picture: Picture, seed: int) -> int:
    """Seeded by the image itself, so that it does not matter in which company or order a file is measured."""
    return int.from_bytes(hashlib.sha256(f"{seed} {picture.sha256}".encode()).digest()[:8], "big") >> 1


def measured(picture: Picture, degradation: Any, sigma_y: float, noise_seed: int | None) -> Tensor:
    """(1,3,h,w) in [0,1] units: a noisy measurement of the picture, or with no seed the picture as it was
    measured.
    """
    x = picture.rgb[None]
    if noise_seed is not None:
        return measure(x, getattr(degradation, "degradation", degradation), sigma_y, [noise_seed])
    inner = getattr(degradation, "degradation", degradation)
    hides = hasattr(inner, "observed_at")
    return to_unit(inner(to_signed(x))) if hides else x  # whatever colour the hole was painted in
