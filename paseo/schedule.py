"""Noise schedules t ↦ (α_t, σ_t) of x_t = α_t z + σ_t ε, their native time grids, and the bridge noise η.

All coefficients are Python floats, so float64 for free: η_z = η/α runs from ~250 to ~0.001 and must never
meet bfloat16. A denoiser only sees the level σ/α. One state can therefore be viewed as flow, VP or VE
(`Schedule.at_level`, `paseo.priors.views`), with the same clean and noise estimates.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import Literal, Protocol, get_args

from paseo.errors import BadInput

EtaRule = Literal["ddpm", "square", "sqrt"]


@dataclass(frozen=True)
class Point:
    """One time point: native time, signal and noise coefficients, and the std η of the bridge that arrives
    here.
    """

    t: float
    alpha: float
    sigma: float
    eta: float = 0.0

    @property
    def level(self) -> float:
        """σ/α, all that a denoiser can see of the time."""
        return self.sigma / self.alpha if self.alpha > 0 else math.inf

    @property
    def eta_z(self) -> float:
        """η/α: the std of the clean-latent prior N(μ_z, η_z² I)."""
        return self.eta / self.alpha

    @property
    def scale(self) -> float:
        """√(α² + σ²): the std of a state whose clean latent has unit variance."""
        return math.hypot(self.alpha, self.sigma)


class Schedule(Protocol):
    def point(self, t: float) -> Point: ...
    def at_level(self, level: float) -> Point: ...
    def times(self, steps: int) -> list[float]: ...


@dataclass(frozen=True)
class Flow:
    """α = 1 − t, σ = t; the uniform grid 1 … 0, warped by t ↦ kt / (1 + (k−1)t) with k = `shift`."""

    shift: float = 1.0

    def point(self, t: float) -> Point:
        return Point(t, 1.0 - t, t)

    def at_level(self, level: float) -> Point:
        return self.point(1.0 if math.isinf(level) else level / (1.0 + level))

    def times(self, steps: int) -> list[float]:
        return [shifted(1.0 - i / (steps - 1), self.shift) for i in range(steps)]


@dataclass(frozen=True)
class SD3Flow(Flow):
    """The native grid of SD3 / SD3.5: 1000 levels, the shift applied twice.

    The scheduler shifts k/1000 at construction and then rebuilds its 1000-point grid between the *already
    shifted* end points and shifts again. A run of n points takes the indices ⌊linspace(0, 999, n)⌋ of the
    ascending table that starts with the terminal 0, so a run starts at σ = 0.9997 and not at 1.
    """

    shift: float = 3.0

    def times(self, steps: int) -> list[float]:
        return [self.table()[i] for i in reversed(indices(999, steps))]

    def table(self) -> list[float]:
        """1001 ascending values of σ, the terminal 0 first."""
        low, high = shifted(1 / 1000, self.shift), 1.0
        return [0.0] + [shifted(low + (high - low) * i / 999, self.shift) for i in range(1000)]

    def network_time(self, t: float, published: bool = False) -> float:
        """The level the network is told; `published` repeats the released off-by-one (the next noisier
        level).
        """
        if not published:
            return t
        table = self.table()
        return table[min(bisect_right(table, t + 1e-12), 1000)]


@dataclass(frozen=True)
class VP:
    """Variance preserving, from a β table; ᾱ = 1 is prepended, so t = 0 is exactly clean and t = 1000 pure SD
    noise.
    """

    betas: tuple[float, ...] = field(default_factory=lambda: scaled_linear(), repr=False)

    @property
    def alpha_bar(self) -> list[float]:
        return list(accumulate((1.0 - b for b in self.betas), lambda a, b: a * b, initial=1.0))

    def point(self, t: float) -> Point:
        table = _alpha_bar(self.betas)
        i = min(max(int(t), 0), len(table) - 2)
        a_bar = table[i] + (t - i) * (table[i + 1] - table[i])  # linear between the trained levels
        return Point(t, math.sqrt(a_bar), math.sqrt(max(1.0 - a_bar, 0.0)))

    def at_level(self, level: float) -> Point:
        table = _alpha_bar(self.betas)
        a_bar = max(1.0 / (1.0 + level * level), table[-1])
        i = next(k for k in range(len(table) - 1) if table[k + 1] <= a_bar)
        return self.point(i + (table[i] - a_bar) / (table[i] - table[i + 1]))

    def times(self, steps: int) -> list[float]:
        return [float(i) for i in reversed(indices(len(self.betas), steps))]

    def network_time(self, t: float, published: bool = False) -> float:
        """The training index of this level: entry i of the extended table was trained as i − 1."""
        return t if published else max(t - 1.0, 0.0)


@dataclass(frozen=True)
class Cosine:
    """Variance preserving at every level: α = cos(πt/2), σ = sin(πt/2); the uniform grid 1 … 0."""

    def point(self, t: float) -> Point:
        angle = math.pi * t / 2
        return Point(t, math.cos(angle) if t < 1.0 else 0.0, math.sin(angle))

    def at_level(self, level: float) -> Point:
        return self.point(math.atan(level) * 2 / math.pi)

    def times(self, steps: int) -> list[float]:
        return [1.0 - i / (steps - 1) for i in range(steps)]


@dataclass(frozen=True)
class VE:
    """α = 1, σ = t; the EDM grid between `high` and `low` with exponent 7, then 0.

    Pure noise (level ∞) has no place here: `at_level` enters at `ceiling`, where the signal is 1e-4 of the
    noise.
    """

    high: float = 100.0
    low: float = 0.01
    ceiling: float = 1e4

    def point(self, t: float) -> Point:
        return Point(t, 1.0, t)

    def at_level(self, level: float) -> Point:
        return self.point(min(level, self.ceiling))

    def times(self, steps: int) -> list[float]:
        a, b = self.high ** (1 / 7), self.low ** (1 / 7)
        return [(a + (b - a) * i / max(steps - 2, 1)) ** 7 for i in range(steps - 1)] + [0.0]


@dataclass(frozen=True)
class OnLevels:
    """`schedule`, restricted to the levels that another schedule's grid visits (one run, seen in another
    scaling).
    """

    schedule: Schedule
    source: Schedule

    def point(self, t: float) -> Point:
        return self.schedule.point(t)

    def at_level(self, level: float) -> Point:
        return self.schedule.at_level(level)

    def times(self, steps: int) -> list[float]:
        return [self.schedule.at_level(self.source.point(t).level).t for t in self.source.times(steps)]


def grid(schedule: Schedule, steps: int, eta: EtaRule) -> list[Point]:
    """`steps` time points from noise to clean, each with the η of the bridge that arrives there."""
    if steps < 3:
        raise BadInput(
            f"steps={steps} is too few: a run needs at least 3 time points (28 is the paper's number)."
        )
    points = [schedule.point(t) for t in schedule.times(steps)]
    arrivals = with_eta(points, eta)
    for t, s in pairwise(points):
        if not t.level > s.level:
            raise BadInput(
                f"The noise level σ/α goes from {t.level:.4g} (t={t.t:.4g}) to {s.level:.4g} "
                f"(t={s.t:.4g}), but a run must go "
                "from noise to clean. Check the schedule, or take fewer steps."
            )
    return [points[0], *arrivals]


def with_eta(points: Sequence[Point], rule: EtaRule) -> list[Point]:
    """The points after the first, with the η of each arrival."""
    if rule not in get_args(EtaRule):
        raise BadInput(f"eta={rule!r} is not one of {', '.join(get_args(EtaRule))}.")
    arrivals = [replace(s, eta=bridge_eta(t, s, rule)) for t, s in pairwise(points)]
    for s in arrivals:
        if s.eta > s.sigma * (1 + 1e-9):
            raise BadInput(
                f"η={s.eta:.4g} exceeds σ={s.sigma:.4g} at t={s.t:.4g}: the rule {rule!r} does not fit "
                "this schedule; use eta='ddpm'."
            )
    return arrivals


def bridge_eta(t: Point, s: Point, rule: EtaRule) -> float:
    """Std of the bridge from t to the cleaner s: the DDPM posterior's, or a wider rule of the paper."""
    if rule == "square":
        return s.sigma * max(1.0 - s.alpha, 0.0)
    if rule == "sqrt":
        return s.sigma * math.sqrt(max(1.0 - s.alpha, 0.0))
    ratio = s.level / t.level if t.level > 0 else 1.0
    return s.sigma * math.sqrt(max(1.0 - ratio**2, 0.0))


