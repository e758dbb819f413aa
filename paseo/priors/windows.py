"""A prior that walks its canvas in windows inside each call: one call, one whole estimate, no seams."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from paseo.base import Prior
from paseo.schedule import Schedule
from paseo.windows import Cover, blended


@dataclass(frozen=True, eq=False)
class WindowedPrior:
    """x̂₀(x, t) = Σ_k R_kᵀ W_k x̂₀(R_k x, t)."""

    prior: Prior
    cover: Cover

    @property
    def schedule(self) -> Schedule:
        return self.prior.schedule

    def x0(self, x: Tensor, t: float) -> Tensor:
        return blended(lambda crop: self.prior.x0(crop, t), x, self.cover)
