"""GML-DPS: latent DPS with a goodness term that keeps x̂₀ a fixed point of the codec (Rout et al., 2023).

    error = ω ‖y − A(x̂)‖ + γ ‖x̂₀ − E(x̂)‖,   x̂ = D(x̂₀)

PSLD with its gluing replaced; no adjoint, so it runs on JPEG. The loop is in `paseo.samplers.dps`. Source:
the equations of the PSLD paper (its released code has no GML-DPS).

Departures: norms not squared and per sample, as for PSLD; E is the codec's mean; all n − 1 intervals walked
(see LDPS).
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from paseo.base import Problem
from paseo.noise import Noise
from paseo.samplers.dps import LatentDPS
from paseo.samplers.misfit import codec_of
from paseo.samplers.state import checkpointed
from paseo.setting import setting


@dataclass(frozen=True)
class GMLDPS(LatentDPS):
    goodness: float = setting(1.0, "γ", "weight of the goodness term", "[0, 1e6]", tune="0.01:10.0:log")

    def error(self, problem: Problem, x0: Tensor, image: Tensor, noise: Noise) -> Tensor:
        error = self.consistency(problem, image, noise)
        if self.goodness == 0:
            return error
        return error + self.goodness * self.distance(problem, x0, image)

    def distance(self, problem: Problem, x0: Tensor, image: Tensor) -> Tensor:
        """‖x̂₀ − E(x̂)‖ per sample, squared if the loss is."""
        return self.length(x0 - checkpointed(codec_of(problem).encode, image, self.checkpoint))
