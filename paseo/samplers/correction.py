"""The parts of a correction that PASEO is given, so that an experiment hands it another and patches nothing.

linearize  (H, z) ↦ (h, J, Jᵀ)           the measurement model: what H is taken to be around z
solver     (J, Jᵀ, W, b) ↦ JᵀW v         of ((r²+λ) I + η² W J Jᵀ W) v = b; None: as the settings say

PASEO()(prior, problem, noise, parts=Parts(solver=morozov))        one run
Custom(PASEO(), Parts(solver=morozov))                             a sampler for `restore` and the benchmark
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from paseo.base import LatentOperator, Prior, Problem, Watch, ignore
from paseo.linalg import Linearization, Solve, linearize
from paseo.linalg.cg import Map
from paseo.noise import Noise

Linearize = Callable[[LatentOperator, Tensor], Linearization]


class Solver(Protocol):
    def __call__(
        self, J: Map, JT: Map, W: Tensor, b: Tensor, /, *, eta2: float, trust: float, report: bool
    ) -> Solve:
        """JᵀW v, per sample; the residual that is left only where `report` asks for it."""
        ...


@dataclass(frozen=True)
class Parts:
    linearize: Linearize = linearize
    solver: Solver | None = None


PARTS = Parts()  # those of the paper


class TakesParts(Protocol):
    """A sampler whose corrections can be given other parts."""

    @property
    def nfe(self) -> int: ...
    def __call__(
        self, prior: Prior, problem: Problem, noise: Noise, watch: Watch = ignore, parts: Parts = PARTS
    ) -> Tensor: ...
    def unsupported(self, problem: Problem) -> str | None: ...


@dataclass(frozen=True)
class WithParts:
    """A sampler with other parts, in one value."""

    base: TakesParts
    parts: Parts

    @property
    def nfe(self) -> int:
        return self.base.nfe

    def __call__(self, prior: Prior, problem: Problem, noise: Noise, watch: Watch = ignore) -> Tensor:
        return self.base(prior, problem, noise, watch, self.parts)

    def unsupported(self, problem: Problem) -> str | None:
        return self.base.unsupported(problem)
