"""A run beside what was kept of an earlier one (benchmarks/results/NAME): methods that the run leaves out
keep their rows, so that a method can be measured again without all the others.

Both have the same images; paired differences are taken anew, against the run's own reference.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from paseo.files import read_json
from paseo.lab.bench.aggregate import Bench, Summary, bootstrap, paired
from paseo.lab.bench.cells import Cell
from paseo.lab.bench.config import BenchConfig

NOT_METRICS = ("task", "method", "image", "seed", "nfe", "key")
Key = tuple[str, str]  # task, method


def with_earlier(
    bench: Bench,
    folder: Path,
    config: BenchConfig,
    whole: Iterable[Cell] | None = None,
    keep_cost: bool = False,
) -> Bench:
    """The run with every row of `folder` whose task and method it lacks; methods in the order of `config`.
    `whole` are the cells of the whole benchmark, where the run itself has fewer tasks or images. With
    `keep_cost` the run's own rows have the time and memory that were kept: only a step size has changed, and
    times of two machines do not belong into one table.
    """
    kept = {name: read_json(folder / f"{name}.json") for name in ("quality", "cost")}
    like = {(cell.task, cell.image): cell for cell in whole or bench.cells}
    rows = [row for row in _rows(folder) if _key(row) not in bench.summaries and _at(row) in like]
    groups: dict[Key, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[_key(row)].append(row)
    found = {key: _summary(key, group, kept, like) for key, group in groups.items()}
    mine = {key: _costing(s, kept["cost"]) if keep_cost else s for key, s in bench.summaries.items()}
    summaries = {**mine, **found}
    for (task, method), s in list(summaries.items()):  # the reference may be new, or the method
        reference = summaries.get((task, config.reference))
        if reference is not None and method != config.reference:
            summaries[task, method] = paired(s, reference)
    cells = tuple(_cell(row, kept["quality"], like) for row in rows)
    unsupported = {
        task: {**kept["quality"]["unsupported"].get(task, {}), **bench.unsupported.get(task, {})}
        for task in config.tasks
    }
    return replace(
        bench,
        config=config,
        cells=(*bench.cells, *cells),
        rows=(*bench.rows, *rows),
        summaries=summaries,
        unsupported=unsupported,
    )


def _costing(s: Summary, kept: dict[str, Any]) -> Summary:
    """The same with the cost that was kept, where there is one."""
    cost = kept["tasks"].get(s.task, {}).get(s.method)
    return s if cost is None else replace(s, cost={k: v for k, v in cost.items() if k != "nfe"})


def _rows(folder: Path) -> list[dict[str, Any]]:
    with (folder / "rows.csv").open(encoding="utf-8", newline="") as file:
        return [
            {
                **{name: line[name] for name in ("task", "method", "image", "key")},
                "seed": int(line["seed"]),
                "nfe": int(line["nfe"]),
                "metrics": {n: float(v) for n, v in line.items() if n not in NOT_METRICS and v != ""},
            }
            for line in csv.DictReader(file)
        ]


def _key(row: dict[str, Any]) -> Key:
    return row["task"], row["method"]


def _at(row: dict[str, Any]) -> tuple[str, str]:
    return row["task"], row["image"]


def _summary(
    key: Key, rows: list[dict[str, Any]], kept: dict[str, Any], like: dict[tuple[str, str], Cell]
) -> Summary:
    """Its means over images, with the distances and the cost that were kept."""
    task, method = key
    before, cost = (kept[name]["tasks"][task][method] for name in ("quality", "cost"))
    values: dict[str, dict[str, float]] = defaultdict(dict)
    for row in rows:
        for name, value in row["metrics"].items():
            values[name][like[_at(row)].image_sha256] = value
    return Summary(
        *key,
        planned=before["planned"],
        done=len(rows),
        failed=before["failed"],
        images=len(rows),
        nfe=before["nfe"],
        values=values,
        metrics={name: bootstrap(list(images.values())) for name, images in values.items()},
        distances={n: (d["value"], d["standard_error"]) for n, d in before["distances"].items()},
        cost={name: value for name, value in cost.items() if name != "nfe"},
    )


def _cell(row: dict[str, Any], quality: dict[str, Any], like: dict[tuple[str, str], Cell]) -> Cell:
    task, method = _key(row)
    sampler = quality["samplers"][task][method]
    return replace(like[_at(row)], method=method, sampler=sampler, seed=row["seed"], key=row["key"])
