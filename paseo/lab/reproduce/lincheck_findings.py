"""What the paper printed about the full sampler with exact operators, and which of its findings carry over to
a Gaussian prior.

A finding is a statement that is evaluated on measured rows; nothing about the outcome is written down
beforehand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal, Protocol

from paseo.lab.paper import Figures, published
from paseo.lab.reproduce.findings import PaperFinding

Budget = int | Literal["exact"]
TOLERANCE = 0.03  # "within 3 % of calibrated", give or take one standard error of the measurement
EXACT: tuple[Budget, ...] = ("exact",)
FEW: tuple[Budget, ...] = (1, 2, 3, 5)  # budgets that count as a few iterations
SOLVES: tuple[Budget, ...] = (1, 2, 3, 5, 8, 16, "exact")


def printed(operator: str, anchor: str, budget: Budget, block: str = "sweep") -> Figures:
    """The paper's row for truths of the model's prior; a mask has one block.

    A blur has two: the sweep over C with 64 images, and the comparison of C = 5 with the exact solve on
    100. They are never mixed in one row.
    """
    if operator == "mask":
        return published("lincheck").get(("mask", "mask", anchor, str(budget)), {})
    return published("lincheck").get((block, "blur", anchor, str(budget)), {})


def quoted(
    block: str, column: str, budgets: Sequence[Budget], anchors: Sequence[str] = (), digits: int = 3
) -> str:
    """The range of a column over some rows of the paper."""
    wanted = {str(c) for c in budgets}
    rows = [(key, row) for key, row in published("lincheck").items() if key[0] == block and key[3] in wanted]
    return _range([row[column] for key, row in rows if not anchors or key[2] in anchors], digits)


class MeasuredRow(Protocol):
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


class RowsByKind:
    """Rows by (operator, anchor, C), for one kind of truth."""

    def __init__(self, rows: Sequence[MeasuredRow], truth: str) -> None:
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


def findings(rows: Sequence[MeasuredRow]) -> list[PaperFinding]:
    """All statements, evaluated."""
    view, prior = RowsByKind(rows, "sampler"), RowsByKind(rows, "prior")
    return [rule(view) for rule in RULES] + [_discretisation(view, prior)]


def _mask_calibrated(v: RowsByKind) -> PaperFinding:
    off = [v.off("mask", a, 1) for a in v.anchors()]
    here = f"spread {_range(v.spreads('mask', (1,)))}"
    return PaperFinding(
        "With a mask every anchor is calibrated within 3 %.",
        f"spread {quoted('mask', 'spread', (1,))}",
        here,
        max(off) <= TOLERANCE,
    )


def _mask_one_iteration(v: RowsByKind) -> PaperFinding:
    gap = max(abs(v.at["mask", a, 1].spread() - v.at["mask", a, "exact"].spread()) for a in v.anchors())
    statement = "With a mask one CG iteration is as good as the exact solve."
    return PaperFinding(
        statement, "identical, on the seen cells alone", f"spreads differ by {gap:.4f}", gap < 0.005
    )


def _anchors_alike(v: RowsByKind) -> PaperFinding:
    s = v.spreads("mask", (1,))
    return PaperFinding(
        "With a mask the anchors barely differ.",
        "by 0.006 in spread",
        f"by {max(s) - min(s):.3f}",
        max(s) - min(s) < 0.02,
    )


def _few_iterations(v: RowsByKind) -> PaperFinding:
    best = [min(v.off("blur", a, c) for c in FEW) for a in v.anchors()]
    here = f"spread {_range(v.spreads('blur', FEW))} over all anchors and C up to 5"
    statement = "With a blur, a few CG iterations calibrate every anchor within 3 %."
    fresh, arc = printed("blur", "fresh", 5)["spread"], printed("blur", "arc", 2)["spread"]
    paper = f"{fresh:.3f} (fresh, C = 5), {arc:.3f} (arc, C = 2)"
    return PaperFinding(statement, paper, here, max(best) <= TOLERANCE)


def _insensitive(v: RowsByKind) -> PaperFinding:
    s = v.spreads("blur", FEW)
    statement = "Calibration depends on the number of those few iterations."
    return PaperFinding(
        statement,
        "spread " + ", ".join(f"{quoted('sweep', 'spread', FEW, [a])} ({a})" for a in ("fresh", "arc")),
        f"spread {_range(s)}",
        max(s) - min(s) > TOLERANCE,
    )


def _exact_solve_energy(v: RowsByKind) -> PaperFinding:
    e, few = v.finest(("exact",)), v.finest(FEW)
    statement = "The exact solve puts too much energy into the finest band, a few iterations do not."
    here = f"{_range(e)}, against {_range(few)}"
    return PaperFinding(
        statement,
        f"{quoted('compare', 'finest', EXACT, digits=1)} times the truth's, against "
        f"{quoted('sweep', 'finest', FEW, digits=2)}",
        here,
        min(e) > 1.2 and max(few) < 1.2,
    )


def _order_of_magnitude(v: RowsByKind) -> PaperFinding:
    e = v.finest(("exact",))
    return PaperFinding(
        "That excess is an order of magnitude.",
        quoted("compare", "finest", EXACT, digits=1),
        _range(e),
        min(e) > 10,
    )


def _spread_blind(v: RowsByKind) -> PaperFinding:
    s = v.spreads("blur", ("exact",))
    statement = "The spread ratio does not see it: the exact solve looks calibrated within 4 %."
    return PaperFinding(
        statement,
        f"spread {quoted('compare', 'spread', EXACT)}",
        f"spread {_range(s)}",
        max(abs(x - 1.0) for x in s) <= 0.04,
    )


def _one_iteration_smooth(v: RowsByKind) -> PaperFinding:
    s, e = v.spreads("blur", (1,)), v.finest((1,))
    here = f"spread {_range(s)}, finest energy {_range(e)}"
    statement = "One iteration is too few: draws too similar and too smooth."
    return PaperFinding(
        statement,
        f"spread {quoted('sweep', 'spread', (1,))}, "
        f"finest energy {quoted('sweep', 'finest', (1,), digits=2)}",
        here,
        max(s) < 1.0 and max(e) < 0.95,
    )


def _energy_rises(v: RowsByKind) -> PaperFinding:
    def rises(anchor: str) -> bool:
        e = [v.at["blur", anchor, c].band() for c in SOLVES]
        return all(a <= b + 0.01 for a, b in pairwise(e))

    here = "; ".join(
        f"{a} " + " ".join(f"{v.at['blur', a, c].band():.2f}" for c in SOLVES) for a in v.anchors()
    )
    return PaperFinding(
        "The finest-band energy rises with every further iteration.",
        ", ".join(
            f"{printed('blur', a, 1)['finest']:.2f} … {printed('blur', a, 'exact')['finest']:.1f} ({a})"
            for a in ("fresh", "arc")
        ),
        here,
        all(map(rises, v.anchors())),
    )


def _fresh_needs_more(v: RowsByKind) -> PaperFinding:
    fresh, arc = v.best_budget("fresh"), v.best_budget("arc")
    statement = "The fresh anchor needs more iterations than the arc for the right amount of detail."
    return PaperFinding(
        statement, "C = 8 against 3", f"C = {fresh} against {arc}", SOLVES.index(fresh) > SOLVES.index(arc)
    )


def _discretisation(view: RowsByKind, prior: RowsByKind) -> PaperFinding:
    """Not a statement of the paper's own, but of its choice to draw truths by the sampler."""
    a, b = (
        view.spreads("blur", FEW) + view.spreads("mask", (1,)),
        prior.spreads("blur", FEW) + prior.spreads("mask", (1,)),
    )
    statement = (
        "Truths have to be the sampler's own draws: "
        "against those of the exact prior the same draws look too narrow."
    )
    return PaperFinding(
        statement,
        "not measured",
        f"mean spread {_mean(a):.3f} and {_mean(b):.3f}",
        _mean(b) < _mean(a) - 0.02,
    )


RULES: tuple[Callable[[RowsByKind], PaperFinding], ...] = (
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


def _range(values: Sequence[float], digits: int = 3) -> str:
    return f"{min(values):.{digits}f} to {max(values):.{digits}f}"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
