"""All faces of one picture: `restore_faces(measurement, restored, task, restore_face)`.

`restored` is the photograph's own restoration, in which faces are found and into which they are pasted;
those that it lost are found in the measurement.
`restore_face(y, view)` is any restoration of a measurement y of a face; `FaceModel` makes one from a latent
model with the chain E∘A∘D as its operator. Whether a face stays is decided in `judge`, without the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from paseo.base import Degradation, Sampler
from paseo.errors import BadInput
from paseo.faces.align import Frame, frame_of
from paseo.faces.detect import Face, detect, suppress
from paseo.faces.judge import Judgement, Strangeness, judge
from paseo.faces.paste import paste
from paseo.faces.usable import hint, refusal
from paseo.faces.view import view_of
from paseo.operators.exact import Chain
from paseo.street import LatentModel, restore
from paseo.units import to_signed, to_unit

RestoreFace = Callable[[Tensor, Degradation], Tensor]
"""(measurement (1,3,h,w) in [0,1], view of it) → the face (3,side,side) in [0,1]."""

PROBES, LEVEL = 4, 0.25  # of strangeness: noises, and σ/α of their level


@dataclass(frozen=True)
class FaceReport:
    """What became of one face."""

    box: tuple[float, float, float, float]  # in the restored picture
    size: float  # side of its frame, pixels
    restored: bool
    reason: str  # why not, or ""
    judgement: Judgement | None = None  # the figures that decided, where the face model was asked


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
    sigma_y: float = 0.01,
    strangeness: Strangeness | None = None,
    side: int = 128,
    faces: Sequence[Face] | None = None,
) -> Retouched:
    """The restored picture (3,H,W) with every face that the face model can help; images in [0,1].

    `strangeness` lets the face model also mend versions that are sharp and wrong; without it only blurred
    ones are replaced. `faces` are those of the restored picture where they are known; else they are sought.
    """
    _check(measurement, restored, task)
    measurement = measurement.to(restored)
    size = (int(restored.shape[-2]), int(restored.shape[-1]))
    found = list(sought(measurement, restored, task) if faces is None else faces)
    frames = [frame_of(face.landmarks, side) for face in found]
    image, reports = restored, []
    for face, frame in zip(found, frames, strict=True):
        reason = refusal(face.landmarks, frame, size)
        if reason is not None:
            reports.append(FaceReport(face.box, frame.size, False, reason))
            continue
        image, judgement = _one(measurement, image, task, restore_face, frame, sigma_y, strangeness)
        objection = judgement.objection
        reports.append(FaceReport(face.box, frame.size, objection is None, objection or "", judgement))
    return Retouched(image, tuple(reports), hint(frames, size))


def sought(measurement: Tensor, restored: Tensor, task: Degradation) -> list[Face]:
    """The faces of the restored picture, and those that only the measurement still shows: a model that knows
    no faces may have painted over them.
    """
    size = (int(restored.shape[-2]), int(restored.shape[-1]))
    lifted = to_unit(task.lift(to_signed(measurement[None]), size))[0].clamp(0, 1)
    found = [*detect(restored), *detect(lifted)]
    if not found:
        return []
    order = torch.arange(len(found), 0, -1)  # where both show it, the restored picture's is taken
    boxes = torch.tensor([face.box for face in found])
    return [found[i] for i in suppress(boxes, order.float(), 0.4, by="smaller").tolist()]


def _one(
    measurement: Tensor,
    image: Tensor,
    task: Degradation,
    restore_face: RestoreFace,
    frame: Frame,
    sigma_y: float,
    strangeness: Strangeness | None,
) -> tuple[Tensor, Judgement]:
    """The picture with this face, or as it was."""
    view, window = view_of(task, image, frame)
    y = measurement[(..., *window.measured)][None]
    face = restore_face(y, view).to(image)
    old = image[(..., *window.picture)]
    new = paste(old, face, view.frame).clamp(0, 1)
    judgement = judge(view, y, old, new, sigma_y, strangeness)
    if judgement.objection is None:
        image = image.clone()
        image[(..., *window.picture)] = new
    return image, judgement


@dataclass(frozen=True)
class FaceModel:
    """Restores faces with a latent model and the chain E∘A∘D: for every task, at the price of the codec."""

    model: LatentModel
    sampler: Sampler  # one whose weight needs no trained operator, such as PASEO(weight="ones")
    sigma_y: float = 0.01
    seed: int = 0

    def __call__(self, y: Tensor, view: Degradation) -> Tensor:
        """The face (3,side,side) in [0,1] of a measurement (1,3,h,w)."""
        return restore(
            y,
            operator=Chain(self.model.codec, view),
            degradation=view,
            sampler=self.sampler,
            model=self.model,
            sigma_y=self.sigma_y,
            seeds=self.seed,
        ).images[0]

    @torch.no_grad()
    def strangeness(self, face: Tensor) -> float:
        """RMS of x̂₀(αz + σε) − z for the face's latent z and fixed noises ε."""
        z = self.model.codec.encode(to_signed(face[None]))
        noise = torch.randn(PROBES, *z.shape[1:], generator=torch.Generator().manual_seed(0)).to(z)
        prior = self.model.prior
        point = prior.schedule.at_level(LEVEL)
        return float((prior.x0(point.alpha * z + point.sigma * noise, point.t) - z).square().mean().sqrt())


def _check(measurement: Tensor, restored: Tensor, task: Degradation) -> None:
    for image, what in ((measurement, "measurement"), (restored, "restored picture")):
        if image.ndim != 3 or image.shape[0] != 3 or not bool(torch.isfinite(image).all()):
            raise BadInput(f"The {what} must be a finite tensor (3,H,W), got the shape {tuple(image.shape)}.")
    expected = task.output_size(int(restored.shape[-2]), int(restored.shape[-1]))
    if tuple(measurement.shape[-2:]) != tuple(expected):
        raise BadInput(
            f"A picture of {restored.shape[-2]}×{restored.shape[-1]} has a measurement of {expected[0]}×"
            f"{expected[1]}, got {measurement.shape[-2]}×{measurement.shape[-1]}. Is {task.name} the task?"
        )
