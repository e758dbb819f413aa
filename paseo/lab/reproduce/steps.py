"""Reverse steps against quality and time: 14, 28, 56 and 112 points, all else as kept for PASEO (200 FFHQ
images in the paper).

K points cost 2K − 3 denoiser calls. The arc anchor; the supplied mask for inpainting.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from paseo.lab.bench.aggregate import Bench
from paseo.lab.reproduce.findings import Finding, count, span
from paseo.lab.reproduce.lineplots import line_figure
from paseo.lab.reproduce.variants import Options, Study, carry_out, complete, mean, tasks_of, variant

__all__ = ["Options", "run"]

POINTS, QUICK_POINTS = (14, 28, 56, 112), (4, 8)
PAPER: dict[
    str, dict[str, tuple[tuple[float, float, float], ...]]
] = {  # LPIPS, PSNR, seconds for each of POINTS
    "rv51": {
        "sr4": ((0.213, 26.6, 6), (0.135, 28.1, 11), (0.163, 28.4, 23), (0.238, 28.1, 46)),
        "sr8": ((0.272, 25.5, 5), (0.205, 26.8, 12), (0.224, 27.1, 24), (0.303, 26.9, 47)),
        "blur": ((0.216, 26.6, 8), (0.157, 27.8, 17), (0.165, 28.4, 34), (0.205, 28.3, 70)),
        "inpaint": ((0.146, 21.5, 15), (0.140, 21.5, 30), (0.152, 21.8, 65), (0.158, 22.0, 127)),
        "jpeg": ((0.438, 20.5, 4), (0.255, 24.6, 8), (0.295, 25.9, 17), (0.410, 25.5, 34)),
    },
    "sd35": {
        "sr4": ((0.235, 29.3, 5), (0.180, 30.0, 11), (0.203, 30.1, 22), (0.220, 30.1, 46)),
        "sr8": ((0.414, 26.3, 4), (0.328, 27.3, 8), (0.388, 27.3, 17), (0.428, 27.3, 38)),
        "blur": ((0.292, 28.2, 4), (0.197, 29.6, 9), (0.197, 30.2, 18), (0.230, 30.2, 36)),
        "inpaint": ((0.145, 21.5, 6), (0.117, 22.6, 11), (0.111, 23.0, 23), (0.117, 23.0, 45)),
        "jpeg": ((0.478, 22.5, 7), (0.347, 25.1, 14), (0.338, 25.8, 32), (0.343, 26.2, 60)),
    },
}


def run(o: Options) -> Study:
    tasks = tasks_of(o)
    points = QUICK_POINTS if o.steps else POINTS
    labels = [f"K={k}" for k in points]
    methods = [variant(o, tasks, label, steps=k) for label, k in zip(labels, points, strict=True)]
    bench, store = carry_out(o, "steps", methods, tasks, reference=labels[1], metrics=["lpips", "psnr"])
    lines: list[list[Any]] = []
    for task in tasks:
        lines.append([task, "here", *(v for label in labels for v in _figures(bench, task, label))])
        lines += [
            [task, f"paper {m}", *(v for triple in rows[task][: len(points)] for v in triple)]
            for m, rows in PAPER.items()
            if task in rows
        ]
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
) -> list[Finding]:
    if not lpips:
        return []
    better = [row["K=28"] < row["K=14"] for row in lpips.values()]
    enough = [row["K=28"] <= sorted(row.values())[1] for row in lpips.values()]
    sharper = [max(row["K=56"], row["K=112"]) >= row["K=28"] for row in psnr.values()]
    ratios = [s[3] / s[1] for s in seconds.values() if s[1] > 0]
    best = [min(row, key=lambda k: row[k]) for row in lpips.values()]
    return [
        Finding("28 steps are better than 14.", "10 of 10 rows", count(better), all(better)),
        Finding(
            "28 steps are best or second in LPIPS on most tasks.",
            "9 of 10 rows",
            count(enough),
            sum(enough) > len(enough) / 2,
        ),
        Finding(
            "More steps do not always help LPIPS.",
            "112 is best in no row",
            f"best: {', '.join(best)}",
            any(b != "K=112" for b in best),
        ),
        Finding("PSNR keeps rising beyond 28 steps.", "10 of 10 rows", count(sharper), all(sharper)),
        Finding(
            "Time is proportional to the steps.",
            "112 take 4.1 to 4.8 times as long as 28",
            span(ratios, 1),
            all(3 < r < 5 for r in ratios),
        ),
    ]


def charts(out: Path, lpips: dict[str, dict[str, float]]) -> list[Path]:
    return [
        line_figure(
            out / "steps.png",
            {"points K": {t: {k[2:]: v for k, v in row.items()} for t, row in lpips.items()}},
            "LPIPS",
        )
    ]
