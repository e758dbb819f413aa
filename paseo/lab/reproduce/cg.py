"""How accurately the truncated CG solves satisfy their equations, over the steps of a run, and what one
iteration gives up.

    residual = ‖S v − b‖ / ‖b‖ when CG stops; 1 is the start, above 1 is possible

The paper pooled tasks and settings by budget; here each task has its own row at the settings kept for PASEO,
with C changed. The supplied mask for inpainting, the arc anchor. Below: LPIPS and time at C = 1 against the
kept C, paired over images.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paseo.base import Step
from paseo.lab.bench.plan import pictures_of, setup_of
from paseo.lab.paper import PRIORS, figure, under
from paseo.lab.reproduce.findings import PaperFinding, count
from paseo.lab.reproduce.lineplots import line_figure
from paseo.lab.reproduce.variants import Options, Study, carry_out, reference, tasks_of, variant
from paseo.samplers.paseo import PASEO

__all__ = ["Options", "run"]

BUDGETS = (1, 2, 3, 4, 5, 8, 12, 16)  # 5 and 12 are the paper's for inpainting
TRACED = 8  # images whose solves are looked at


@dataclass
class Residuals:
    """A watch hook that keeps every residual, by step."""

    wants_trace: bool = True
    steps: list[list[float]] = field(default_factory=list)

    def __call__(self, step: Step) -> None:
        while len(self.steps) <= step.index:
            self.steps.append([])
        self.steps[step.index] += [
            value for correction in step.trace.get("residual", []) for value in correction
        ]

    @property
    def all(self) -> list[float]:
        return [value for step in self.steps for value in step]


def run(o: Options) -> Study:
    tasks = tasks_of(o)
    methods = [variant(o, tasks, "reference"), variant(o, tasks, "C=1", cg_budget=1)]
    bench, store = carry_out(o, "cg", methods, tasks, reference="reference", metrics=["lpips"])
    pictures = pictures_of(bench.config)[:TRACED]
    found: dict[str, dict[int, Residuals]] = {}
    for task in tasks:
        setup = setup_of(bench.config, task)
        for budget in BUDGETS:
            watch = found.setdefault(task, {}).setdefault(budget, Residuals())
            for i in range(0, len(pictures), o.batch):
                setup.draw(
                    PASEO(**reference(o, task, cg_budget=budget)), pictures[i : i + o.batch], watch=watch
                )
    lines: list[list[Any]] = [[task, c, *summary(r)] for task, row in found.items() for c, r in row.items()]
    for prior in PRIORS:
        for c, row in under("cg", prior).items():
            lines.append([f"paper {prior}", int(c), row["mean"], row["median"], row["above"]])
    single = {
        t: s.against["lpips"]
        for t in tasks
        if (s := bench.summaries.get((t, "C=1"))) is not None and "lpips" in s.against
    }
    more = {
        "one_iteration": {
            t: {**i.to_json(), "paper_sd35": figure("one-iteration", t, column="delta")}
            for t, i in single.items()
        },
        "residual_by_step": {
            t: {c: [statistics.fmean(s) for s in r.steps if s] for c, r in row.items()}
            for t, row in found.items()
        },
    }
    header = ("task", "C", "mean", "median", "above 0.5")
    statements = findings(found, {t: i.mean for t, i in single.items()})
    return Study(
        "Relative residual when CG stops",
        o,
        bench,
        store,
        header,
        lines,
        statements,
        more,
        lambda out: charts(out, found),
    )


def summary(r: Residuals) -> tuple[float, float, float]:
    values = r.all
    return statistics.fmean(values), statistics.median(values), sum(v > 0.5 for v in values) / len(values)


def findings(found: dict[str, dict[int, Residuals]], single: dict[str, float]) -> list[PaperFinding]:
    dense = {t: row for t, row in found.items() if t != "inpaint"}
    means = {t: {c: summary(r)[0] for c, r in row.items()} for t, row in found.items()}
    unsolved = [means[t][c] > 0.5 for t in dense for c in (1, 2, 3)]
    falls = [row[16] < row[1] for row in means.values()]
    result = [
        PaperFinding(
            "Few iterations leave the equations far from solved.",
            "mean residual above 1",
            f"above 0.5 in {sum(unsolved)} of {len(unsolved)}",
            sum(unsolved) > len(unsolved) / 2,
        ),
        PaperFinding(
            "Sixteen iterations leave a smaller residual than one.",
            "RV yes, SD3.5 mean yes",
            count(falls),
            all(falls),
        ),
    ]
    if "inpaint" in means and dense:
        others = statistics.fmean(means[t][4] for t in dense)
        shown = f"{means['inpaint'][4]:.2f} against {others:.2f} at C = 4"
        result.append(
            PaperFinding(
                "Inpainting is solved far more accurately than the rest.",
                "0.03 to 0.07",
                shown,
                means["inpaint"][4] < 0.5 * others,
            )
        )
    if single:
        shown = ", ".join(f"{t} {v:+.4f}" for t, v in single.items())
        result.append(
            PaperFinding(
                "One iteration costs quality on some task.",
                "blur, inpainting, JPEG",
                shown,
                max(single.values()) > 0.002,
            )
        )
    return result


def charts(out: Path, found: dict[str, dict[int, Residuals]]) -> list[Path]:
    panels = {
        task: {
            f"C={c}": {str(k + 1): statistics.fmean(s) for k, s in enumerate(r.steps) if s}
            for c, r in row.items()
        }
        for task, row in found.items()
    }
    return [line_figure(out / "cg.png", panels, "relative residual", log=True)]
