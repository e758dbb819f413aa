"""Whether a face is better than the photograph's version of it, decided without the truth.

    misfit        RMS of A(x) − y: a face that does not explain the measurement is not that person
    detail        RMS of what a small blur takes away: a version with much less of it is blurred
    strangeness   how far the face model's denoiser moves it: a version that moves further is damaged

A version of the photograph stays unless it is blurred, or very strange, or a little strange and at the same
time unable to explain the measurement. All are taken over the face's oval at the face model's size. The
limits are on the safe side of what was seen on faces of real photographs: see `docs/howto/faces.md`.
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
from paseo.units import signed_std, to_signed

BLURRED = 0.6  # of the face's detail: a photograph with less is blurred
STRANGE = 1.07  # times the face's strangeness: a photograph with more is damaged
ODD, UNEXPLAINED = 1.013, 1.35  # less of it counts where the misfit is this many times that of noise alone
EIGHT_BIT = 2 / 255  # less misfit than one level of 8 bit says nothing
FINE = 1.5  # σ of the blur whose residual is called detail, in pixels of the face

Strangeness = Callable[[Tensor], float]
"""A face (3,side,side) in [0,1] ↦ how unlike a face the model finds it."""


@dataclass(frozen=True)
class Judgement:
    """The figures of one face: of the photograph's version, then of the face model's."""

    misfit: tuple[float, float]  # in [-1,1] units
    noise: float  # the misfit that noise alone gives
    detail: tuple[float, float]  # in [0,1] units
    strangeness: tuple[float, float] | None

    @property
    def objection(self) -> str | None:
        """Why the photograph's version stays, or None."""
        old, new = self.misfit
        if new > max(old, self.noise):
            return f"the face does not explain the measurement (misfit {new:.3f}, the photograph {old:.3f})"
        return None if self.blurred or self.damaged else "it is fine as it is"

    @property
    def blurred(self) -> bool:
        """Whether the photograph's version lacks detail."""
        return self.detail[0] < BLURRED * self.detail[1]

    @property
    def damaged(self) -> bool:
        """Whether the photograph's version is no face that was measured like this."""
        if self.strangeness is None:
            return False
        ratio = self.strangeness[0] / self.strangeness[1]
        return ratio > STRANGE or (ratio > ODD and self.misfit[0] > UNEXPLAINED * self.noise)


@torch.no_grad()
def judge(
    view: FaceView,
    y: Tensor,
    old: Tensor,
    new: Tensor,
    sigma_y: float,
    strangeness: Strangeness | None,
) -> Judgement:
    """Two versions (3,h,w) of the window in [0,1] and its measurement y."""
    seen = [view.look(version[None])[0] for version in (old, new)]
    noise = signed_std(sigma_y) * torch.randn(y.shape, generator=torch.Generator().manual_seed(0)).to(y)
    return Judgement(
        (misfit(view, y, old), misfit(view, y, new)),
        max(_rms(view.lift(noise)), EIGHT_BIT),
        (_rms(_detail(seen[0][None])), _rms(_detail(seen[1][None]))),
        None if strangeness is None else (strangeness(seen[0]), strangeness(seen[1])),
    )


@torch.no_grad()
def misfit(view: FaceView, y: Tensor, version: Tensor) -> float:
    """RMS of A(version) − y, both lifted to the face's frame, in [-1,1] units."""
    return _rms(view.lift(view.task(to_signed(version[None]))) - view.lift(to_signed(y)))


def _detail(x: Tensor) -> Tensor:
    return x - GaussianBlur(FINE)(x)


def _rms(x: Tensor) -> float:
    """Over the oval of a face (1,3,side,side)."""
    side = int(x.shape[-1])
    weight = oval((side, side), Frame((side / 2, side / 2), (side / 2, 0.0), side)).to(x)
    return float(((weight * x.square()).sum() / (weight.sum() * x.shape[1])).sqrt())
