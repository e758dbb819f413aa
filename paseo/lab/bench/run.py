"""`paseo bench run`: the cells of a plan that are not done yet, in one process, as one of several shards, or
on a Ray cluster.

Nothing is shared between shards but the folder. A cell is done when its row is there; the row is written last
and every file appears whole or not at all, so `kill -9` loses at most the unit in progress. A failure is
recorded and tried again by the next run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from paseo.errors import BadInput
from paseo.files import atomic, write_json
from paseo.lab.bench.cells import Cell, CellStore, read_plan, units, whole_features, whole_png
from paseo.lab.bench.compute import BenchWorker, CellResult, json_bytes, png_bytes
from paseo.lab.bench.config import BenchConfig
from paseo.lab.bench.features import feature_bytes
from paseo.lab.bench.pictures import Truth
from paseo.lab.bench.plan import config_of, pictures_of, setup_of
from paseo.lock import Busy, is_held, locked
from paseo.record import conditions

if TYPE_CHECKING:
    from paseo.cluster import RayOptions

Engine = Literal["local", "ray"]
Advance = Callable[[int], object]
STALE = 600  # seconds after which a half-written file is nobody's


@dataclass(frozen=True)
class Shard:
    """Part `index` of `count`, counted from 0."""

    index: int = 0
    count: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.index < self.count:
            raise BadInput(
                f"The shard {self.index}/{self.count} does not exist: shards of {self.count} are 0 to "
                f"{self.count - 1}."
            )

    @classmethod
    def parse(cls, text: str | None, environment: Mapping[str, str] = os.environ) -> Shard:
        """From "i/n", or what torchrun or a SLURM array has set, or the whole."""
        if text is not None:
            index, slash, count = text.partition("/")
            if not (slash and index.strip().isdecimal() and count.strip().isdecimal()):
                raise BadInput(f"--shard {text} is not of the form i/n, such as 0/4.")
            return cls(int(index), int(count))
        for i, n in (("RANK", "WORLD_SIZE"), ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT")):
            if i in environment and n in environment:
                first = int(environment.get("SLURM_ARRAY_TASK_MIN", "0")) if i.startswith("SLURM") else 0
                return cls(int(environment[i]) - first, int(environment[n]))
        return cls()


@dataclass(frozen=True)
class Tally:
    """What became of a run."""

    cells: int  # of the shard
    skipped: int  # done before
    done: int
    failed: int
    seconds: float

    def as_json(self) -> dict[str, object]:
        return {**asdict(self), "seconds": round(self.seconds, 3)}


def run(
    folder: Path,
    engine: Engine = "local",
    shard: Shard | None = None,
    advance: Advance = lambda n: None,
    ray_options: RayOptions | None = None,
) -> Tally:
    """Compute what is missing. `advance(n)` is told of every n cells that are done, skipped or failed."""
    part = shard or Shard()
    read_plan(folder)  # before anything is written: a folder without a plan is no run
    with locked(folder, "run", f".run-{part.index}-of-{part.count}.lock"):
        _check_alone(folder, part)
        return _run(folder, engine, part, advance, ray_options)


def _check_alone(folder: Path, part: Shard) -> None:
    """Shards of one division do not meet; a run that divides the plan otherwise would compute the same
    cells.
    """
    for other in folder.glob(".run-*-of-*.lock"):
        if not other.stem.endswith(f"-of-{part.count}") and is_held(other):
            raise Busy(
                f"{folder} is being computed by a run that divides it otherwise "
                f"({other.stem[5:].replace('-of-', '/')}, not "
                f"{part.index}/{part.count}). Wait for it to end."
            )


def _run(
    folder: Path, engine: Engine, shard: Shard, advance: Advance, ray_options: RayOptions | None
) -> Tally:
    start = time.perf_counter()
    config, store, cells = config_of(folder), CellStore(folder), read_plan(folder)
    _sweep(folder)
    mine = [unit for i, unit in enumerate(units(cells)) if i % shard.count == shard.index]
    open_units = [unit for unit in mine if not all(store.done(cell) for cell in unit)]
    count = sum(map(len, mine))
    skipped = count - sum(map(len, open_units))
    advance(skipped)
    pictures = {p.sha256: p for p in pictures_of(config)}
    _check_pictures(cells, pictures)
    write_json(
        folder / "conditions.json", {**conditions(), "device": config.device, "threads": config.threads}
    )
    prepare(store, config, [cell for unit in open_units for cell in unit], pictures)
    job = Computation(config, store, pictures, engine, advance, ray_options)
    first, again = _repeated(open_units)
    for part in (first, again):
        job.compute(job.reuse_finished(part, cells))
    return Tally(count, skipped, job.done, job.failed, time.perf_counter() - start)


@dataclass
class Computation:
    """What a run works with, and its tally."""

    config: BenchConfig
    store: CellStore
    pictures: Mapping[str, Truth]
    engine: Engine
    advance: Advance
    ray_options: RayOptions | None = None
    done: int = 0
    failed: int = 0

    def compute(self, part: Sequence[Sequence[Cell]]) -> None:
        """All units, by the engine."""
        if self.engine == "ray":
            from paseo.lab.bench.ray_engine import run_on_ray

            run_on_ray(self.config, part, self.pictures, self.finish, self.ray_options)
            return
        worker = BenchWorker(self.config)
        for unit in part:
            self.finish(unit, worker(unit, [self.pictures[sha] for sha in unit[0].company]))

    def finish(self, unit: Sequence[Cell], results: Sequence[CellResult]) -> None:
        if not (self.store.folder / "plan.jsonl").is_file():
            raise BadInput(f"The run {self.store.folder} was deleted while it was computed. Plan it again.")
        for cell, result in zip(unit, results, strict=True):
            save(self.store, cell, result)
            self.done, self.failed = (
                self.done + (result.failure is None),
                self.failed + (result.failure is not None),
            )
        self.advance(len(unit))

    def reuse_finished(self, part: Sequence[list[Cell]], cells: Sequence[Cell]) -> list[list[Cell]]:
        """Copy units whose settings were computed under another label; the rest has to be computed."""
        twins: dict[str, list[Cell]] = {}
        for cell in cells:
            twins.setdefault(cell.key, []).append(cell)
        left = []
        for unit in part:
            found = [
                next((t for t in twins[cell.key] if t.method != cell.method and self.store.done(t)), None)
                for cell in unit
            ]
            if any(twin is None for twin in found):
                left.append(unit)
            else:
                self.finish(
                    unit,
                    [
                        _copy(self.store, twin, cell)
                        for twin, cell in zip(found, unit, strict=True)
                        if twin is not None
                    ],
                )
        return left


def _repeated(open_units: Sequence[list[Cell]]) -> tuple[list[list[Cell]], list[list[Cell]]]:
    """Units with settings of their own, and those that repeat one of them under another label."""
    seen: set[tuple[str, ...]] = set()
    first: list[list[Cell]] = []
    again: list[list[Cell]] = []
    for unit in open_units:
        keys = tuple(cell.key for cell in unit)
        (again if keys in seen else first).append(unit)
        seen.add(keys)
    return first, again


def _copy(store: CellStore, twin: Cell, cell: Cell) -> CellResult:
    """The twin's files with this cell's label in the row."""
    paths = {suffix: store.path(twin, suffix) for suffix in (".png", ".safetensors", ".cost.json")}
    files = {suffix: path.read_bytes() for suffix, path in paths.items() if path.is_file()}
    return CellResult({**files, ".json": json_bytes({**(store.row(twin) or {}), "method": cell.method})})


def save(store: CellStore, cell: Cell, result: CellResult) -> None:
    """The files of a cell, the row last; or its failure."""
    if result.failure is not None:
        write_json(store.failure(cell), result.failure)
        return
    for suffix, data in result.files.items():
        with atomic(store.path(cell, suffix)) as file:
            file.write(data)
    store.failure(cell).unlink(missing_ok=True)


def prepare(
    store: CellStore, config: BenchConfig, cells: Sequence[Cell], pictures: Mapping[str, Truth]
) -> None:
    """Truths with their features, and measurements, of the cells that are to be computed: once each."""
    for task in dict.fromkeys(cell.task for cell in cells):
        setup = setup_of(config, task)
        for cell in {c.image_sha256: c for c in cells if c.task == task}.values():
            picture = pictures[cell.image_sha256]
            target = store.measurement(task, cell.image, cell.image_sha256)
            if not whole_png(target):
                _write(target, png_bytes(setup.measure([picture])[0]))
            truth = store.truth(cell.image, cell.image_sha256)
            if not whole_png(truth):
                _write(truth, png_bytes(picture.tensor))
            hole = setup.pair(picture.tensor[None], [picture]).hole
            features = store.truth(
                cell.image, cell.image_sha256, ".hole.safetensors" if hole is not None else ".safetensors"
            )
            if cell.features and not whole_features(features, cell.features):
                found = feature_bytes(picture.tensor[None], hole, cell.features, config.inception)
                _write(features, found)


def _write(path: Path, data: bytes) -> None:
    with atomic(path) as file:
        file.write(data)


def _check_pictures(cells: Sequence[Cell], pictures: Mapping[str, Truth]) -> None:
    missing = {c.image: c for c in cells if any(sha not in pictures for sha in (c.image_sha256, *c.company))}
    if missing:
        raise BadInput(
            f"The plan names {len(missing)} images that the data no longer holds, such as "
            f"{next(iter(missing))}. Plan again."
        )


def _sweep(folder: Path) -> None:
    """Remove what a killed process left half-written long ago."""
    for path in folder.glob("cells/*/*/.*.tmp"):
        try:
            if time.time() - path.stat().st_mtime > STALE:
                path.unlink(missing_ok=True)
        except FileNotFoundError:  # another shard was faster, or has just finished it
            continue
