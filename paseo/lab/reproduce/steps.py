"""Reverse steps against quality and time: 14, 28, 56 and 112 points, all else as kept for PASEO (200 FFHQ
images in the paper).

K points cost 2K − 3 denoiser calls. The arc anchor; the supplied mask for inpainting.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from paseo.lab.bench.aggregate import Bench
from paseo.lab.paper import PRIORS, TASKS, under
from paseo.lab.reproduce.findings import PaperFinding, count, span
from paseo.lab.reproduce.lineplots import line_figure
from paseo.lab.reproduce.variants import Options, Study, carry_out, complete, mean, tasks_of, variant

__all__ = ["Options", "run"]

POINTS, QUICK_POINTS = (14, 28, 56, 112), (4, 8)
COLUMNS = ("lpips", "psnr", "seconds")


def run(o: Options) -> Study:
    tasks = tasks_of(o)
    points = QUICK_POINTS if o.steps else POINTS
    labels = [f"K={k}" for k in points]
    methods = [variant(o, tasks, label, steps=k) for label, k in zip(labels, points, strict=True)]
    bench, store = carry_out(o, "steps", methods, tasks, reference=labels[1], metrics=["lpips", "psnr"])
    lines: list[list[Any]] = []
    for task in tasks:
        lines.append([task, "here", *(v for label in labels for v in _figures(bench, task, label))])
        for prior in PRIORS:
            rows = list(under("steps", prior, task).values())[: len(points)]
            lines.append([task, f"paper {prior}", *(row[c] for row in rows for c in COLUMNS)])
    header = ("task", "where", *(f"{label} {what}" for label in labels for what in ("LPIPS", "PSNR", "s")))
    lpips, psnr = (complete(bench, tasks, labels, metric) for metric in ("lpips", "psnr"))
    seconds = {t: [bench.summaries[t, label].seconds("cpu") or 0.0 for label in labels] for t in lpips}
    found = findings(lpips, psnr, seconds) if points == POINTS else []
    return Study(
        "Quality and time by the number of steps",
        o,
        bench,
        store,
        header,
        lines,
        found,
        charts=lambda out: charts(out, lpips),
    )


def _figures(bench: Bench, task: str, label: str) -> list[float | None]:
    s = bench.summaries.get((task, label))
    return [
        mean(bench, task, label),
        mean(bench, task, label, "psnr"),
        s.seconds("cpu") if s is not None else None,
    ]


def findings(
    lpips: dict[str, dict[str, float]], psnr: dict[str, dict[str, float]], seconds: dict[str, list[float]]
) -> list[PaperFinding]:
    if not lpips:
        return []
    better = [row["K=28"] < row["K=14"] for row in lpips.values()]
    enough = [row["K=28"] <= sorted(row.values())[1] for row in lpips.values()]
    sharper = [max(row["K=56"], row["K=112"]) >= row["K=28"] for row in psnr.values()]
    ratios = [s[3] / s[1] for s in seconds.values() if s[1] > 0]
    best = [min(row, key=lambda k: row[k]) for row in lpips.values()]
    return [
        PaperFinding("28 steps are better than 14.", "10 of 10 rows", count(better), all(better)),
        PaperFinding(
            "28 steps are best or second in LPIPS on most tasks.",
            "9 of 10 rows",
            count(enough),
            sum(enough) > len(enough) / 2,
        ),
        PaperFinding(
            "More steps do not always help LPIPS.",
            "112 is best in no row",
            f"best: {', '.join(best)}",
            any(b != "K=112" for b in best),
        ),
        PaperFinding("PSNR keeps rising beyond 28 steps.", "10 of 10 rows", count(sharper), all(sharper)),
        PaperFinding(
            "Time is proportional to the steps.",
            f"112 take {span(published_ratios(), 1)} times as long as 28",
            span(ratios, 1),
            all(3 < r < 5 for r in ratios),
        ),
    ]


def published_ratios() -> list[float]:
    """Seconds at 112 steps ÷ seconds at 28, in the ten rows of the paper."""
    rows = [under("steps", prior, task) for prior in PRIORS for task in TASKS]
    return [row["112"]["seconds"] / row["28"]["seconds"] for row in rows]


def charts(out: Path, lpips: dict[str, dict[str, float]]) -> list[Path]:
    return [
        line_figure(
            out / "steps.png",
            {"points K": {t: {k[2:]: v for k, v in row.items()} for t, row in lpips.items()}},
            "LPIPS",
        )
    ]
