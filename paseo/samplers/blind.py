"""Blind PASEO: parameters c of the degradation that are not known are found first (beyond the paper).

    c = argmax_c p(y | c)

with the picture integrated out: by what the spectrum of a measurement shows (spectrum.py), for every
measurement by itself, before the first step. It costs no denoiser call, and all draws of one measurement have
the same c; how far it may be off is told beside it.

Two other ways were tried and left out, since z has then been fitted with the c at hand and holds it there:
Gauss–Newton steps in c along a run, and short runs that are told the values of a grid, of which the one whose
result explains y_z best wins. Figures: docs/what-happened.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from paseo.base import SPREAD, HasKnobs, Knob, KnowsResidual, LatentOperator, Problem
from paseo.linalg import linearize
from paseo.samplers.spectrum import Estimate, estimate

Name = Literal["sigma", "factor"]
Map = Callable[[Tensor], Tensor]
Found = dict[str, list[float]]  # one number per sample; beside NAME, NAME_std is how far it may be off


def find(names: Sequence[str], problem: Problem) -> tuple[Problem, Found]:
    """The problem with its operator at the parameters that its measurements show, and these as people know
    them; without names as it is.
    """
    operator = problem.operator
    if not names or not isinstance(operator, HasKnobs):
        return problem, {}
    knobs, found = operator.knobs(), Found()
    rows: list[dict[str, float]] = [{} for _ in problem.y_z]
    for name in names:
        each = _estimates(problem, knobs[name])
        for row, one in zip(rows, each, strict=True):
            row[name] = one.value
        found[name] = [knobs[name].read(one.value) for one in each]
        found[name + SPREAD] = [_spread(knobs[name], one) for one in each]
    same = all(row == rows[0] for row in rows)  # draws of one measurement
    turned = [operator.turned(row) for row in (rows[:1] if same else rows)]
    return replace(problem, operator=turned[0] if same else Separate(tuple(turned))), found


def _estimates(problem: Problem, knob: Knob) -> list[Estimate]:
    """One for each measurement; several draws share that of theirs."""
    known: list[tuple[Tensor, Estimate]] = []
    found = []
    for y in problem.y:
        one = next((e for before, e in known if torch.equal(before, y)), None)
        if one is None:
            one = estimate(y, problem.sigma_y, knob)
            known.append((y, one))
        found.append(one)
    return found


def _spread(knob: Knob, one: Estimate) -> float:
    """Half the distance between the values one std to both sides, in the numbers that people know."""
    return abs(knob.read(one.value + one.std) - knob.read(one.value - one.std)) / 2


@dataclass(frozen=True, eq=False)
class Separate:
    """Each sample of a batch with an operator of its own."""

    operators: tuple[LatentOperator, ...]

    @property
    def residual(self) -> Tensor | None:
        """The error of each (B, C, 1, 1), where all know it."""
        errors = [H.residual if isinstance(H, KnowsResidual) else None for H in self.operators]
        known = [error for error in errors if error is not None]
        return torch.stack(known) if len(known) == len(errors) else None

    def __call__(self, z: Tensor) -> Tensor:
        return self._each(self.operators, z)

    def linearize(self, z: Tensor) -> tuple[Tensor, Map, Map]:
        """(H(z), v ↦ J v, u ↦ Jᵀ u), sample by sample."""
        parts = [linearize(H, z[i : i + 1]) for i, H in enumerate(self.operators)]
        J, JT = [part.J for part in parts], [part.JT for part in parts]
        return torch.cat([part.h for part in parts]), lambda v: self._each(J, v), lambda u: self._each(JT, u)

    @staticmethod
    def _each(maps: Sequence[Map], x: Tensor) -> Tensor:
        return torch.cat([f(x[i : i + 1]) for i, f in enumerate(maps)])


def unknown_names(names: Sequence[str], problem: Problem) -> str | None:
    """Why these parameters cannot be found here, or None."""
    knobs = problem.operator.knobs() if isinstance(problem.operator, HasKnobs) else {}
    if missing := [name for name in names if name not in knobs]:
        has = f"it has {', '.join(knobs)}" if knobs else "it has none: use the operator of a family"
        return f"blind={','.join(names)} needs an operator whose {missing[0]} can be turned; {has}."
    if hidden := [name for name in names if knobs[name].transfer is None]:
        return (
            f"blind={hidden[0]} reads the spectrum of the measurement, in which this task does not show it: "
            "sigma is found behind blur:1 alone, factor behind sr:1 (a picture that was enlarged again). "
            "Or name the number."
        )
    return None
