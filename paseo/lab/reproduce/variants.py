"""Variants of a method on the embedded model: what the experiments on learned operators share.

Each experiment is a benchmark (`paseo.lab.bench`) in a folder of its own, so a run that was stopped goes on,
and several processes may share it (`--set shard=0/2`). The data are the held-out faces beside the model, or a
folder of faces whose test part is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from paseo.errors import BadInput
from paseo.lab.bench import aggregate
from paseo.lab.bench.aggregate import Bench, Summary
from paseo.lab.bench.cells import CellStore
from paseo.lab.bench.config import parse_config
from paseo.lab.bench.plan import make_plan, write
from paseo.lab.bench.run import Shard, run
from paseo.lab.reproduce.findings import PaperFinding
from paseo.lab.reproduce.result import Charts, Report, no_charts
from paseo.lab.text import Value
from paseo.models import AUTO, load_model
from paseo.recipe import Recipe, Request, resolve
from paseo.recipe.family import FAMILY

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
    operators: str = ""  # a folder with one operator per task, where the model brings none
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


class Study(Report):
    """A report on a benchmark: it knows its images, and whether all of it is done."""

    def __init__(
        self,
        title: str,
        options: Options,
        bench: Bench,
        store: CellStore,
        header: Sequence[str],
        lines: Sequence[Sequence[Value]],
        findings: Sequence[PaperFinding] = (),
        more: Mapping[str, Any] | None = None,
        charts: Charts = no_charts,
    ) -> None:
        missing = len(bench.cells) - len(bench.rows)
        images = images_of(bench)
        head = f"{title}: {images} images" + (f"; {missing} cells are not done yet" if missing else "")
        super().__init__(head, header, lines, findings, {"images": images}, more or {}, charts)
        self.options, self.bench, self.store = options, bench, store


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
    known = list(operators_of(o)) or load_model(o.model).tasks
    chosen = [name for name in o.names if name in known or FAMILY in known]
    if not chosen:
        raise BadInput(
            f"The model {o.model} has operators for {', '.join(known) or 'nothing'}, not for {o.tasks}. "
            "Give a folder of them with --set operators=FOLDER."
        )
    return chosen


def operators_of(o: Options) -> dict[str, str]:
    """task → folder, of the operators that were given."""
    folder = Path(o.operators)
    if not o.operators:
        return {}
    return {name: str(folder / name) for name in o.names if (folder / name).is_dir()}


def carry_out(
    o: Options, name: str, methods: Sequence[Any], tasks: Sequence[str], **more: Any
) -> tuple[Bench, CellStore]:
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
        "operators": operators_of(o),
    }
    folder = Path(o.work) / name
    write(make_plan(parse_config({**values, **more})), folder)
    from tqdm import tqdm

    with tqdm(desc=name, unit="cell", disable=None, leave=False) as bar:
        run(folder, shard=Shard.parse(o.shard), advance=bar.update)
    return aggregate.load(folder), CellStore(folder)


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


def _samples(model: str) -> int:
    from paseo.images import find_images

    folder = load_model(model).folder
    found = find_images(folder / "samples") if folder is not None and (folder / "samples").is_dir() else []
    if not found:
        raise BadInput(f"The model {model} brings no sample images: give a folder with --set data=FOLDER.")
    return len(found)
