"""Whether a face is better than the photograph's version of it, decided without the truth.

    misfit        RMS of A(x) − y: a face that does not explain the measurement is not that person
    detail        RMS of what a small blur takes away: a version with much less detail is blurred
    strangeness   how far the face model's denoiser moves it: a version that moves further is damaged

A version of the photograph that is neither blurred nor strange is fine, and stays. All are taken over the face's
oval at the face model's size. The limits were set on faces of real photographs, see `docs/howto/faces.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from paseo.degrade import GaussianBlur
from paseo.faces.align import Frame
from paseo.faces.paste import oval
from paseo.faces.view import FaceView

WORSE = 1.25  # times the photograph's misfit: what a face may have
LOSS = 1.2  # of a task that is not linear: times what the task itself does to the face
BLURRED = 0.6  # of the face's detail: a photograph with less is blurred
STRANGE = 1.055  # times the face's strangeness: a photograph with more is damaged
FINE = 1.5  # σ of the blur whose residual is called detail, in pixels of the face

Strangeness = Callable[[Tensor], float]
"""A face (3,side,side) in [0,1] ↦ how unlike a face the model finds it."""


@dataclass(frozen=True)
class Judgement:
    """The figures of one face: of the photograph's version, then of the face model's."""

    misfit: tuple[float, float]  # in [-1,1] units
    detail: tuple[float, float]  # in [0,1] units
    strangeness: tuple[float, float] | None
    loss: float | None  # what the task does to the new face, where the task is not linear

    @property
    def objection(self) -> str | None:
        """Why the photograph's version stays, or None."""
        old, new = self.misfit
        if new > max(WORSE * old, LOSS * (self.loss or 0.0)):
            return (
                f"the face does not explain the measurement (misfit {new:.3f}, the photograph has {old:.3f})"
            )
        blurred = self.detail[0] < BLURRED * self.detail[1]
        strange = self.strangeness is not None and self.strangeness[0] > STRANGE * self.strangeness[1]
        return None if blurred or strange else "it is fine as it is"


@torch.no_grad()
def judge(
    view: FaceView, y: Tensor, old: Tensor, new: Tensor, face: Tensor, strangeness: Strangeness | None
) -> Judgement:
    """Two versions (3,h,w) of the window in [0,1], its measurement y, and the face as the model gave it."""
    seen = [view.look(version[None])[0] for version in (old, new)]
    linear = getattr(view.task, "linear", True)
    u = face[None].to(view.background) * 2 - 1
    strange = None if strangeness is None else (strangeness(seen[0]), strangeness(seen[1]))
    return Judgement(
        (misfit(view, y, old), misfit(view, y, new)),
        (_rms(_detail(seen[0][None])), _rms(_detail(seen[1][None]))),
        strange,
        None if linear else _rms(view.lift(view(u)) - u),
    )


@torch.no_grad()
def misfit(view: FaceView, y: Tensor, version: Tensor) -> float:
    """RMS of A(version) − y, both lifted to the face's frame, in [-1,1] units."""
    return _rms(view.lift(view.task(version[None] * 2 - 1)) - view.lift(y * 2 - 1))


def _detail(x: Tensor) -> Tensor:
    return x - GaussianBlur(FINE)(x)


def _rms(x: Tensor) -> float:
    """Over the oval of a face (1,3,side,side)."""
    side = int(x.shape[-1])
    weight = oval((side, side), Frame((side / 2, side / 2), (side / 2, 0.0), side)).to(x)
    return float(((weight * x.square()).sum() / (weight.sum() * x.shape[1])).sqrt())
