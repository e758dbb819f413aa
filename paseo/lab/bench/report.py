"""`paseo bench report`: what a run has shown so far, as Markdown, CSV, JSON and one HTML page that needs no
other file.

    report/rows.csv        every row
    report/quality.json    means, intervals, paired differences, distances; the same rows give the same bytes
    report/cost.json       seconds and memory
    report/report.md       tables (with grids/*.png)
    report/report.html     tables, quality against time, picture grids

With `cost=False` nothing that depends on the clock or the machine is written, and every file is a function of
the rows.
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Mapping
from pathlib import Path

from PIL import Image

from paseo.errors import BadInput
from paseo.files import write_json, write_text
from paseo.images import save_png
from paseo.lab.bench import aggregate
from paseo.lab.bench.aggregate import Bench
from paseo.lab.bench.cells import CellStore
from paseo.lab.bench.chart import Dot, scatter
from paseo.lab.bench.grids import caption, grid
from paseo.lab.bench.scores import METRICS, PROTOCOL
from paseo.lab.bench.tables import (
    Table,
    common_table,
    method_title,
    overview_table,
    paired_table,
    quality_table,
    rows_csv,
    title_of,
)

STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1200px; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px;
  margin: .5rem 0 1rem; }
th, td { padding: .25rem .6rem; text-align: right;
  border-bottom: 1px solid color-mix(in srgb, currentColor 18%, transparent); }
th:first-child, td:first-child { text-align: left; }
.scroll { overflow-x: auto; } .note { font-size: 12px; opacity: .75; }
img { max-width: 100%; image-rendering: pixelated; }
.charts { display: flex; flex-wrap: wrap; gap: 1rem; }
"""


def write_report(folder: Path, out: Path | None = None, *, cost: bool = True) -> dict[str, Path]:
    """Write all files and return them by name."""
    bench, target = aggregate.load(folder), out or folder / "report"
    if not bench.rows:
        raise BadInput(f"{folder} has no results yet. Compute some with `paseo bench run {folder}`.")
    store = CellStore(folder)
    pictures = {task: sheet for task in bench.config.tasks if (sheet := grid(bench, store, task)) is not None}
    for task, sheet in pictures.items():
        save_png(target / "grids" / f"{task.replace(':', '_')}.png", sheet)
    written = {
        "csv": write_text(target / "rows.csv", rows_csv(bench)),
        "json": write_json(target / "quality.json", quality_json(bench)),
        "markdown": write_text(target / "report.md", markdown(bench, list(pictures), cost=cost)),
        "html": write_text(target / "report.html", page(bench, pictures, cost=cost)),
    }
    if cost:
        written["cost"] = write_json(target / "cost.json", cost_json(bench))
    return written


def quality_json(bench: Bench) -> dict[str, object]:
    tasks = {task: {s.method: s.to_json() for s in bench.of(task)} for task in bench.config.tasks}
    return {
        "schema_version": 1,
        "name": bench.config.name,
        "protocol": PROTOCOL,
        "config": bench.config.public(),
        "cells": len(bench.cells),
        "done": len(bench.rows),
        "tasks": tasks,
        "samplers": {
            t: {c.method: c.sampler for c in bench.cells if c.task == t} for t in bench.config.tasks
        },
        "unsupported": bench.unsupported,
        "failures": [{k: v for k, v in failure.items() if k != "traceback"} for failure in bench.failures],
    }


def cost_json(bench: Bench) -> dict[str, object]:
    tasks = {
        task: {s.method: {"nfe": s.nfe, **s.cost} for s in bench.of(task)} for task in bench.config.tasks
    }
    return {"schema_version": 1, "conditions": bench.conditions, "tasks": tasks}


def tables(bench: Bench, *, cost: bool) -> list[Table]:
    """The overview, also on common images where methods have different ones, then two tables per task."""
    common = common_table(bench)
    found = [overview_table(bench), *([common] if common is not None else [])]
    for task in bench.config.tasks:
        if bench.of(task):
            paired = paired_table(bench, task)
            found += [quality_table(bench, task, cost=cost), *([paired] if paired is not None else [])]
    return found


