"""What the paper printed about the full sampler with exact operators, and which of its findings carry over to
a Gaussian prior.

A finding is a statement that is evaluated on measured rows; nothing about the outcome is written down
beforehand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, Protocol

Budget = int | Literal["exact"]
TOLERANCE = 0.03  # "within 3 % of calibrated", give or take one standard error of the measurement
FEW = (1, 2, 3, 5)  # budgets that count as a few iterations
SOLVES: tuple[Budget, ...] = (1, 2, 3, 5, 8, 16, "exact")

PAPER: dict[
    tuple[str, str, Budget], dict[str, float]
] = {  # (operator, anchor, C) → published, truths from the model's prior
    ("mask", "fresh", 1): {"spread": 1.029, "tv": 0.020},
    ("mask", "arc", 1): {"spread": 1.024, "tv": 0.016},
    ("mask", "denoiser", 1): {"spread": 1.023, "tv": 0.015},
    ("blur", "fresh", 1): {"spread": 0.904, "finest": 0.70},
    ("blur", "fresh", 2): {"spread": 0.956, "finest": 0.82},
    ("blur", "fresh", 3): {"spread": 0.973, "finest": 0.86},
    ("blur", "fresh", 5): {"spread": 0.999, "tv": 0.001, "finest": 0.92},
    ("blur", "fresh", 8): {"spread": 1.024, "finest": 1.01},
    ("blur", "fresh", 16): {"spread": 1.052, "finest": 1.35},
    ("blur", "fresh", "exact"): {"spread": 1.010, "tv": 0.007, "finest": 14.54},
    ("blur", "arc", 1): {"spread": 0.984, "finest": 0.88},
    ("blur", "arc", 2): {"spread": 1.010, "finest": 0.95},
    ("blur", "arc", 3): {"spread": 1.030, "finest": 1.01},
    ("blur", "arc", 5): {"spread": 1.063, "tv": 0.061, "finest": 1.19},
    ("blur", "arc", 8): {"spread": 1.090, "finest": 1.61},
    ("blur", "arc", 16): {"spread": 1.110, "finest": 4.81},
    ("blur", "arc", "exact"): {"spread": 1.039, "tv": 0.033, "finest": 18.73},
    ("blur", "denoiser", 5): {"spread": 1.063, "tv": 0.060, "finest": 1.18},
    ("blur", "denoiser", "exact"): {"spread": 1.039, "tv": 0.033, "finest": 18.69},
}


class Measured(Protocol):
    """A row, as far as a finding reads it."""

    @property
    def operator(self) -> str: ...
    @property
    def anchor(self) -> str: ...
    @property
    def budget(self) -> Budget: ...
    @property
    def truth(self) -> str: ...
    def spread(self) -> float: ...
    def spread_error(self) -> float: ...
    def band(self, name: str = ...) -> float: ...


@dataclass(frozen=True)
class Finding:
    """A statement of the paper, its figures there and here, and whether it holds here."""

    statement: str
    paper: str
    here: str
    holds: bool

    def to_json(self) -> dict[str, Any]:
        return {"statement": self.statement, "paper": self.paper, "here": self.here, "holds": self.holds}

    def line(self) -> str:
        return (
            f"[{'yes' if self.holds else ' no'}] {self.statement}\n      paper {self.paper}; here {self.here}"
        )


class View:
    """Rows by (operator, anchor, C), for one kind of truth."""

    def __init__(self, rows: Sequence[Measured], truth: str) -> None:
        self.at = {(row.operator, row.anchor, row.budget): row for row in rows if row.truth == truth}

    def anchors(self) -> list[str]:
        return [a for a in ("fresh", "arc", "denoiser") if ("blur", a, "exact") in self.at]

    def spreads(self, operator: str, budgets: Sequence[Budget]) -> list[float]:
        return [self.at[operator, a, c].spread() for a in self.anchors() for c in budgets]

    def finest(self, budgets: Sequence[Budget]) -> list[float]:
        return [self.at["blur", a, c].band() for a in self.anchors() for c in budgets]

    def off(self, operator: str, anchor: str, budget: Budget) -> float:
        """How far the spread certainly is from 1: the distance less one standard error."""
        row = self.at[operator, anchor, budget]
        error = row.spread_error()
        return abs(row.spread() - 1.0) - (error if error < 1.0 else 0.0)

    def best_budget(self, anchor: str) -> Budget:
        """C with the finest-band energy nearest to the truth's."""
        return min(SOLVES, key=lambda c: abs(self.at["blur", anchor, c].band() - 1.0))


def findings(rows: Sequence[Measured]) -> list[Finding]:
    """All statements, evaluated."""
    view, prior = View(rows, "sampler"), View(rows, "prior")
    return [rule(view) for rule in RULES] + [_discretisation(view, prior)]


def _mask_calibrated(v: View) -> Finding:
    off = [v.off("mask", a, 1) for a in v.anchors()]
    here = f"spread {_range(v.spreads('mask', (1,)))}"
    return Finding(
        "With a mask every anchor is calibrated within 3 %.",
        "spread 1.023 to 1.029",
        here,
        max(off) <= TOLERANCE,
    )


