"""The two figures of the check with exact operators: energy and spread against C, and rank histograms."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paseo.files import atomic
from paseo.lab.reproduce.lincheck_findings import SOLVES, Budget, printed

if TYPE_CHECKING:
    from paseo.lab.reproduce.lincheck import LincheckRow

COLOURS = {"fresh": "tab:orange", "arc": "tab:blue", "denoiser": "tab:green", "posterior": "0.4"}
STYLES = {
    "fresh": ("o", "-", 4),
    "arc": ("o", "-", 6),
    "denoiser": ("s", ":", 3),
}  # arc and denoiser nearly coincide
LABELS = {
    "fresh": "fresh (β = 1)",
    "arc": "arc",
    "denoiser": "denoiser (β = 0)",
    "posterior": "exact posterior",
}


def sweep_figure(rows: Sequence[LincheckRow], path: Path) -> Path:
    """Finest-band energy and spread of the blur against the CG budget; dashed is the paper on SD3.5."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    energy, spread = figure.subplots(1, 2)
    for row in (r for r in rows if (r.operator, r.truth, r.anchor) == ("blur", "sampler", "posterior")):
        energy.axhline(row.band(), color=COLOURS["posterior"], linewidth=1, label=LABELS["posterior"])
        spread.axhline(row.spread(), color=COLOURS["posterior"], linewidth=1, label=LABELS["posterior"])
    for anchor in ("fresh", "arc", "denoiser"):
        mine = {r.budget: r for r in rows if (r.operator, r.truth, r.anchor) == ("blur", "sampler", anchor)}
        _curve(energy, [mine[c].evidence.band("finest") for c in SOLVES], anchor)
        _curve(spread, [mine[c].evidence.spread() for c in SOLVES], anchor)
        _published(energy, "finest", anchor)
        _published(spread, "spread", anchor)
    energy.set_yscale("log")
    energy.set_ylabel("finest-band energy ÷ truth")
    spread.set_ylabel("spread ratio")
    for axis in (energy, spread):
        axis.set_xticks(range(len(SOLVES)), [str(c) for c in SOLVES])
        axis.set_xlabel("CG iterations C")
        axis.grid(alpha=0.3)
    energy.legend(title="dashed: the paper, SD3.5")
    return _save(figure, path)


def rank_figure(rows: Sequence[LincheckRow], path: Path) -> Path:
    """Rank of the truth among the draws; flat at the dotted line is calibrated."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    chosen: dict[str, list[tuple[str, Budget]]] = {
        "mask": [("fresh", 1), ("arc", 1), ("denoiser", 1), ("posterior", "exact")],
        "blur": [("fresh", 5), ("arc", 5), ("fresh", "exact"), ("arc", "exact"), ("posterior", "exact")],
    }
    for axis, (operator, wanted) in zip(figure.subplots(1, 2), chosen.items(), strict=True):
        for row in (
            r
            for r in rows
            if r.operator == operator and r.truth == "sampler" and (r.anchor, r.budget) in wanted
        ):
            solve = "exact solve" if row.budget == "exact" else f"C = {row.budget}"
            label = LABELS[row.anchor] if row.anchor == "posterior" else f"{LABELS[row.anchor]}, {solve}"
            style = "--" if row.budget == "exact" and row.anchor != "posterior" else "-"
            axis.step(
                range(len(row.evidence.histogram())),
                row.evidence.histogram(),
                where="mid",
                color=COLOURS[row.anchor],
                linestyle=style,
                label=label,
            )
        axis.axhline(1.0 / len(row.evidence.histogram()), color="k", linestyle=":", linewidth=1)
        axis.set_ylim(bottom=0.0)
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.set_title(operator)
        axis.set_xlabel("rank of the truth")
        axis.legend(fontsize="small")
    return _save(figure, path)


def _curve(axis: Any, points: list[tuple[float, float]], anchor: str) -> None:
    values, errors = [p[0] for p in points], [p[1] if p[1] < float("inf") else 0.0 for p in points]
    style = dict(zip(("marker", "linestyle", "markersize"), STYLES[anchor], strict=True))
    axis.errorbar(
        range(len(points)), values, yerr=errors, color=COLOURS[anchor], label=LABELS[anchor], **style
    )


def _published(axis: Any, name: str, anchor: str) -> None:
    rows = [(i, printed("blur", anchor, c)) for i, c in enumerate(SOLVES)]
    known = [(i, row[name]) for i, row in rows if name in row]
    style = "--" if len(known) == len(SOLVES) else ""  # points alone where the paper has no sweep
    axis.plot(
        [i for i, _ in known],
        [v for _, v in known],
        linestyle=style,
        color=COLOURS[anchor],
        alpha=0.5,
        marker="x",
        markersize=5,
    )


def _save(figure: Any, path: Path) -> Path:
    with atomic(path) as file:
        figure.savefig(file, format="png", dpi=150)
    return path
