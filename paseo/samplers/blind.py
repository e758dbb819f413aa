"""Blind PASEO: parameters c of the degradation that are not known are found on the way (beyond the paper).

H(z, c) can be differentiated in c as well as in z. After the corrections of a step, c takes a damped
Gauss–Newton step, per sample, on

    ‖y_z − H(z, c)‖² / ν + Σ_j (c_j − c_j⁰)² / τ_j²          ν = max(r², the misfit's own mean square)

J_c is a handful of columns, one more value of H each, by differences; the denoiser is still not
differentiated. z is a posterior draw under the c at hand and y_z is not perturbed: the mean step then follows
the likelihood of y_z alone, in which z is integrated out (Fisher's identity).

`likeliest` is the plain alternative: one run per value on a grid, and the least misfit at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from paseo.base import HasKnobs, Knob, LatentOperator, Prior, Problem
from paseo.errors import BadInput
from paseo.linalg import linearize
from paseo.noise import Noise

PRIOR = 1.0  # τ as a share of a parameter's range
DIFFERENCE = 2e-3  # step of the differences, of the range
LONGEST = 0.15  # step of c, of the range
DAMPING = 0.5  # share of the Gauss–Newton step that is taken
INFORMED = 1.0  # η_z from which on the prior of a step says more than white noise

Map = Callable[[Tensor], Tensor]


class Unknown:
    """c (B, P) of a run; without names it is nothing and changes nothing."""

    def __init__(self, names: Sequence[str], operator: LatentOperator, y_z: Tensor, noise: float) -> None:
        self.names, self.noise = tuple(names), noise
        self.operator = operator
        self.knobs = [knobs_in(operator)[name] for name in self.names]
        start = torch.tensor([knob.value for knob in self.knobs], dtype=torch.float64)
        self.start, self.c = start, start.expand(len(y_z), -1).clone()
        self.range = torch.tensor([knob.high - knob.low for knob in self.knobs], dtype=torch.float64)

    @property
    def found(self) -> dict[str, list[float]]:
        """The parameters as people know them, one number per sample."""
        columns = zip(self.names, self.knobs, self.c.T, strict=True)
        return {name: [knob.read(v) for v in column.tolist()] for name, knob, column in columns}

    def step(self, H: LatentOperator, z: Tensor, y_z: Tensor, eta_z: float) -> LatentOperator:
        """H at the next c; `z` is the step's clean estimate, made with H."""
        if not self.names or eta_z > INFORMED:
            return H
        left = (y_z - H(z)).flatten(1).double()
        columns = [self._column(j, z, y_z, left) for j in range(len(self.names))]
        J = torch.stack(columns, dim=2)  # (B, N, P)
        nu = left.square().mean(1).clamp_min(self.noise**2)[:, None]
        width = PRIOR * self.range
        precision = (J.mT @ J) / nu[:, :, None] + torch.diag(width**-2)
        pull = (J.mT @ left[:, :, None])[:, :, 0] / nu - (self.c - self.start) / width**2
        move = DAMPING * torch.linalg.solve(precision, pull)
        self.c = self._inside(self.c + move.clamp(-LONGEST * self.range, LONGEST * self.range))
        return self._turned(self.c)

    def _column(self, j: int, z: Tensor, y_z: Tensor, left: Tensor) -> Tensor:
        """∂H/∂c_j (B, N), a difference towards the middle of the range."""
        middle = torch.tensor([(knob.low + knob.high) / 2 for knob in self.knobs], dtype=torch.float64)
        sign = torch.where(self.c[:, j] > middle[j], -1.0, 1.0)
        shifted = self.c.clone()
        shifted[:, j] += sign * DIFFERENCE * self.range[j]
        moved = left - (y_z - self._turned(shifted)(z)).flatten(1).double()
        return moved / (sign * DIFFERENCE * self.range[j])[:, None]

    def _inside(self, c: Tensor) -> Tensor:
        low = torch.tensor([knob.low for knob in self.knobs], dtype=torch.float64)
        return torch.minimum(torch.maximum(c, low), low + self.range)

    def _turned(self, c: Tensor) -> LatentOperator:
        assert isinstance(self.operator, HasKnobs)
        rows = [self.operator.turned(dict(zip(self.names, row, strict=True))) for row in c.tolist()]
        return rows[0] if len(rows) == 1 else Separate(tuple(rows))


@dataclass(frozen=True, eq=False)
class Separate:
    """Each sample of a batch with an operator of its own."""

    operators: tuple[LatentOperator, ...]

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


def unknown_names(names: Sequence[str], problem: Problem) -> str | None:
    """Why these parameters cannot be found here, or None."""
    knobs = knobs_in(problem.operator)
    if missing := [name for name in names if name not in knobs]:
        has = f"it has {', '.join(knobs)}" if knobs else "it has none: use the operator of a family"
        return f"blind={','.join(names)} needs an operator whose {missing[0]} can be turned; {has}."
    return None


def likeliest(
    run: Callable[[Prior, Problem, Noise], Tensor],
    prior: Prior,
    problem: Problem,
    seeds: Sequence[int],
    name: str,
    grid: Sequence[float],
) -> tuple[list[float], Tensor]:
    """The value of each sample with the least misfit ‖y_z − H(ẑ, c)‖², and all misfits (grid, B).

    `run` is a sampler, told each value in turn; a short one will do. Values are coordinates of the knob.
    """
    operator = problem.operator
    if (reason := unknown_names([name], problem)) or not isinstance(operator, HasKnobs):
        raise BadInput(reason or "This operator has no parameters.")
    misfits = []
    for value in grid:
        H = operator.turned({name: value})
        z = run(prior, replace(problem, operator=H), Noise(seeds))
        misfits.append((problem.y_z - H(z)).flatten(1).square().mean(1))
    table = torch.stack(misfits)
    read = operator.knobs()[name].read
    return [read(grid[i]) for i in table.argmin(0).tolist()], table
