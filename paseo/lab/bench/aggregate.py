"""From rows to tables: means over images, bootstrap intervals, paired differences, distances between sets of
images, cost.

Seeds of one image are averaged first, so the image is the unit of every interval. Resampling uses a fixed
seed: the same rows give the same digits. Costs are medians over the cells after the first of each task and
method in a process (the warm-up).
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from paseo.errors import BadInput
from paseo.files import read_json
from paseo.lab.bench.cells import Cell, CellStore, read_plan
from paseo.lab.bench.config import BenchConfig
from paseo.lab.bench.features import read_features
from paseo.lab.bench.plan import config_of
from paseo.lab.bench.scores import METRICS
from paseo.metrics import kernel_distance

RESAMPLES = 2000
COSTS = ("seconds", "cpu_seconds", "peak_bytes", "extra_bytes")
LEAST_FOR_DISTANCE = 3  # images, for an unbiased estimate with an error


def clock(device: str) -> str:
    """Which time counts on a device."""
    return "cpu_seconds" if device == "cpu" else "seconds"


@dataclass(frozen=True)
class Bootstrapped:
    """A mean and its 95 % bootstrap interval over images."""

    mean: float
    low: float
    high: float

    def to_json(self) -> dict[str, float]:
        return {"mean": round(self.mean, 6), "low": round(self.low, 6), "high": round(self.high, 6)}


@dataclass(frozen=True)
class Summary:
    """One method on one task."""

    task: str
    method: str
    planned: int  # cells
    done: int
    failed: int
    images: int
    nfe: int
    values: Mapping[str, Mapping[str, float]] = field(
        repr=False, default_factory=dict
    )  # metric → image → mean over seeds
    metrics: Mapping[str, Bootstrapped] = field(default_factory=dict)
    against: Mapping[str, Bootstrapped] = field(
        default_factory=dict
    )  # paired differences to the reference method
    paired: int = 0  # images behind them
    distances: Mapping[str, tuple[float, float]] = field(
        default_factory=dict
    )  # name → (value, standard error)
    cost: Mapping[str, float] = field(
        default_factory=dict
    )  # seconds by the wall and by the processor, peak and extra bytes

    def seconds(self, device: str) -> float | None:
        """Per image: the processor's time on a CPU, which others on the machine do not slow down; elsewhere
        the wall's.
        """
        return self.cost.get(clock(device))

    def to_json(self) -> dict[str, Any]:
        """Without what no two runs share."""
        return {
            "planned": self.planned,
            "done": self.done,
            "failed": self.failed,
            "images": self.images,
            "nfe": self.nfe,
            "metrics": {name: interval.to_json() for name, interval in self.metrics.items()},
            "against_reference": {
                "images": self.paired,
                **{name: interval.to_json() for name, interval in self.against.items()},
            },
            "distances": {
                name: {"value": round(v, 9), "standard_error": round(e, 9)}
                for name, (v, e) in self.distances.items()
            },
        }


@dataclass(frozen=True)
class Bench:
    """A run, summed up."""

    config: BenchConfig
    cells: tuple[Cell, ...]
    rows: tuple[dict[str, Any], ...]
    summaries: dict[tuple[str, str], Summary]
    unsupported: dict[str, dict[str, str]]
    failures: tuple[dict[str, Any], ...]
    conditions: dict[str, Any]

    def of(self, task: str) -> list[Summary]:
        """The methods of a task that have results, in the order of the configuration."""
        found = (self.summaries.get((task, m.label)) for m in self.config.methods)
        return [s for s in found if s is not None and s.done]

    def on_common_images(self, task: str, name: str) -> list[Summary]:
        """`of`, with one metric over the images that all of them have."""
        found = [s for s in self.of(task) if name in s.values]
        common = sorted(set.intersection(*(set(s.values[name]) for s in found))) if found else []
        if not common:
            return []
        return [
            replace(s, images=len(common), metrics={name: bootstrap([s.values[name][i] for i in common])})
            for s in found
        ]

    def metric_names(self, task: str) -> list[str]:
        return [name for name in METRICS if any(name in s.metrics for s in self.of(task))]

    @property
    def complete(self) -> bool:
        return len(self.rows) == len(self.cells)


def load(folder: Path) -> Bench:
    """Everything that is there of a run's current plan."""
    config, store, cells = config_of(folder), CellStore(folder), read_plan(folder)
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.task, cell.method), []).append(cell)
    rows: list[dict[str, Any]] = []
    failures: list[dict[str, Any]] = []
    summaries: dict[tuple[str, str], Summary] = {}
    truths = _Truths(store)
    for key, group in groups.items():
        found = [(cell, row) for cell in group if (row := store.row(cell)) is not None]
        wrong = [
            {"cell": cell.stem, **failure} for cell in group if (failure := store.failed(cell)) is not None
        ]
        summaries[key] = _summary(key, len(group), len(wrong), found, store, truths)
        rows += [row for _, row in found]
        failures += wrong
    for (task, method), s in summaries.items():
        reference = summaries.get((task, config.reference))
        if reference is not None and method != config.reference:
            summaries[task, method] = paired(s, reference)
    unsupported = _tables(folder / "unsupported.json", "Plan again.")
    conditions = _optional(folder / "conditions.json", "Delete it, and let `paseo bench run` write it.")
    return Bench(config, tuple(cells), tuple(rows), summaries, unsupported, tuple(failures), conditions)


