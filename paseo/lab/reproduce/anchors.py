"""How does the anchor affect reconstruction? (the paper's "Anchors at the same solver budget", 200 FFHQ
images there)

Five anchors at the same settings, those kept for PASEO; inpainting with the supplied mask. LPIPS, lower is
better.
"""

from __future__ import annotations

from typing import Any

from paseo.lab.reproduce.findings import Finding, count
from paseo.lab.reproduce.variants import Options, Study, carry_out, complete, mean, tasks_of, variant

__all__ = ["Options", "run"]

ANCHORS = ("arc", "denoiser", "linear", "noisy", "fresh")
PAPER: dict[str, dict[str, tuple[float, ...]]] = {  # in the order of ANCHORS
    "rv51": {
        "sr4": (0.135, 0.134, 0.145, 0.161, 0.214),
        "sr8": (0.205, 0.198, 0.281, 0.667, 0.374),
        "blur": (0.157, 0.151, 0.214, 0.534, 0.292),
        "inpaint": (0.140, 0.132, 0.147, 0.430, 0.139),
        "jpeg": (0.255, 0.223, 0.362, 0.689, 0.679),
    },
    "sd35": {
        "sr4": (0.180, 0.178, 0.178, 0.534, 0.659),
        "sr8": (0.328, 0.328, 0.330, 0.628, 0.843),
        "blur": (0.197, 0.198, 0.199, 0.383, 0.233),
        "inpaint": (0.117, 0.117, 0.118, 0.322, 0.141),
        "jpeg": (0.347, 0.340, 0.347, 0.596, 0.685),
    },
}
CLOSE = 0.01  # LPIPS, "close" in the paper's words


def run(o: Options) -> Study:
    tasks = tasks_of(o)
    methods = [variant(o, tasks, anchor, anchor=anchor) for anchor in ANCHORS]
    bench, store = carry_out(o, "anchors", methods, tasks, reference="arc", metrics=["lpips", "psnr"])
    lines: list[list[Any]] = []
    for task in tasks:
        lines.append([task, "here", *(mean(bench, task, a) for a in ANCHORS)])
        lines += [[task, f"paper {model}", *rows[task]] for model, rows in PAPER.items() if task in rows]
    header = ("task", "where", *ANCHORS)
    return Study("LPIPS by anchor", o, bench, store, header, lines, findings(complete(bench, tasks, ANCHORS)))


def findings(here: dict[str, dict[str, float]]) -> list[Finding]:
    if not here:
        return []
    rows = list(here.values())
    worse = [row["fresh"] > row["arc"] for row in rows]
    near = [row["denoiser"] < row["arc"] + CLOSE for row in rows]
    noisy = [row["noisy"] > row["arc"] for row in rows]
    linear = [abs(row["linear"] - row["arc"]) < CLOSE for row in rows]
    best = [min(row, key=lambda a: row[a]) for row in rows]
    return [
        Finding(
            "At the same budget the arc beats the fresh anchor.",
            "9 of 10 rows",
            count(worse),
            sum(worse) > len(worse) / 2,
        ),
        Finding(
            "The denoiser anchor is close to the arc or better.", "10 of 10 rows", count(near), all(near)
        ),
        Finding(
            "Adding full noise to the denoiser's estimate is worse than the arc.",
            "10 of 10 rows",
            count(noisy),
            all(noisy),
        ),
        Finding(
            "Linear interpolation is as good as the arc on a flow prior.",
            "5 of 5 tasks (SD3.5)",
            count(linear),
            all(linear),
        ),
        Finding(
            "The arc is not the best anchor everywhere.",
            "best in 3 of 10 rows",
            f"best: {', '.join(best)}",
            any(b != "arc" for b in best),
        ),
    ]
