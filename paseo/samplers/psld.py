"""PSLD: posterior sampling with latent diffusion (Rout et al., 2023).

    error = ω ‖y − A(x̂)‖ + γ ‖x̂₀ − E(Aᵀy + x̂ − AᵀA x̂)‖,   x̂ = D(x̂₀)        the second term is the "gluing"

The loop is in `paseo.samplers.dps`. Source: LituRout/PSLD and its SD3.5 port released with DING.

Departures:
- Aᵀ is the exact adjoint, as in PASEO's paper; `adjoint="nearest"` repeats the released one (nearest
  up-sampling for super-resolution, the identity for blur and masks), which is not an adjoint;
- E is the codec's mean, where the released code draws from the encoder's posterior;
- the fresh noise that the released code adds to A(x̂) is `redraw_noise`; its paste of the clean image into
  the visible region of inpainting results reads the ground truth and is not offered;
- norms per sample; all n − 1 intervals walked (see LDPS);
- PASEO's paper tuned ω and γ per task and prints neither; the default keeps its ω = 10 and the official
  ratio γ = ω/10. JPEG has no adjoint, so PSLD cannot run on it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from paseo.base import Problem
from paseo.noise import Noise
from paseo.samplers.dps import LatentDPS
from paseo.samplers.misfit import adjoint, codec_of, degradation_of, needs_adjoint
from paseo.samplers.state import checkpointed
from paseo.setting import setting


@dataclass(frozen=True)
class PSLD(LatentDPS):
    gluing: float = setting(1.0, "γ", "weight of the gluing term", "[0, 1e6]", tune="0.01:10.0:log")
    adjoint: Literal["exact", "nearest"] = setting("exact", "Aᵀ", "the adjoint, or the released one")

    def unsupported(self, problem: Problem) -> str | None:
        return needs_adjoint(problem)

    def error(self, problem: Problem, x0: Tensor, image: Tensor, noise: Noise) -> Tensor:
        error = self.consistency(problem, image, noise)
        if self.gluing == 0:
            return error
        glued = checkpointed(codec_of(problem).encode, self.glue(problem, image), self.checkpoint)
        return error + self.gluing * self.length(x0 - glued)

    def glue(self, problem: Problem, image: Tensor) -> Tensor:
        """Aᵀy + x̂ − AᵀA x̂: the measurement in the range of Aᵀ, the estimate elsewhere."""
        A = degradation_of(problem)
        if self.adjoint == "exact":
            return adjoint(problem, problem.y) + Unseen.apply(image, lambda v: v - adjoint(problem, A(v)))
        size = image.shape[-2:]
        return image + F.interpolate(problem.y - A(image), size=size, mode="nearest")


class Unseen(torch.autograd.Function):
    """v ↦ (I − AᵀA) v. The map is its own transpose, so its gradient is itself: the adjoint needs no graph of
    its own.
    """

    @staticmethod
    def forward(ctx: Any, v: Tensor, apply: Callable[[Tensor], Tensor]) -> Tensor:
        ctx.unseen = apply
        return apply(v.detach())

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        with torch.no_grad():
            return ctx.unseen(grads[0]), None
