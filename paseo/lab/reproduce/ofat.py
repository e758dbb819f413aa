"""Sensitivity to the solver's settings: one of them changes at a time (the paper's two tables, 100 FFHQ
images each there).

P, C, ρ, r, λ and the fresh perturbations around the settings kept for PASEO, with the arc anchor and the
supplied mask for inpainting. Entries are ΔLPIPS to that reference: negative is better.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paseo.lab.reproduce.findings import Finding, span
from paseo.lab.reproduce.lineplots import line_figure
from paseo.lab.reproduce.ofat_paper import PAPER
from paseo.lab.reproduce.variants import Options, Study, carry_out, complete, mean, tasks_of, variant

__all__ = ["Options", "run"]

LEVELS: dict[str, tuple[Any, ...]] = {
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
    return [PAPER[model].get(label, {}).get(task) for model in ("rv51", "sd35")]


def _minus(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a - b


def group(row: Mapping[str, float], letter: str) -> dict[str, float]:
    """Level → ΔLPIPS of one setting."""
    return {label.split("=")[1]: value for label, value in row.items() if label.startswith(f"{letter}=")}


def findings(delta: Mapping[str, Mapping[str, float]]) -> list[Finding]:
    if not delta:
        return []

    def widest(letter: str) -> float:
        return max(max(g.values()) - min(g.values()) for g in (group(row, letter) for row in delta.values()))

    dense = [group(row, "C") for task, row in delta.items() if task != "inpaint"] or [
        group(row, "C") for row in delta.values()
    ]
    few = [min(g, key=lambda c: g[c]) for g in dense]
    many = [g["16"] - min(g.values()) for g in dense]
    quiet = [min(group(row, "perturb").values()) for row in delta.values()]
    rho, r, damping, p = (widest(letter) for letter in ("rho", "r", "lambda", "P"))
    against = f"{rho:.3f} against {r:.3f} and {damping:.3f}"
    return [
        Finding(
            "Few CG iterations beat many.",
            "best C from 1 to 4",
            f"best C: {', '.join(few)}",
            all(int(c) <= 4 for c in few),
        ),
        Finding(
            "Sixteen CG iterations are worse than the best budget.",
            "by 0.07 to 0.42",
            f"by {span(many)}",
            min(many) > 0,
        ),
        Finding(
            "The assumed operator noise r hardly matters.",
            "range up to 0.017",
            f"range up to {r:.3f}",
            r < 0.02,
        ),
        Finding(
            "The correction fraction ρ matters more than r and λ.",
            "0.448 against 0.017 and 0.056",
            against,
            rho > max(r, damping),
        ),
        Finding(
            "The number of corrections P matters.", "range up to 0.244", f"range up to {p:.3f}", p > 0.02
        ),
        Finding(
            "Leaving out fresh noise helps on some task.",
            "by up to 0.027",
            f"best {min(quiet):+.3f}",
            min(quiet) < -0.002,
        ),
    ]


def figures(out: Path, delta: Mapping[str, Mapping[str, float]]) -> list[Path]:
    panels = {letter: {t: group(row, letter) for t, row in delta.items()} for letter in LETTERS.values()}
    return [line_figure(out / "ofat.png", panels, "ΔLPIPS")]