def _mask_one_iteration(v: View) -> Finding:
    gap = max(abs(v.at["mask", a, 1].spread() - v.at["mask", a, "exact"].spread()) for a in v.anchors())
    statement = "With a mask one CG iteration is as good as the exact solve."
    return Finding(
        statement, "identical, on the seen cells alone", f"spreads differ by {gap:.4f}", gap < 0.005
    )


def _anchors_alike(v: View) -> Finding:
    s = v.spreads("mask", (1,))
    return Finding(
        "With a mask the anchors barely differ.",
        "by 0.006 in spread",
        f"by {max(s) - min(s):.3f}",
        max(s) - min(s) < 0.02,
    )


def _few_iterations(v: View) -> Finding:
    best = [min(v.off("blur", a, c) for c in FEW) for a in v.anchors()]
    here = f"spread {_range(v.spreads('blur', FEW))} over all anchors and C up to 5"
    statement = "With a blur, a few CG iterations calibrate every anchor within 3 %."
    return Finding(statement, "0.999 (fresh, C = 5), 1.010 (arc, C = 2)", here, max(best) <= TOLERANCE)


def _insensitive(v: View) -> Finding:
    s = v.spreads("blur", FEW)
    statement = "Calibration depends on the number of those few iterations."
    return Finding(
        statement,
        "spread 0.904 to 0.999 (fresh), 0.984 to 1.063 (arc)",
        f"spread {_range(s)}",
        max(s) - min(s) > TOLERANCE,
    )


def _exact_solve_energy(v: View) -> Finding:
    e, few = v.finest(("exact",)), v.finest(FEW)
    statement = "The exact solve puts too much energy into the finest band, a few iterations do not."
    here = f"{_range(e)}, against {_range(few)}"
    return Finding(
        statement,
        "14.5 to 18.7 times the truth's, against 0.70 to 1.19",
        here,
        min(e) > 1.2 and max(few) < 1.2,
    )


def _order_of_magnitude(v: View) -> Finding:
    e = v.finest(("exact",))
    return Finding("That excess is an order of magnitude.", "14.5 to 18.7", _range(e), min(e) > 10.0)


def _spread_blind(v: View) -> Finding:
    s = v.spreads("blur", ("exact",))
    statement = "The spread ratio does not see it: the exact solve looks calibrated within 4 %."
    return Finding(
        statement, "spread 1.010 to 1.039", f"spread {_range(s)}", max(abs(x - 1.0) for x in s) <= 0.04
    )


def _one_iteration_smooth(v: View) -> Finding:
    s, e = v.spreads("blur", (1,)), v.finest((1,))
    here = f"spread {_range(s)}, finest energy {_range(e)}"
    statement = "One iteration is too few: draws too similar and too smooth."
    return Finding(
        statement, "spread 0.904 to 0.984, finest energy 0.70 to 0.88", here, max(s) < 1.0 and max(e) < 0.95
    )


def _energy_rises(v: View) -> Finding:
    def rises(anchor: str) -> bool:
        e = [v.at["blur", anchor, c].band() for c in SOLVES]
        return all(a <= b + 0.01 for a, b in pairwise(e))

    here = "; ".join(
        f"{a} " + " ".join(f"{v.at['blur', a, c].band():.2f}" for c in SOLVES) for a in v.anchors()
    )
    return Finding(
        "The finest-band energy rises with every further iteration.",
        "0.70 … 14.5 (fresh), 0.88 … 18.7 (arc)",
        here,
        all(map(rises, v.anchors())),
    )


def _fresh_needs_more(v: View) -> Finding:
    fresh, arc = v.best_budget("fresh"), v.best_budget("arc")
    statement = "The fresh anchor needs more iterations than the arc for the right amount of detail."
    return Finding(
        statement, "C = 8 against 3", f"C = {fresh} against {arc}", SOLVES.index(fresh) > SOLVES.index(arc)
    )


def _discretisation(view: View, prior: View) -> Finding:
    """Not a statement of the paper's own, but of its choice to draw truths by the sampler."""
    a, b = (
        view.spreads("blur", FEW) + view.spreads("mask", (1,)),
        prior.spreads("blur", FEW) + prior.spreads("mask", (1,)),
    )
    statement = "Truths have to be the sampler's own draws: against those of the exact prior the same draws look too narrow."
    return Finding(
        statement,
        "not measured",
        f"mean spread {_mean(a):.3f} and {_mean(b):.3f}",
        _mean(b) < _mean(a) - 0.02,
    )


RULES: tuple[Callable[[View], Finding], ...] = (
    _mask_calibrated,
    _mask_one_iteration,
    _anchors_alike,
    _few_iterations,
    _insensitive,
    _exact_solve_energy,
    _order_of_magnitude,
    _spread_blind,
    _one_iteration_smooth,
    _energy_rises,
    _fresh_needs_more,
)


def _range(values: Sequence[float]) -> str:
    return f"{min(values):.3f} to {max(values):.3f}"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