def markdown(bench: Bench, grids: list[str], *, cost: bool = True) -> str:
    parts = [f"# Benchmark {bench.config.name}", "", *(f"- {line}" for line in facts(bench, cost=cost)), ""]
    parts += [table.markdown() for table in tables(bench, cost=cost)]
    parts += [
        f"![{caption(bench, task)}](grids/{task.replace(':', '_')}.png)\n\n{caption(bench, task)}\n"
        for task in grids
    ]
    parts += _failures(bench)
    return "\n".join(parts)


def page(bench: Bench, pictures: Mapping[str, Image.Image], *, cost: bool = True) -> str:
    name = html.escape(bench.config.name)
    body = [
        f"<h1>Benchmark {name}</h1><ul>",
        *(f"<li>{html.escape(line)}</li>" for line in facts(bench, cost=cost)),
        "</ul>",
    ]
    if cost:
        body.append('<h2>Quality against time</h2><div class="charts">' + "".join(charts(bench)) + "</div>")
    body.append("<h2>Tables</h2>")
    body += [f'<div class="scroll">{table.html()}</div>' for table in tables(bench, cost=cost)]
    body.append("<h2>Pictures</h2>")
    for task, sheet in pictures.items():
        text = html.escape(caption(bench, task))
        body.append(
            f'<figure class="scroll"><img alt="{text}" src="{_inline(sheet)}"><figcaption '
            f'class="note">{text}</figcaption></figure>'
        )
    body += [f"<pre>{html.escape(text)}</pre>" for text in _failures(bench)]
    viewport = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    head = f'<meta charset="utf-8">{viewport}<title>Benchmark {name}</title><style>{STYLE}</style>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{"".join(body)}</body></html>\n'


def charts(bench: Bench, name: str = "lpips") -> list[str]:
    """One chart per task."""
    found = []
    colour = {spec.label: i for i, spec in enumerate(bench.config.methods)}  # the same in every chart
    for task in bench.config.tasks:
        times = {s.method: s.seconds(bench.config.device) for s in bench.of(task) if name in s.metrics}
        shown = [(s, t) for s in bench.of(task) if (t := times.get(s.method))]
        dots = [Dot(method_title(s.method), t, s.metrics[name].mean, colour[s.method]) for s, t in shown]
        found.append(scatter(title_of(task), dots, METRICS[name].title, METRICS[name].higher))
    return found


def facts(bench: Bench, *, cost: bool) -> list[str]:
    """The conditions that the figures carry."""
    c = bench.config
    hashes = ", ".join(
        f"{k} {v[:12]}" for k, v in sorted(bench.cells[0].hashes.items()) if not k.startswith("operator")
    )
    lines = [
        f"model {Path(c.model).name} ({hashes})",
        f"{len({cell.image_sha256 for cell in bench.cells})} images, seeds {', '.join(map(str, c.seeds))}; "
        f"{len(bench.rows)} of {len(bench.cells)} cells done, {len(bench.failures)} failed",
        "metrics on 8-bit images in [0,1] at native size; LPIPS v0.1 (AlexNet unless named); consistency "
        "is the RMS of A(x̂) − A(x) "
        "in [-1,1] units; KD-VGG is a kernel distance on VGG16 features and not KID; best bold, second "
        "underlined",
    ]
    if cost and bench.conditions:
        versions = ", ".join(f"{k} {v}" for k, v in bench.conditions.get("versions", {}).items())
        lines.append(
            f"{bench.conditions.get('processor')}, {c.device}, {c.threads} thread(s) per process, "
            f"{c.batch} image(s) at a time; "
            f"time is the {'processor' if c.device == 'cpu' else 'wall'}'s, from encoding to decoding, the "
            "median per image without the "
            "warm-up; memory is the peak above the loaded model; "
            f"{versions}"
        )
    return lines


def _failures(bench: Bench) -> list[str]:
    lines = [f"{f['cell']}: {f['error']}: {f['message']}" for f in bench.failures]
    return ["Failures\n\n" + "\n".join(f"    {line}" for line in lines) + "\n"] if lines else []


def _inline(image: Image.Image) -> str:
    buffer = io.BytesIO()
    image.save(buffer, format="PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
