"""How does the anchor affect reconstruction? (the paper's "Anchors at the same solver budget", 200 FFHQ
images there)

Five anchors at the same settings, those kept for PASEO; inpainting with the supplied mask. LPIPS, lower is
better.
"""

from __future__ import annotations

from typing import Any

from paseo.lab.paper import PRIORS, under
from paseo.lab.reproduce.findings import PaperFinding, count
from paseo.lab.reproduce.variants import Options, Study, carry_out, complete, mean, tasks_of, variant

__all__ = ["Options", "run"]

ANCHORS = ("arc", "denoiser", "linear", "noisy", "fresh")
CLOSE = 0.01  # LPIPS, "close" in the paper's words


def run(o: Options) -> Study:
    tasks = tasks_of(o)
    methods = [variant(o, tasks, anchor, anchor=anchor) for anchor in ANCHORS]
    bench, store = carry_out(o, "anchors", methods, tasks, reference="arc", metrics=["lpips", "psnr"])
    lines: list[list[Any]] = []
    for task in tasks:
        lines.append([task, "here", *(mean(bench, task, a) for a in ANCHORS)])
        for prior in PRIORS:
            printed = under("anchors", prior).get(task, {})
            lines.append([task, f"paper {prior}", *(printed.get(a) for a in ANCHORS)])
    header = ("task", "where", *ANCHORS)
    return Study("LPIPS by anchor", o, bench, store, header, lines, findings(complete(bench, tasks, ANCHORS)))


def findings(here: dict[str, dict[str, float]]) -> list[PaperFinding]:
    if not here:
        return []
    rows = list(here.values())
    worse = [row["fresh"] > row["arc"] for row in rows]
    near = [row["denoiser"] < row["arc"] + CLOSE for row in rows]
    noisy = [row["noisy"] > row["arc"] for row in rows]
    linear = [abs(row["linear"] - row["arc"]) < CLOSE for row in rows]
    best = [min(row, key=lambda a: row[a]) for row in rows]
    return [
        PaperFinding(
            "At the same budget the arc beats the fresh anchor.",
            "9 of 10 rows",
            count(worse),
            sum(worse) > len(worse) / 2,
        ),
        PaperFinding(
            "The denoiser anchor is close to the arc or better.", "10 of 10 rows", count(near), all(near)
        ),
        PaperFinding(
            "Adding full noise to the denoiser's estimate is worse than the arc.",
            "10 of 10 rows",
            count(noisy),
            all(noisy),
        ),
        PaperFinding(
            "Linear interpolation is as good as the arc on a flow prior.",
            "5 of 5 tasks (SD3.5)",
            count(linear),
            all(linear),
        ),
        PaperFinding(
            "The arc is not the best anchor everywhere.",
            "best in 3 of 10 rows",
            f"best: {', '.join(best)}",
            any(b != "arc" for b in best),
        ),
    ]