def bootstrap(values: Sequence[float]) -> Bootstrapped:
    """The mean and its interval."""
    data = np.asarray(values, dtype=np.float64)
    picks = np.random.default_rng(0).integers(0, len(data), (RESAMPLES, len(data)))
    low, high = np.quantile(data[picks].mean(axis=1), [0.025, 0.975])
    return Bootstrapped(float(data.mean()), float(low), float(high))


class _Truths:
    """Features of the truths, read once."""

    def __init__(self, store: CellStore) -> None:
        self.store = store
        self.read: dict[tuple[str, bool], dict[str, Tensor]] = {}

    def __call__(self, cell: Cell, hole: bool) -> dict[str, Tensor]:
        key = (cell.image_sha256, hole)
        if key not in self.read:
            suffix = ".hole.safetensors" if hole else ".safetensors"
            self.read[key] = read_features(self.store.truth(cell.image, cell.image_sha256, suffix))
        return self.read[key]


def _summary(
    key: tuple[str, str],
    planned: int,
    failed: int,
    found: Sequence[tuple[Cell, dict[str, Any]]],
    store: CellStore,
    truths: _Truths,
) -> Summary:
    values: dict[str, dict[str, list[float]]] = {}
    for cell, row in found:
        for name, value in row["metrics"].items():
            values.setdefault(name, {}).setdefault(cell.image_sha256, []).append(value)
    means = {
        name: {image: statistics.fmean(v) for image, v in images.items()} for name, images in values.items()
    }
    return Summary(
        *key,
        planned,
        len(found),
        failed,
        images=len({cell.image_sha256 for cell, _ in found}),
        nfe=max((row["nfe"] for _, row in found), default=0),
        values=means,
        metrics={name: bootstrap(list(images.values())) for name, images in means.items()},
        distances=_distances([cell for cell, _ in found], store, truths),
        cost=_cost([store.cost(cell) for cell, _ in found]),
    )


def paired(s: Summary, reference: Summary) -> Summary:
    """The same with its differences to the reference, image by image."""
    differences: dict[str, Bootstrapped] = {}
    common: set[str] = set()
    for name, images in s.values.items():
        common = set(images) & set(reference.values.get(name, {}))
        if common:
            differences[name] = bootstrap([images[i] - reference.values[name][i] for i in sorted(common)])
    return replace(s, against=differences, paired=len(common))


def _distances(cells: Sequence[Cell], store: CellStore, truths: _Truths) -> dict[str, tuple[float, float]]:
    """Between the restorations (first seed) and their truths, for every stored kind of features."""
    first = [cell for cell in cells if cell.seed == min(c.seed for c in cells)]
    pairs: dict[str, list[tuple[Tensor, Tensor]]] = {}
    for cell in first:
        drawn = read_features(store.path(cell, ".safetensors"))
        true = truths(cell, any(name.endswith("_hole") for name in drawn))
        for name in drawn.keys() & true.keys():
            pairs.setdefault(name, []).append((drawn[name], true[name]))
    found: dict[str, tuple[float, float]] = {}
    for name in sorted(pairs):
        if len(pairs[name]) < LEAST_FOR_DISTANCE:
            continue
        a, b = (torch.stack(side) for side in zip(*pairs[name], strict=True))
        distance = kernel_distance(a, b)
        found[f"kernel_{name}"] = (distance.value, distance.standard_error)
        if name.startswith("inception"):
            found[name.replace("inception", "fid")] = (frechet(a, b), 0.0)
    return found


def frechet(a: Tensor, b: Tensor) -> float:
    """FID of two sets of features: ‖m − m'‖² + tr(S + S' − 2 (S S')^½), the root's trace from the eigenvalues
    of S S'.
    """
    a, b = a.double(), b.double()
    sa, sb = torch.cov(a.mT), torch.cov(b.mT)
    roots = torch.linalg.eigvals(sa @ sb).real.clamp_min(0).sqrt()
    return float((a.mean(0) - b.mean(0)).square().sum() + sa.trace() + sb.trace() - 2 * roots.sum())


def _cost(costs: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    known = [c for c in costs if c.keys() >= set(COSTS)]
    warm = [c for c in known if c.get("warm")] or known
    return {name: statistics.median(c[name] for c in warm) for name in COSTS} if warm else {}


def _optional(path: Path, way_out: str) -> dict[str, Any]:
    found = read_json(path) if path.is_file() else {}
    if not isinstance(found, dict) or not isinstance(found.get("versions", {}), dict):
        raise BadInput(f"{path} is not what a benchmark writes. {way_out}")
    return found


def _tables(path: Path, way_out: str) -> dict[str, dict[str, str]]:
    """task → method → reason."""
    found = _optional(path, way_out)
    if not all(isinstance(inner, dict) for inner in found.values()):
        raise BadInput(f"{path} is not what a benchmark writes. {way_out}")
    return {task: {method: str(reason) for method, reason in inner.items()} for task, inner in found.items()}
