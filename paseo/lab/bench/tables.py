"""Tables of a benchmark: best bold, second underlined, as Markdown, HTML and CSV from the same cells.

As in the paper, values that look the same at the printed precision share their mark, and the second-best is
the next distinct value. A mean over fewer images than the others' has no mark, and a distance between sets is
not shown for them: `common_table` compares on the same images.
"""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from paseo.lab.bench.aggregate import Bench, Bootstrapped, Summary
from paseo.lab.bench.scores import METRICS
from paseo.samplers import METHODS

Mark = Literal["", "best", "second"]


@dataclass(frozen=True)
class TableCell:
    """One cell of a table."""

    text: str
    mark: Mark = ""


@dataclass(frozen=True)
class Column:
    """What a column shows of a method."""

    title: str
    value: Callable[[Summary], float | None]
    digits: int
    higher: bool | None = False  # is better; None: neither
    scale: float = 1.0
    any_images: bool = False  # comparable whatever the images: time and memory

    def text(self, s: Summary) -> str:
        value = self.value(s)
        return "–" if value is None else f"{value * self.scale:.{self.digits}f}"


@dataclass(frozen=True)
class Table:
    """A grid of text with marks."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    note: str = ""

    def markdown(self) -> str:
        lines = [
            "| " + " | ".join(self.header) + " |",
            "|" + "|".join([" --- "] + [" ---: "] * (len(self.header) - 1)) + "|",
        ]
        lines += ["| " + " | ".join(_markdown(entry) for entry in row) + " |" for row in self.rows]
        return f"### {self.title}\n\n" + "\n".join(lines) + (f"\n\n{self.note}" if self.note else "") + "\n"

    def html(self) -> str:
        head = "".join(f"<th>{html.escape(h)}</th>" for h in self.header)
        body = "".join("<tr>" + "".join(_html(e) for e in row) + "</tr>" for row in self.rows)
        note = f'<p class="note">{html.escape(self.note)}</p>' if self.note else ""
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return f"<h3>{html.escape(self.title)}</h3>{table}{note}"


def _markdown(entry: TableCell) -> str:
    return {"best": f"**{entry.text}**", "second": f"<u>{entry.text}</u>"}.get(entry.mark, entry.text)


def _html(entry: TableCell) -> str:
    text = html.escape(entry.text)
    return f"<td>{ {'best': f'<b>{text}</b>', 'second': f'<u>{text}</u>'}.get(entry.mark, text) }</td>"


def quality_table(bench: Bench, task: str, *, cost: bool = True) -> Table:
    """One task: every metric, distances, NFE, and seconds and memory unless left out."""
    summaries = bench.of(task)
    columns = [_metric_column(name) for name in bench.metric_names(task)]
    columns += _distance_columns(summaries, full=max((s.images for s in summaries), default=0))
    columns.append(Column("NFE", lambda s: float(s.nfe), 0, None))
    if cost:
        device = bench.config.device
        columns.append(
            Column("CPU s" if device == "cpu" else "s", lambda s: s.seconds(device), 2, any_images=True)
        )
        columns.append(
            Column("memory MiB", lambda s: s.cost.get("extra_bytes"), 0, scale=2**-20, any_images=True)
        )
    columns.append(Column("images", lambda s: float(s.images), 0, None))
    table = marked(title_of(task), summaries, columns)
    missing = [
        f"{method_title(m)}: n/a ({reason.split('.')[0]})"
        for m, reason in bench.unsupported.get(task, {}).items()
    ]
    partial = [
        f"{method_title(s.method)}: {s.done} of {s.planned} cells, {s.failed} failed"
        for s in summaries
        if s.done < s.planned
    ]
    return Table(table.title, table.header, table.rows, "; ".join([*missing, *partial]))


def paired_table(bench: Bench, task: str, metrics: Sequence[str] = ("lpips", "psnr")) -> Table | None:
    """Each method against the reference, image by image, with 95 % intervals."""
    others = [s for s in bench.of(task) if s.against]
    if not others:
        return None
    shown = [name for name in metrics if any(name in s.against for s in others)]
    header = ("Method", *(f"Δ{METRICS[name].title}" for name in shown), "images")
    rows = tuple(
        (
            TableCell(method_title(s.method)),
            *(_difference(s.against.get(name), name) for name in shown),
            TableCell(str(s.paired)),
        )
        for s in others
    )
    other = method_title(bench.config.reference)
    note = f"Paired differences to {other} with 95 % bootstrap intervals over images."
    return Table(f"{title_of(task)}: against {other}", header, rows, note)


def overview_table(bench: Bench, name: str = "lpips") -> Table:
    """All tasks in one table, by one metric."""
    direction = "higher" if METRICS[name].higher else "lower"
    return _by_task(
        bench,
        name,
        {t: bench.of(t) for t in bench.config.tasks},
        f"{METRICS[name].title} ({direction} is better)",
    )


def common_table(bench: Bench, name: str = "lpips") -> Table | None:
    """The overview on the images that every method of a task has, so that all stand on the same ones; None
    where all have all.
    """
    common = {t: bench.on_common_images(t, name) for t in bench.config.tasks}
    if all(s.images == common[t][0].images for t in common if common[t] for s in bench.of(t)):
        return None
    counts = sorted({s.images for summaries in common.values() for s in summaries})
    images = "–".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
    return _by_task(
        bench,
        name,
        common,
        f"{METRICS[name].title} on the {images} images of each task that every method has",
    )


def _by_task(bench: Bench, name: str, summaries: Mapping[str, Sequence[Summary]], title: str) -> Table:
    """One row per method, one column per task."""
    labels = [
        m.label
        for m in bench.config.methods
        if any(s.method == m.label for found in summaries.values() for s in found)
    ]
    columns = {task: dict(_marks(found, _metric_column(name))) for task, found in summaries.items()}
    rows = []
    for label in labels:
        cells = [
            columns[t].get(label, TableCell("n/a" if label in bench.unsupported.get(t, {}) else "–"))
            for t in summaries
        ]
        rows.append((TableCell(method_title(label)), *cells))
    return Table(title, ("Method", *map(title_of, summaries)), tuple(rows))


def rows_csv(bench: Bench) -> str:
    """One line per row: everything that was measured, costs aside."""
    names = [name for name in METRICS if any(name in row["metrics"] for row in bench.rows)]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["task", "method", "image", "seed", "nfe", *names, "key"])
    for row in bench.rows:
        values = [row["metrics"].get(name, "") for name in names]
        writer.writerow(
            [row["task"], row["method"], row["image"], row["seed"], row["nfe"], *values, row["key"]]
        )
    return buffer.getvalue()


def marked(title: str, summaries: Sequence[Summary], columns: Sequence[Column]) -> Table:
    entries = [dict(_marks(summaries, column)) for column in columns]
    rows = tuple(
        (TableCell(method_title(s.method)), *(column[s.method] for column in entries)) for s in summaries
    )
    return Table(title, ("Method", *(c.title for c in columns)), rows)


def _marks(summaries: Sequence[Summary], column: Column) -> list[tuple[str, TableCell]]:
    full = max((s.images for s in summaries), default=0)
    texts = {s.method: column.text(s) for s in summaries}
    ranked = {
        s.method: float(texts[s.method])
        for s in summaries
        if texts[s.method] != "–" and (column.any_images or s.images == full)
    }
    distinct = sorted(set(ranked.values()), reverse=bool(column.higher))
    places: dict[float, Mark] = (
        dict(zip(distinct, ("best", "second"), strict=False)) if column.higher is not None else {}
    )
    return [
        (m, TableCell(text, places.get(ranked[m], "") if m in ranked else "")) for m, text in texts.items()
    ]


def _metric_column(name: str) -> Column:
    m = METRICS[name]
    arrow = "↑" if m.higher else "↓"
    return Column(
        f"{m.title} {arrow}",
        lambda s: s.metrics[name].mean if name in s.metrics else None,
        m.digits,
        m.higher,
    )


def _distance_columns(summaries: Sequence[Summary], full: int) -> list[Column]:
    names = sorted({name for s in summaries for name in s.distances})
    return [_distance_column(name, full) for name in names]


def _distance_column(name: str, full: int) -> Column:
    titles = {
        "kernel_vgg16": "KD-VGG ×10³ ↓",
        "kernel_vgg16_hole": "KD-VGG hole ×10³ ↓",
        "kernel_inception": "KID ×10³ ↓",
    }
    titles |= {"kernel_inception_hole": "KID hole ×10³ ↓", "fid": "FID ↓", "fid_hole": "FID hole ↓"}
    scale = 1.0 if name.startswith("fid") else 1e3
    return Column(
        titles.get(name, name),
        lambda s: s.distances[name][0] if name in s.distances and s.images == full else None,
        2,
        scale=scale,
    )


def _difference(interval: Bootstrapped | None, name: str) -> TableCell:
    if interval is None:
        return TableCell("–")
    d = METRICS[name].digits
    return TableCell(f"{interval.mean:+.{d}f} [{interval.low:+.{d}f}, {interval.high:+.{d}f}]")


def title_of(task: str) -> str:
    from paseo.degrade import task as find_task

    return find_task(task).title


def method_title(label: str) -> str:
    """How a label is printed: by the method's name, with what follows it (`silo-53` is SILO (53)), or as it
    is.
    """
    known: dict[str, str] = {**{name: m.title for name, m in METHODS.items()}, "paseo-dagger": "PASEO†"}
    method, _, rest = label.rpartition("-")
    return known.get(label) or (f"{known[method]} ({rest})" if method in known and rest else label)
