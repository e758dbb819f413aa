"""One CG iteration against the task's own budget: quality, time and memory (the paper's "full derivative").

With a start at zero the only iterate of C = 1 goes along JᵀWb, the whole derivative of the measurement,
scaled by CG's line search. LPIPS is paired over images with a bootstrap interval; the arc anchor, the
supplied mask for inpainting.
"""

from __future__ import annotations

from paseo.lab.bench.aggregate import Bench, Summary
from paseo.lab.paper import under
from paseo.lab.reproduce.findings import PaperFinding, count
from paseo.lab.reproduce.variants import Options, Study, carry_out, reference, tasks_of, variant
from paseo.lab.text import Value

__all__ = ["Options", "run"]

COLUMNS = (
    "rho",
    "c",
    "lpips",
    "lpips_one",
    "delta",
    "low",
    "high",
    "seconds",
    "seconds_one",
    "speedup",
    "gib",
)
HEADER = (
    "task",
    "where",
    "ρ",
    "C",
    "LPIPS",
    "LPIPS C=1",
    "Δ",
    "from",
    "to",
    "s",
    "s C=1",
    "speed-up",
    "GiB",
    "GiB C=1",
)


def run(o: Options) -> Study:
    tasks = tasks_of(o)
    methods = [variant(o, tasks, "reference"), variant(o, tasks, "C=1", cg_budget=1)]
    bench, store = carry_out(o, "one-iteration", methods, tasks, reference="reference", metrics=["lpips"])
    here = {task: found for task in tasks if (found := figures(o, bench, task)) is not None}
    lines: list[list[Value]] = []
    for task in tasks:
        if task in here:
            lines.append([task, "here", *(here[task].get(c) for c in (*COLUMNS, "gib_one"))])
        if (row := under("one-iteration").get(task)) is not None:
            lines.append([task, "paper sd35", *(row[c] for c in (*COLUMNS, "gib_one"))])
    title = "One CG iteration against the kept budget"
    return Study(title, o, bench, store, HEADER, lines, findings(here))


def figures(o: Options, bench: Bench, task: str) -> dict[str, float] | None:
    """What was measured, by the published columns; None where a part is missing."""
    kept, one = (bench.summaries.get((task, label)) for label in ("reference", "C=1"))
    if kept is None or one is None or "lpips" not in one.against:
        return None
    settings, change = reference(o, task), one.against["lpips"]
    seconds, seconds_one = (_cost(s, "cpu_seconds") for s in (kept, one))
    return {
        "rho": settings["relaxation"],
        "c": settings["cg_budget"],
        "lpips": kept.metrics["lpips"].mean,
        "lpips_one": one.metrics["lpips"].mean,
        "delta": change.mean,
        "low": change.low,
        "high": change.high,
        "seconds": seconds,
        "seconds_one": seconds_one,
        "speedup": seconds / seconds_one,
        "gib": _cost(kept, "extra_bytes") / 2**30,
        "gib_one": _cost(one, "extra_bytes") / 2**30,
    }


def _cost(s: Summary, name: str) -> float:
    return s.cost.get(name, float("nan"))


def findings(here: dict[str, dict[str, float]]) -> list[PaperFinding]:
    if not here:
        return []
    worse = [t for t, row in here.items() if row["low"] > 0]
    better = [t for t, row in here.items() if row["high"] < 0]
    faster = [row["speedup"] > 1 for row in here.values()]
    same = [row["gib_one"] < 1.1 * row["gib"] for row in here.values()]
    shown = f"worse: {', '.join(worse) or 'none'}; better: {', '.join(better) or 'none'}"
    return [
        PaperFinding(
            "One iteration is worse on some task.", "blur, inpainting, JPEG; SR×8 better", shown, bool(worse)
        ),
        PaperFinding("One iteration is faster.", "1.03 to 1.34 times", count(faster), all(faster)),
        PaperFinding("It needs the same memory.", "to three digits", count(same), all(same)),
    ]