def warped(schedule: Schedule, shift: float | None) -> Schedule:
    """The schedule on the levels of the uniform flow grid warped by τ ↦ kτ/(1+(k−1)τ), k = `shift`; None
    leaves its own grid.
    """
    return schedule if shift is None else OnLevels(schedule, Flow(shift))


def shifted(t: float, k: float) -> float:
    """The SD3 time shift; k > 1 spends more of the grid at high noise."""
    return k * t / (1.0 + (k - 1.0) * t)


def indices(last: int, steps: int) -> list[int]:
    """⌊linspace(0, last, steps)⌋, ascending."""
    if not 2 <= steps <= last + 1:
        raise BadInput(
            f"steps={steps} is outside 2 … {last + 1}, the number of levels this prior was trained on."
        )
    return [i * last // (steps - 1) for i in range(steps)]


def scaled_linear(start: float = 0.00085, end: float = 0.012, count: int = 1000) -> tuple[float, ...]:
    """Stable Diffusion's β: linear in √β."""
    a, b = math.sqrt(start), math.sqrt(end)
    return tuple((a + (b - a) * i / (count - 1)) ** 2 for i in range(count))


_TABLES: dict[tuple[float, ...], list[float]] = {}


def _alpha_bar(betas: tuple[float, ...]) -> list[float]:
    if betas not in _TABLES:
        _TABLES[betas] = VP(betas).alpha_bar
    return _TABLES[betas]
