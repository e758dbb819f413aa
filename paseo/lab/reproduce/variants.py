"""Variants of a method on the embedded model: what the experiments on learned operators share.

Each experiment is a benchmark (`paseo.lab.bench`) in a folder of its own, so a run that was stopped goes on,
and several processes may share it (`--set shard=0/2`). The data are the held-out faces beside the model, or a
folder of faces whose test part is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from paseo.errors import BadInput
from paseo.lab.bench import aggregate
from paseo.lab.bench.aggregate import Bench, Summary
from paseo.lab.bench.cells import Store
from paseo.lab.bench.config import parse_config
from paseo.lab.bench.plan import make_plan, write
from paseo.lab.bench.run import Shard, run
from paseo.lab.reproduce.findings import Finding, verdict
from paseo.models import AUTO, load_model
from paseo.recipe import Recipe, Request, resolve
from paseo.record import conditions

TASKS = ("sr4", "sr8", "blur", "inpaint", "jpeg")


@dataclass(frozen=True)
class Options:
    """Settings that all of these experiments take."""

    model: str = AUTO
    preset: str | None = None  # whose kept settings; the model's otherwise
    data: str = "samples"  # a folder of faces; "samples" are those beside the model
    part: str = "test"  # of a folder: test, validation, train or all
    images: int = 100
    tasks: str = ",".join(TASKS)
    batch: int = 4  # images computed at the same time
    work: str = "out/reproduce"  # folder for results, one below it per experiment
    shard: str = "0/1"
    steps: int = 0  # 0: the kept settings' own

    def __post_init__(self) -> None:
        if self.images < 1 or not self.names:
            raise BadInput(f"images={self.images} and tasks={self.tasks!r}: at least one of each is needed.")

    @classmethod
    def quick(cls) -> Options:
        """Two images and a few steps: to see that it runs, not to conclude from."""
        return cls(images=2, steps=5)

    @property
    def names(self) -> list[str]:
        return [name.strip() for name in self.tasks.split(",") if name.strip()]


@dataclass(frozen=True, eq=False)
class Study:
    """The rows of an experiment, beside the paper's figures, and what follows from them."""

    title: str
    options: Options
    bench: Bench
    store: Store
    header: tuple[str, ...]
    lines: Sequence[Sequence[Any]]
    findings: Sequence[Finding] = ()
    more: Mapping[str, Any] = field(default_factory=dict)
    charts: Any = None  # (out) → files

    def rows(self) -> list[dict[str, Any]]:
        return [dict(zip(self.header, line, strict=True)) for line in self.lines]

    def notes(self) -> dict[str, Any]:
        found = {
            "conditions": {**conditions(), "images": images_of(self.bench)},
            "findings": [f.to_json() for f in self.findings],
        }
        return {**found, **self.more}

    def table(self) -> str:
        missing = len(self.bench.cells) - len(self.bench.rows)
        head = f"{self.title}: {images_of(self.bench)} images" + (
            f"; {missing} cells are not done yet" if missing else ""
        )
        return "\n".join(
            [
                head,
                "",
                columns(self.header, self.lines),
                "",
                *(f.line() for f in self.findings),
                verdict(self.findings),
            ]
        )

    def plots(self, out: Path) -> list[Path]:
        return self.charts(out) if self.charts is not None else []


def reference(o: Options, task: str, **changes: Any) -> dict[str, Any]:
    """PASEO's settings for a task in the experiments of this kind: the kept ones, arc anchor, the supplied
    mask for inpainting.
    """
    sampler: Any = recipe_of(o, task).sampler
    fixed = {
        "anchor": "arc",
        **({"weight": "mask"} if task == "inpaint" else {}),
        **({"steps": o.steps} if o.steps else {}),
    }
    return {**asdict(sampler), **fixed, **changes}


def recipe_of(o: Options, task: str) -> Recipe:
    """The kept settings, as every other door finds them."""
    return resolve(Request(model=o.model, task=task, preset=o.preset, keep_known=False))


def variant(o: Options, tasks: Sequence[str], label: str, **changes: Any) -> dict[str, Any]:
    """A column of an experiment: the reference with some changes, on every task."""
    return {
        "name": "paseo",
        "label": label,
        "per_task": {task: reference(o, task, **changes) for task in tasks},
    }


def tasks_of(o: Options) -> list[str]:
    """Those that were asked for and that the model has an operator for."""
    known = load_model(o.model).tasks
    chosen = [name for name in o.names if name in known]
    if not chosen:
        raise BadInput(
            f"The model {o.model} has operators for {', '.join(known) or 'nothing'}, not for {o.tasks}."
        )
    return chosen


def carry_out(
    o: Options, name: str, methods: Sequence[Any], tasks: Sequence[str], **more: Any
) -> tuple[Bench, Store]:
    """Plan, compute this process's share, and sum up what is there."""
    own = o.data == "samples"
    count = min(o.images, _samples(o.model)) if own else o.images
    data = {"path": o.data, "part": "all" if own else o.part, "count": count}
    values = {
        "name": name,
        "model": o.model,
        "preset_table": o.preset,
        "data": data,
        "tasks": list(tasks),
        "methods": list(methods),
        "batch": o.batch,
        "features": False,
    }
    folder = Path(o.work) / name
    write(make_plan(parse_config({**values, **more})), folder)
    from tqdm import tqdm

    with tqdm(desc=name, unit="cell", disable=None, leave=False) as bar:
        run(folder, shard=Shard.parse(o.shard), advance=bar.update)
    return aggregate.load(folder), Store(folder)


def images_of(bench: Bench) -> int:
    return max((s.images for s in bench.summaries.values()), default=0)


def mean(bench: Bench, task: str, label: str, metric: str = "lpips") -> float | None:
    """None where nothing has been measured."""
    s: Summary | None = bench.summaries.get((task, label))
    return s.metrics[metric].mean if s is not None and metric in s.metrics else None


def complete(
    bench: Bench, tasks: Sequence[str], labels: Sequence[str], metric: str = "lpips"
) -> dict[str, dict[str, float]]:
    """task → label → mean, for the tasks that have all labels: what a finding may be based on."""
    rows = {
        t: {label: v for label in labels if (v := mean(bench, t, label, metric)) is not None} for t in tasks
    }
    return {t: row for t, row in rows.items() if len(row) == len(labels)}


def columns(header: Sequence[str], lines: Sequence[Sequence[Any]]) -> str:
    """Aligned text; numbers to the right."""
    body = [[_text(v) for v in line] for line in lines]
    widths = [max(len(row[i]) for row in [list(header), *body]) for i in range(len(header))]
    numeric = [all(not isinstance(line[i], str) for line in lines) for i in range(len(header))]
    rows = [list(header), ["-" * w for w in widths], *body]
    return "\n".join(
        "  ".join(
            c.rjust(w) if n else c.ljust(w) for c, w, n in zip(r, widths, numeric, strict=True)
        ).rstrip()
        for r in rows
    )


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if not isinstance(value, float):
        return str(value)
    if value != 0 and not 1e-3 <= abs(value) < 1e4:
        return f"{value:.0e}"
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.4g}"


def _samples(model: str) -> int:
    from paseo.images import find_images

    folder = load_model(model).folder
    found = find_images(folder / "samples") if folder is not None and (folder / "samples").is_dir() else []
    if not found:
        raise BadInput(f"The model {model} brings no sample images: give a folder with --set data=FOLDER.")
    return len(found)
