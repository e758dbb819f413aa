"""The main comparison: five tasks, every method, at the settings kept for the embedded model (the paper's
FFHQ table).

PASEO and PASEO† spend 53 denoiser calls at most, every other method at most 79, as in the paper's SD3.5
block. Baselines use the true degradation. Where no settings are kept for a method it runs at its defaults,
and the note in the table says so. Places are counted pair by pair, on the images that both methods have.

    paseo reproduce main --set data=FACES                  computes, all methods on the same images
    paseo reproduce main --set run=out/bench               reads a finished `paseo bench run`, where slow
    methods may have fewer
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paseo.errors import BadInput
from paseo.lab.bench import aggregate
from paseo.lab.bench.aggregate import Bench, Summary
from paseo.lab.bench.cells import CellStore
from paseo.lab.bench.report import write_report
from paseo.lab.paper import PRIORS, TASKS, Figures, under
from paseo.lab.reproduce.findings import PaperFinding, count
from paseo.lab.reproduce.variants import Options as Common
from paseo.lab.reproduce.variants import Study, carry_out, tasks_of
from paseo.samplers import METHODS
from paseo.settings.presets import Preset, presets

__all__ = ["Options", "run"]

OURS, BUDGET, OTHERS = ("paseo", "paseo-paper", "paseo-dagger"), 53, 79
MASKS_ONLY = (
    "ding",
    "dds",
    "diffpir",
    "ddnm",
)  # closed forms for a latent mask: no operator to hold in memory
Rows = Mapping[str, Figures]  # method → published figures
COLUMNS = ("lpips", "psnr", "kid", "nfe", "seconds", "gib")
HEADER = ("task", "method", "where", "LPIPS", "PSNR", "distance ×10³", "NFE", "s", "GiB", "settings")
TABLES = {f"paper {prior}": ("ffhq", prior) for prior in PRIORS}  # name of a row → its published table


@dataclass(frozen=True)
class Options(Common):
    run: str = ""  # folder of a `paseo bench run` to read instead of computing


def run(o: Options) -> Study:
    return compare(o, "main", METHODS, TABLES, "The main comparison")


def compare(
    o: Options, name: str, chosen: Iterable[str], tables: Mapping[str, tuple[str, ...]], title: str
) -> Study:
    """Compute, or read a finished run, and set the paper's tables beside it."""
    if o.run:
        bench, store = aggregate.load(Path(o.run)), CellStore(Path(o.run))
    else:
        bench, store = carry_out(o, name, methods(o, chosen), tasks_of(o), features=True)
    tasks = measured(bench)
    lines = table(bench, tasks, tables, _kept(o.preset or o.model))
    found = findings(bench, tasks, tables) if bench.complete else []
    return Study(title, o, bench, store, HEADER, lines, found, charts=lambda out: charts(store.folder, out))


def table(
    bench: Bench,
    tasks: Sequence[str],
    tables: Mapping[str, tuple[str, ...]],
    kept: Mapping[str, Mapping[str, Preset]],
) -> list[list[Any]]:
    """For each task and method, what was measured here and every column that the paper published."""
    lines: list[list[Any]] = []
    for task in tasks:
        printed = {where: under(*key, task) for where, key in tables.items()}
        here = {s.method: s for s in bench.of(task)}
        for method in dict.fromkeys([*here, *(m for rows in printed.values() for m in rows)]):
            if s := here.get(method):
                tuned = "kept" if method in kept.get(task, {}) else "defaults"
                lines.append([task, method, "here", *_measured(s), tuned])
            for where, rows in printed.items():
                if row := rows.get(method):
                    lines.append([task, method, where, *(row.get(c) for c in COLUMNS), None])
        none = [None] * len(COLUMNS)
        lines += [[task, label, "here", *none, "n/a"] for label in bench.unsupported.get(task, {})]
    return lines


def methods(o: Options, chosen: Iterable[str] = METHODS) -> list[dict[str, Any]]:
    """Those of a table; in a quick run three, with few steps."""
    if o.steps:
        quick = [n for n in ("paseo", "ding", "ldps", "flow-dps") if n in chosen][:3]
        return [{"name": n, "settings": {"steps": o.steps}} for n in quick]
    kept = _kept(o.preset or o.model)
    budgets = (
        {} if o.preset else {n: BUDGET if n == "paseo" else OTHERS for n in chosen}
    )  # a preset has its own
    found: list[dict[str, Any]] = [{"name": n, "budget": budgets.get(n)} for n in chosen]
    dagger: dict[str, object] = {"name": "paseo", "label": "paseo-dagger", "budget": budgets.get("paseo")}
    has = bool(kept) and all("paseo-dagger" in row for row in kept.values())
    change = {"preset": "paseo-dagger"} if has else {"settings": {"anchor": "fresh"}}
    found.insert(1, {**dagger, **change})
    return found


def _kept(model: str) -> dict[str, dict[str, Preset]]:
    try:
        return presets(model)
    except BadInput:
        return {}


