"""What a worker does with one unit of a plan: restore, score, and hand back the bytes of every file. It
writes nothing itself.

The same function runs in one process, in shards, and on a Ray cluster, so results cannot depend on the
engine.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import io
import json
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import torch
from torch import Tensor

from paseo.errors import BadInput
from paseo.hub.device import pick_device
from paseo.images import to_pil
from paseo.lab.bench.cells import Cell
from paseo.lab.bench.config import BenchConfig, parse_config
from paseo.lab.bench.features import feature_bytes
from paseo.lab.bench.pictures import Truth
from paseo.lab.bench.plan import setup_of
from paseo.lab.bench.scores import score
from paseo.lab.bench.setup import Setup
from paseo.metrics.cost import Cost
from paseo.recipe import canonical
from paseo.record import sampler_from_record
from paseo.trust import vouch_for_words

HIGHEST_PSNR = 100.0  # of equal images, which JSON cannot call infinite


@dataclass(frozen=True)
class CellResult:
    """Either the files of a finished cell, suffix → bytes, or what went wrong."""

    files: dict[str, bytes] = field(default_factory=dict)
    failure: dict[str, object] | None = None


@dataclass
class BenchWorker:
    """A process that computes units; models and operators are loaded once, and the first unit of each kind is
    a warm-up.
    """

    config: BenchConfig
    warm: set[tuple[str, str]] = field(default_factory=set)

    def __post_init__(self) -> None:
        torch.set_num_threads(self.config.threads)
        self.setups: dict[str, Setup] = {}

    def setup(self, cell: Cell) -> Setup:
        """The model with the cell's prompt and guidance, its task, and the operator that goes with the
        method's settings.
        """
        key = canonical({"task": cell.task, "method": cell.method, "options": cell.options})
        if key not in self.setups:
            spec = next((m for m in self.config.methods if m.label == cell.method), None)
            self.setups[key] = setup_of(self.config, cell.task, spec, options=cell.options)
        return self.setups[key]

    def __call__(self, unit: Sequence[Cell], pictures: Sequence[Truth]) -> list[CellResult]:
        """One result per cell. An error is a result as well: the rest of the plan goes on."""
        try:
            return self._compute(unit, pictures)
        except Exception as error:  # whatever a method, a metric or the machine raises costs this unit only
            return [CellResult(failure=_failure(cell, error)) for cell in unit]

    def _compute(self, unit: Sequence[Cell], pictures: Sequence[Truth]) -> list[CellResult]:
        first = unit[0]
        setup = self.setup(first)
        if setup.hashes != first.hashes:
            raise BadInput("The model's files have changed since the plan was made. Plan again.")
        if not [p.sha256 for p in pictures] == [cell.image_sha256 for cell in unit] == list(first.company):
            raise BadInput("The images are not those that the plan puts together. Plan again.")
        sampler = sampler_from_record(first.sampler, samplers())
        _trim()
        cpu = time.process_time()
        with Cost(pick_device(self.config.device)) as cost:
            restored = setup.draw(sampler, pictures, first.seed)
        kind = (first.task, first.method)
        spent = {
            "seconds": cost.seconds / len(unit),
            "cpu_seconds": (time.process_time() - cpu) / len(unit),
            "peak_bytes": cost.peak_bytes,
            "extra_bytes": cost.extra_bytes,
            "warm": kind in self.warm,
            "together": len(unit),
        }
        self.warm.add(kind)
        triples = zip(unit, pictures, restored.images.cpu(), strict=True)
        return [
            self._result(setup, cell, picture, image, restored.nfe, spent) for cell, picture, image in triples
        ]

    def _result(
        self, setup: Setup, cell: Cell, picture: Truth, image: Tensor, nfe: int, spent: Mapping[str, object]
    ) -> CellResult:
        pair = setup.pair(image[None], [picture])
        metrics = {
            name: min(float(value[0]), HIGHEST_PSNR) for name, value in score(pair, cell.metrics).items()
        }
        row = {
            "key": cell.key,
            "task": cell.task,
            "method": cell.method,
            "image": cell.image,
            "seed": cell.seed,
            "sample_seed": picture.seed("sample", cell.seed),
            "measurement_seed": picture.seed("measurement", cell.noise_seed),
            "sigma_y": cell.sigma_y,
            "sampler": cell.sampler,
            "nfe": nfe,
            "metrics": {name: round(value, 6) for name, value in metrics.items()},
        }
        files = {".png": png_bytes(pair.image[0]), ".cost.json": json_bytes(spent)}
        if cell.features:
            files[".safetensors"] = feature_bytes(pair.image, pair.hole, cell.features, self.config.inception)
        return CellResult({**files, ".json": json_bytes(row)})  # the row last


@lru_cache(maxsize=1)
def worker_for(config: str) -> BenchWorker:
    """One worker per process, for engines that send the configuration along; what it names was allowed
    where it was sent.
    """
    values = json.loads(config)
    vouch_for_words(values["tasks"])
    return BenchWorker(parse_config(values))


def samplers() -> dict[str, type]:
    from paseo.samplers import METHODS

    return {m.cls.__name__: m.cls for m in METHODS.values()}


def png_bytes(x: Tensor) -> bytes:
    buffer = io.BytesIO()
    to_pil(x).save(buffer, format="PNG")
    return buffer.getvalue()


def json_bytes(value: object) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _failure(cell: Cell, error: BaseException) -> dict[str, object]:
    where = traceback.format_exception(error)
    return {
        "key": cell.key,
        "error": type(error).__name__,
        "message": " ".join(str(error).split()),
        "traceback": "".join(where)[-4000:],
    }


def _trim() -> None:
    """Give freed memory back, so that the peak of this unit is not that of the one before (glibc keeps it
    otherwise).
    """
    gc.collect()
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL("libc.so.6").malloc_trim(0)
