"""All faces of one picture: `restore_faces(measurement, restored, task, restore_face)`.

`restored` is the photograph's own restoration, in which faces are found and into which they are pasted.
`restore_face(y, view)` is any restoration of a measurement y of a face: `with_model` makes one from a model with the
chain E∘A∘D as its operator. A face is kept only if it explains the measurement no worse than the photograph's
version does; this needs no ground truth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from paseo.base import Degradation, Sampler
from paseo.errors import BadInput
from paseo.faces.align import Frame, frame_of
from paseo.faces.detect import Face, detect
from paseo.faces.paste import oval, paste
from paseo.faces.usable import hint, refusal
from paseo.faces.view import FaceView, view_of
from paseo.operators.exact import Chain
from paseo.street import LatentModel, restore

RestoreFace = Callable[[Tensor, Degradation], Tensor]
"""(measurement (1,3,h,w) in [0,1], view of it) → the face (3,side,side) in [0,1]."""

SLACK = 1.1  # a pasted face may fit the measurement this much worse than the photograph's version


@dataclass(frozen=True)
class FaceReport:
    """What became of one face."""

    box: tuple[float, float, float, float]  # in the restored picture
    size: float  # side of its frame, pixels
    restored: bool
    reason: str  # why not, or ""
    misfit: tuple[float, float] | None = None  # of the photograph's version and of the face, in [-1,1] units


@dataclass(frozen=True, eq=False)
class Retouched:
    """The picture with its faces, and a report on each."""

    image: Tensor  # (3,H,W) in [0,1]
    faces: tuple[FaceReport, ...]
    hint: str | None = None  # for the user, where the picture itself is a face


def restore_faces(
    measurement: Tensor,
    restored: Tensor,
    task: Degradation,
    restore_face: RestoreFace,
    *,
    side: int = 128,
    faces: Sequence[Face] | None = None,
) -> Retouched:
    """The restored picture (3,H,W) with every face that the face model can help; images in [0,1].

    `faces` are those of the restored picture where they are known already; without it they are sought.
    """
    _check(measurement, restored, task)
    size = (int(restored.shape[-2]), int(restored.shape[-1]))
    found = list(detect(restored) if faces is None else faces)
    frames = [frame_of(face.landmarks, side) for face in found]
    image, reports = restored, []
    for face, frame in zip(found, frames, strict=True):
        reason = refusal(face.landmarks, frame, size)
        if reason is not None:
            reports.append(FaceReport(face.box, frame.size, False, reason))
            continue
        image, report = _one(measurement, image, task, restore_face, face, frame)
        reports.append(report)
    return Retouched(image, tuple(reports), hint(frames, size))


def _one(
    measurement: Tensor,
    image: Tensor,
    task: Degradation,
    restore_face: RestoreFace,
    face: Face,
    frame: Frame,
) -> tuple[Tensor, FaceReport]:
    """The picture with this face, or as it was."""
    view, window = view_of(task, image, frame)
    y = measurement[(..., *window.measured)][None]
    new = restore_face(y, view)
    part = image[(..., *window.picture)]
    pasted = paste(part, new.to(image), view.frame).clamp(0, 1)
    before, after = misfit(view, y, part), misfit(view, y, pasted)
    if after > SLACK * before:
        reason = f"the photograph fits the measurement better ({before:.3f} against {after:.3f})"
        return image, FaceReport(face.box, frame.size, False, reason, (before, after))
    image = image.clone()
    image[(..., *window.picture)] = pasted
    return image, FaceReport(face.box, frame.size, True, "", (before, after))


@torch.no_grad()
def misfit(view: FaceView, y: Tensor, picture: Tensor) -> float:
    """RMS of A(picture) − y over the face's oval, both lifted to the face's frame, in [-1,1] units."""
    error = view.lift(view.task(picture[None] * 2 - 1)) - view.lift(y * 2 - 1)
    side = view.frame.side
    weight = oval((side, side), Frame((side / 2, side / 2), (side / 2, 0.0), side)).to(error)
    return float(((weight * error.square()).sum() / (weight.sum() * error.shape[1])).sqrt())


def with_model(model: LatentModel, sampler: Sampler, *, sigma_y: float = 0.01, seed: int = 0) -> RestoreFace:
    """Restores faces with a model and the chain E∘A∘D: exact for every task, at the price of the codec."""

    def restore_face(y: Tensor, view: Degradation) -> Tensor:
        chain = Chain(model.codec, view)
        done = restore(
            y, operator=chain, degradation=view, sampler=sampler, model=model, sigma_y=sigma_y, seeds=seed
        )
        return done.images[0]

    return restore_face


def _check(measurement: Tensor, restored: Tensor, task: Degradation) -> None:
    for image, what in ((measurement, "measurement"), (restored, "restored picture")):
        if image.ndim != 3 or image.shape[0] != 3 or not bool(torch.isfinite(image).all()):
            raise BadInput(f"The {what} must be a finite tensor (3,H,W), got the shape {tuple(image.shape)}.")
    expected = task.output_size(int(restored.shape[-2]), int(restored.shape[-1]))
    if tuple(measurement.shape[-2:]) != tuple(expected):
        raise BadInput(
            f"A picture of {restored.shape[-2]}×{restored.shape[-1]} has a measurement of {expected[0]}×"
            f"{expected[1]}, got {measurement.shape[-2]}×{measurement.shape[-1]}. Is the task {task.name} right?"
        )
