"""Sensitivity to the solver's settings: one of them changes at a time (the paper's two tables, 100 FFHQ
images each there).

P, C, ρ, r, λ and the fresh perturbations around the settings kept for PASEO, with the arc anchor and the
supplied mask for inpainting. Entries are ΔLPIPS to that reference: negative is better. On SD3.5 the paper
lists twice the effective r of SR×8; the figures stand here beside the effective one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paseo.lab.paper import PRIORS, TASKS, figure, under
from paseo.lab.reproduce.findings import PaperFinding, span
from paseo.lab.reproduce.lineplots import line_figure
from paseo.lab.reproduce.variants import Options, Study, carry_out, complete, mean, tasks_of, variant

__all__ = ["Options", "run"]

LEVELS: dict[str, tuple[object, ...]] = {
    "inner_steps": (1, 2, 3, 5),
    "cg_budget": (1, 2, 4, 8, 16),
    "relaxation": (0.15, 0.3, 0.6, 1.0),
    "operator_noise": (0.005, 0.01, 0.02, 0.05, 0.08),
    "damping": (0.0, 0.005, 0.02, 0.05),
}
LETTERS = {
    "inner_steps": "P",
    "cg_budget": "C",
    "relaxation": "rho",
    "operator_noise": "r",
    "damping": "lambda",
    "perturb": "perturb",
}
PERTURBATIONS = {"y-only": (False, True), "z-only": (True, False), "neither": (False, False)}  # ξ_z, ξ_y


def variants() -> dict[str, dict[str, Any]]:
    """Label → what changes."""
    found = {f"{LETTERS[f]}={level}": {f: level} for f, levels in LEVELS.items() for level in levels}
    return found | {
        f"perturb={n}": {"perturb_prior": z, "perturb_measurement": y} for n, (z, y) in PERTURBATIONS.items()
    }


def run(o: Options) -> Study:
    tasks = tasks_of(o)
    changes = variants()
    methods = [
        variant(o, tasks, "reference"),
        *(variant(o, tasks, label, **change) for label, change in changes.items()),
    ]
    bench, store = carry_out(o, "ofat", methods, tasks, reference="reference", metrics=["lpips"])
    base = {t: mean(bench, t, "reference") for t in tasks}
    lines: list[list[Any]] = [
        ["reference LPIPS", *(v for t in tasks for v in (base[t], *_paper("reference", t)))]
    ]
    for label in changes:
        lines.append(
            [label, *(v for t in tasks for v in (_minus(mean(bench, t, label), base[t]), *_paper(label, t)))]
        )
    header = ("setting", *(f"{t}{suffix}" for t in tasks for suffix in ("", " rv51", " sd35")))
    measured = complete(bench, tasks, ["reference", *changes])
    delta = {t: {label: row[label] - row["reference"] for label in changes} for t, row in measured.items()}
    return Study(
        "ΔLPIPS, one setting at a time",
        o,
        bench,
        store,
        header,
        lines,
        findings(delta),
        charts=lambda out: figures(out, delta),
    )


def _paper(label: str, task: str) -> list[float | None]:
    return [figure("ofat", prior, listed(prior, task, label), column=task) for prior in PRIORS]


def listed(prior: str, task: str, label: str) -> str:
    """The row of the paper with a setting: on SD3.5, SR×8's effective r is half of the one that is listed."""
    if (prior, task) == ("sd35", "sr8") and label.startswith("r="):
        return f"r={2 * float(label.removeprefix('r=')):g}"
    return label


def _minus(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a - b


def group(row: Mapping[str, float], letter: str) -> dict[str, float]:
    """Level → ΔLPIPS of one setting."""
    return {label.split("=")[1]: value for label, value in row.items() if label.startswith(f"{letter}=")}


@dataclass(frozen=True)
class Sensitivity:
    """What a table of ΔLPIPS says, over its tasks."""

    best_budgets: list[int]  # C with the lowest LPIPS, for all tasks but inpainting
    sixteen: list[float]  # how much worse C = 16 is than that
    widest: dict[str, float]  # setting → largest range of ΔLPIPS over its levels
    quiet: float  # the best ΔLPIPS of leaving out fresh noise

    @classmethod
    def of(cls, rows: Mapping[str, Mapping[str, float]]) -> Sensitivity:
        """From task → setting → ΔLPIPS."""
        budgets = [group(row, "C") for task, row in rows.items() if "inpaint" not in task]
        budgets = budgets or [group(row, "C") for row in rows.values()]
        spans = {
            letter: max(
                max(g.values()) - min(g.values()) for g in (group(row, letter) for row in rows.values())
            )
            for letter in ("P", "rho", "r", "lambda")
        }
        return cls(
            [int(min(g, key=lambda c: g[c])) for g in budgets],
            [g["16"] - min(g.values()) for g in budgets],
            spans,
            min(min(group(row, "perturb").values()) for row in rows.values()),
        )

    def against(self) -> str:
        w = self.widest
        return f"{w['rho']:.3f} against {w['r']:.3f} and {w['lambda']:.3f}"


def published() -> dict[str, dict[str, float]]:
    """The paper's two tables as task → setting → ΔLPIPS."""
    return {
        f"{prior} {task}": {
            label: row[task] for label, row in under("ofat", prior).items() if label != "reference"
        }
        for prior in PRIORS
        for task in TASKS
    }


def findings(delta: Mapping[str, Mapping[str, float]]) -> list[PaperFinding]:
    if not delta:
        return []
    here, paper = Sensitivity.of(delta), Sensitivity.of(published())
    r, p = here.widest["r"], here.widest["P"]
    return [
        PaperFinding(
            "Few CG iterations beat many.",
            f"best C from {min(paper.best_budgets)} to {max(paper.best_budgets)}",
            f"best C: {', '.join(map(str, here.best_budgets))}",
            max(here.best_budgets) <= 4,
        ),
        PaperFinding(
            "Sixteen CG iterations are worse than the best budget.",
            f"by {span(paper.sixteen, 2)}",
            f"by {span(here.sixteen)}",
            min(here.sixteen) > 0,
        ),
        PaperFinding(
            "The assumed operator noise r hardly matters.",
            f"range up to {paper.widest['r']:.3f}",
            f"range up to {r:.3f}",
            r < 0.02,
        ),
        PaperFinding(
            "The correction fraction ρ matters more than r and λ.",
            paper.against(),
            here.against(),
            here.widest["rho"] > max(r, here.widest["lambda"]),
        ),
        PaperFinding(
            "The number of corrections P matters.",
            f"range up to {paper.widest['P']:.3f}",
            f"range up to {p:.3f}",
            p > 0.02,
        ),
        PaperFinding(
            "Leaving out fresh noise helps on some task.",
            f"by up to {-paper.quiet:.3f}",
            f"best {here.quiet:+.3f}",
            here.quiet < -0.002,
        ),
    ]


def figures(out: Path, delta: Mapping[str, Mapping[str, float]]) -> list[Path]:
    panels = {letter: {t: group(row, letter) for t, row in delta.items()} for letter in LETTERS.values()}
    return [line_figure(out / "ofat.png", panels, "ΔLPIPS")]
