"""One prior, seen as flow, VP or VE. A denoiser only sees the level σ/α, so the same state can be scaled
three ways:

    flow  x/(α+σ)        VP  x/√(α²+σ²)        VE  x/α

with the same clean and noise estimates. A view visits the levels of the prior's own grid, so a run in any
view is the same run (with η by the DDPM rule; the two wider rules read α and mean something else in each
view).
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from paseo.base import Prior
from paseo.schedule import VE, VP, Cosine, Flow, OnLevels, Schedule


@dataclass(frozen=True, eq=False)
class View:
    """`prior` with its states in the scaling of `target`."""

    prior: Prior
    target: Schedule

    @property
    def schedule(self) -> Schedule:
        return OnLevels(self.target, self.prior.schedule)

    def x0(self, x: Tensor, t: float) -> Tensor:
        here = self.target.point(t)
        there = self.prior.schedule.at_level(here.level)
        return self.prior.x0(x * (there.scale / here.scale), there.t)


def as_flow(prior: Prior) -> Prior:
    """α = 1 − t, σ = t."""
    return prior if isinstance(prior.schedule, Flow) else View(prior, Flow())


def as_vp(prior: Prior) -> Prior:
    """α² + σ² = 1, with t the angle; a prior on a VP table is one already."""
    return prior if isinstance(prior.schedule, VP | Cosine) else View(prior, Cosine())


def as_ve(prior: Prior) -> Prior:
    """α = 1, σ = t."""
    return prior if isinstance(prior.schedule, VE) else View(prior, VE())