def _measured(s: Summary) -> list[float | int | None]:
    """In the order of COLUMNS; the kernel distance on VGG16 features stands where the paper has KID, and
    memory is the peak above the loaded model.
    """
    distance = 1e3 * s.distances["kernel_vgg16"][0] if "kernel_vgg16" in s.distances else None
    memory = s.cost["extra_bytes"] / 2**30 if "extra_bytes" in s.cost else None
    return [s.metrics["lpips"].mean, s.metrics["psnr"].mean, distance, s.nfe, s.seconds("cpu"), memory]


def measured(bench: Bench) -> list[str]:
    """The tasks on which PASEO has results."""
    return [task for task in bench.config.tasks if any(s.method == "paseo" for s in bench.of(task))]


def ranks(bench: Bench, tasks: list[str]) -> dict[str, int]:
    """task → PASEO's place in LPIPS, counted from 1: ahead is a method with any settings better on the images
    that both have.
    """
    method = {spec.label: spec.name for spec in bench.config.methods}
    own = {t: bench.summaries[t, "paseo"] for t in tasks}
    ahead = {
        t: {method[s.method] for s in bench.of(t) if s.method not in OURS and _gain(s, own[t], "lpips") < 0}
        for t in tasks
    }
    return {t: 1 + len(methods) for t, methods in ahead.items()}


def _gain(a: Summary, b: Summary, metric: str) -> float:
    """Σ a − b over the images that both have."""
    mine, theirs = a.values[metric], b.values[metric]
    return sum(mine[i] - theirs[i] for i in sorted(mine.keys() & theirs.keys()))


def findings(
    bench: Bench, tasks: list[str], tables: Mapping[str, tuple[str, ...]] = TABLES
) -> list[PaperFinding]:
    place = ranks(bench, tasks)
    others = {t: [s for s in bench.of(t) if s.method not in (*OURS, "ding")] for t in tasks}
    own = {t: bench.summaries[t, "paseo"] for t in tasks}
    faster = [all(own[t].cost["cpu_seconds"] < s.cost["cpu_seconds"] for s in others[t]) for t in tasks]
    leaner = [
        all(
            own[t].cost["extra_bytes"] <= s.cost["extra_bytes"]
            for s in others[t]
            if s.method not in MASKS_ONLY
        )
        for t in tasks
    ]
    sharper = [any(_gain(s, own[t], "psnr") > 0 for s in others[t]) for t in tasks]
    shown = ", ".join(f"{t} {p}" for t, p in place.items())
    found = [
        PaperFinding(
            "PASEO is first or second in LPIPS on every task.",
            quoted(tables, lambda rows: place_of(rows) <= 2),
            f"places: {shown}",
            max(place.values()) <= 2,
        ),
        PaperFinding(
            "PASEO is first on at least three tasks.",
            quoted(tables, lambda rows: place_of(rows) == 1),
            count([p == 1 for p in place.values()]),
            list(place.values()).count(1) >= 3,
        ),
        PaperFinding(
            "PASEO is faster than every method but DING.",
            quoted(tables, lambda rows: rows["paseo"]["seconds"] < min(_column(rows, "seconds"))),
            count(faster),
            all(faster),
        ),
        PaperFinding(
            "PASEO needs the least memory, with the closed forms for masks.",
            quoted(tables, lambda rows: rows["paseo"]["gib"] < min(_column(rows, "gib"))),
            count(leaner),
            all(leaner),
        ),
        PaperFinding(
            "Some baseline has a higher PSNR: that is the price.",
            quoted(tables, lambda rows: rows["paseo"].get("psnr", math.inf) < max(_column(rows, "psnr"))),
            count(sharper),
            sum(sharper) > len(sharper) / 2,
        ),
    ]
    if "jpeg" in place and len(place) > 1:
        found.append(
            PaperFinding(
                "JPEG is the hardest case for PASEO.",
                "both priors",
                f"place {place['jpeg']} of all",
                place["jpeg"] == max(place.values()) > 1,
            )
        )
    if all((t, "paseo-dagger") in bench.summaries for t in tasks):
        arc = [_gain(bench.summaries[t, "paseo-dagger"], own[t], "lpips") >= 0 for t in tasks]
        found.append(
            PaperFinding(
                "The arc anchor is better than the original on most tasks.",
                "12 of 15 settings",
                count(arc),
                sum(arc) > len(arc) / 2,
            )
        )
    return found


def quoted(tables: Mapping[str, tuple[str, ...]], holds: Callable[[Rows], bool]) -> str:
    """On how many tasks of each published table a statement holds."""
    return "; ".join(
        f"{where.removeprefix('paper ')} {count([holds(under(*key, task)) for task in TASKS])}"
        for where, key in tables.items()
    )


def place_of(rows: Rows) -> int:
    """PASEO's place in LPIPS among the others of a published table, counted from 1."""
    return 1 + sum(value < rows["paseo"]["lpips"] for value in _column(rows, "lpips", but=()))


def _column(rows: Rows, column: str, but: Sequence[str] = ("ding",)) -> list[float]:
    """Of the baselines."""
    return [row[column] for m, row in rows.items() if m not in (*OURS, *but) and column in row] or [-math.inf]


def charts(folder: Path, out: Path) -> list[Path]:
    return list(write_report(folder, out).values())
