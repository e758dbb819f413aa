"""Blind PASEO: parameters c of the degradation that are not known are found first (beyond the paper).

A short run is told each value on a grid, then values around the best one. Its last estimate ẑ_c lies where
the prior's pictures lie, so that neither too little nor too much of the degradation explains y_z well:

    c = argmin_c  mean ( d² / e_c² + log e_c² ),      d = y_z − H(ẑ_c, c)

e_c is the error that the operator itself expects at c, 1 where it does not know it. The minimum of a parabola
through the three best values is taken, per sample, so that the spread over the draws tells how well c is
known. All short runs of a sample use the same noise. Nothing is differentiated.

Gauss–Newton steps in c along a single run were tried and left out: z has then been fitted with the c at hand,
and a run is over before c has gone its way. A prior without typical pictures (a Gaussian) only
gives an upper limit. Figures: docs/what-happened.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import torch
from torch import Tensor

from paseo.base import HasKnobs, Knob, KnowsResidual, LatentOperator, Prior, Problem
from paseo.linalg import linearize
from paseo.noise import Noise
from paseo.samplers.weight import residual

SHORT = 8  # time points of a short run
GRID = 7  # values over the whole range
ROUNDS = 2  # of two more values, each at half the distance

Name = Literal["sigma", "factor"]
Map = Callable[[Tensor], Tensor]


class Run(Protocol):
    def __call__(self, prior: Prior, problem: Problem, noise: Noise, /) -> Tensor: ...


def find(
    names: Sequence[str], run: Run, prior: Prior, problem: Problem, noise: Noise
) -> tuple[Problem, dict[str, list[float]]]:
    """The problem with its operator at the parameters that `run`, a short one, explains best, and these as
    people know them, one number per sample; without names as it is.
    """
    operator = problem.operator
    if not names or not isinstance(operator, HasKnobs):
        return problem, {}
    search = Search(operator, run, prior, problem, tuple(noise.seeds))
    for name in names:
        search.turn(name)
    knobs = operator.knobs()
    found = {name: [knobs[name].read(v) for v in search.c[name].tolist()] for name in names}
    return replace(problem, operator=search.told({})), found


class Search:
    """The parameters found so far, by name: (B,) coordinates."""

    def __init__(
        self, operator: HasKnobs, run: Run, prior: Prior, problem: Problem, seeds: tuple[int, ...]
    ) -> None:
        self.operator, self.run, self.prior, self.problem, self.seeds = operator, run, prior, problem, seeds
        self.c: dict[str, Tensor] = {}

    def turn(self, name: str) -> None:
        """Find one parameter, with the others as they are."""
        knob, rows = self.operator.knobs()[name], len(self.problem.y_z)
        values = [torch.full((rows,), v) for v in torch.linspace(knob.low, knob.high, GRID).tolist()]
        scores = [self.score(name, value) for value in values]
        width = (knob.high - knob.low) / (GRID - 1)
        for _ in range(ROUNDS):
            width /= 2
            best = _best(values, scores)
            for side in (-width, width):
                values.append((best + side).clamp(knob.low, knob.high))
                scores.append(self.score(name, values[-1]))
        self.c[name] = parabola(torch.stack(values), torch.stack(scores), width)

    def score(self, name: str, value: Tensor) -> Tensor:
        """(B,): how badly a run that is told these values explains the measurement."""
        H = self.told({name: value})
        problem = replace(self.problem, operator=H)
        left = self.problem.y_z - H(self.run(self.prior, problem, Noise(self.seeds)))
        error = residual(problem)
        if error is not None:
            left = left / error
        return left.flatten(1).square().mean(1) + (0.0 if error is None else _log_square(error, left))

    def told(self, values: dict[str, Tensor]) -> LatentOperator:
        """The operator with what was found and these values, each sample with its own."""
        c = self.c | values
        rows = range(len(self.problem.y_z))
        each = [self.operator.turned({name: float(v[i]) for name, v in c.items()}) for i in rows]
        return each[0] if len(each) == 1 else Separate(tuple(each))


def _log_square(error: Tensor, like: Tensor) -> Tensor:
    return (2 * error.log()).expand_as(like).flatten(1).mean(1)


def _best(values: list[Tensor], scores: list[Tensor]) -> Tensor:
    return torch.stack(values).gather(0, torch.stack(scores).argmin(0, keepdim=True))[0]


def parabola(values: Tensor, scores: Tensor, width: float) -> Tensor:
    """(B,): the least point of a parabola through the best value and its neighbours at `width` (K, B)."""
    best = values.gather(0, scores.argmin(0, keepdim=True))
    near = (values - best).abs() <= 1.5 * width
    found = best[0].clone()
    for i in range(values.shape[1]):
        x, f = values[near[:, i], i].double() - best[0, i], scores[near[:, i], i].double()
        if len(x.unique()) < 3:
            continue  # at the end of the range
        a, b, _ = torch.linalg.lstsq(torch.stack([x * x, x, torch.ones_like(x)], 1), f[:, None]).solution[
            :, 0
        ]
        if a > 0:
            found[i] += float((-b / (2 * a)).clamp(-width, width))
    return found


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


def knobs_in(operator: LatentOperator) -> dict[str, Knob]:
    return operator.knobs() if isinstance(operator, HasKnobs) else {}


def runs_for(names: Sequence[str]) -> int:
    """How many short runs a search takes."""
    return len(names) * (GRID + 2 * ROUNDS)


def unknown_names(names: Sequence[str], problem: Problem) -> str | None:
    """Why these parameters cannot be found here, or None."""
    knobs = knobs_in(problem.operator)
    if missing := [name for name in names if name not in knobs]:
        has = f"it has {', '.join(knobs)}" if knobs else "it has none: use the operator of a family"
        return f"blind={','.join(names)} needs an operator whose {missing[0]} can be turned; {has}."
    return None
