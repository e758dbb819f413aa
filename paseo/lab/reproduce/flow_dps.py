"""FlowDPS and PASEO at exactly 27 denoiser calls each (the paper's comparison on 200 COCO images).

PASEO has 15 points, FlowDPS 28. FlowDPS runs its published step size, not a tuned one, as in the paper.
"""

from __future__ import annotations

from typing import Any

from paseo.lab.bench.aggregate import Bench
from paseo.lab.paper import published
from paseo.lab.reproduce.findings import PaperFinding, count
from paseo.lab.reproduce.variants import Options, Study, carry_out, mean, tasks_of
from paseo.lab.text import Value

__all__ = ["Options", "run"]

CALLS, POINTS, FLOW_POINTS = 27, 15, 28
AUTHORS_STEP = 15.0  # κ that the authors publish for 28 steps
HEADER = ("task", "method", "where", "NFE", "PSNR", "LPIPS", "s", "wins")


def run(o: Options) -> Study:
    tasks = [t for t in tasks_of(o) if t != "jpeg"]
    steps = (o.steps, 2 * o.steps - 2) if o.steps else (POINTS, FLOW_POINTS)
    methods: list[dict[str, Any]] = [
        {"name": "paseo", "settings": {"steps": steps[0]}},
        {"name": "flow-dps", "settings": {"steps": steps[1], "step_size": AUTHORS_STEP}},
    ]
    bench, store = carry_out(o, "flow-dps", methods, tasks, metrics=["lpips", "psnr"])
    lines: list[list[Value]] = []
    for task in tasks:
        for method in ("paseo", "flow-dps"):
            s = bench.summaries.get((task, method))
            if s is not None and s.done:
                won = wins(bench, task)[0] if method == "paseo" else None
                score = [mean(bench, task, method, "psnr"), mean(bench, task, method)]
                lines.append([task, method, "here", s.nfe, *score, s.seconds("cpu"), won])
            row = published("flow-dps").get((task, method))
            if row is not None:
                score = [row[c] for c in ("psnr", "lpips", "seconds")]
                lines.append([task, method, "paper coco", CALLS, *score, row.get("wins")])
    found = {task: wins(bench, task) for task in tasks}
    return Study("FlowDPS at PASEO's calls", o, bench, store, HEADER, lines, findings(found))


def wins(bench: Bench, task: str) -> tuple[int, int]:
    """On how many images PASEO has the lower LPIPS, of how many."""
    ours, theirs = (bench.summaries.get((task, m)) for m in ("paseo", "flow-dps"))
    if ours is None or theirs is None or not (ours.done and theirs.done):
        return 0, 0
    a, b = ours.values["lpips"], theirs.values["lpips"]
    common = a.keys() & b.keys()
    return sum(a[i] < b[i] for i in common), len(common)


def findings(found: dict[str, tuple[int, int]]) -> list[PaperFinding]:
    most = [won > images / 2 for won, images in found.values() if images]
    if not most:
        return []
    shown = ", ".join(f"{t} {won} of {images}" for t, (won, images) in found.items())
    paper = "168 to 200 of 200 images"
    return [PaperFinding("PASEO is better on most images.", paper, f"{count(most)}: {shown}", all(most))]
