"""What every method costs per step, with the same networks on the same machine: seconds, peak memory, and the
graph it keeps.

    report = measure_methods(prior, codec, operator, side=512)
    print(report.text())

Inpainting is the one task that all methods can express. Cost per step is constant, so a few steps are enough;
the first run of everything is discarded. Two memories are given: `peak_bytes`, the most that torch allocated
at one time above where it began, and `graph_bytes`, the most that autograd kept for a backward pass at one
time (tensor by tensor, the networks' weights left out). ReSample is measured without its rare optimisations,
which take hundreds of decoder passes each.
"""

from __future__ import annotations

import json
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from paseo.base import BindsNoise, Codec, Counted, FitsSize, HasNetwork, LatentOperator, Prior, Problem
from paseo.degrade import task as task_named
from paseo.lab.text import Value, columns
from paseo.metrics.cost import Cost
from paseo.noise import Noise
from paseo.problem import pose
from paseo.samplers import METHODS
from paseo.units import to_signed, to_unit

MIB = 2**20


@dataclass(frozen=True)
class MethodCost:
    """One method: seconds are of one step, bytes are peaks of a whole run."""

    method: str
    differentiates: str
    steps: int  # walked
    nfe: int  # counted
    seconds: float
    cpu_seconds: float  # processor time of this process, which other load does not change
    peak_bytes: int
    graph_bytes: int


@dataclass(frozen=True)
class MethodCosts:
    side: int
    device: str
    threads: int
    machine: str
    versions: dict[str, str]
    rows: tuple[MethodCost, ...]

    def as_json(self) -> dict[str, object]:
        return asdict(self)

    def text(self) -> str:
        header = ("method", "calls/step", "s/step", "CPU s/step", "peak MiB", "graph MiB", "differentiates")
        lines: list[list[Value]] = [
            [
                *(r.method, r.nfe / r.steps, r.seconds, r.cpu_seconds),
                *(r.peak_bytes / MIB, r.graph_bytes / MIB, r.differentiates),
            ]
            for r in self.rows
        ]
        return f"{self.side}×{self.side} on {self.device} ({self.threads} threads)\n" + columns(header, lines)


def measure_methods(
    prior: Prior,
    codec: Codec,
    operator: LatentOperator | BindsNoise,
    *,
    side: int,
    steps: int = 4,
    methods: Sequence[str] = tuple(METHODS),
    settings: dict[str, dict[str, Any]] | None = None,
    variants: dict[str, tuple[str, dict[str, Any]]] | None = None,
    device: torch.device | str = "cpu",
    say: Callable[[str], None] = lambda text: None,
) -> MethodCosts:
    """Every method over a few steps of inpainting a random image; `settings` by method replace its defaults,
    and `variants` are further rows: label → method and settings.
    """
    problem = inpainting(prior, codec, operator, side, torch.device(device))
    rows = []
    wanted = {name: (name, (settings or {}).get(name, {})) for name in methods} | (variants or {})
    for label, (name, chosen) in wanted.items():
        say(f"Measuring {label}")
        row = measure_method(name, prior, problem, steps, chosen, torch.device(device))
        rows.append(replace(row, method=label))
    versions = {"torch": torch.__version__, "python": platform.python_version()}
    return MethodCosts(
        side,
        str(device),
        torch.get_num_threads(),
        platform.processor() or platform.machine(),
        versions,
        tuple(rows),
    )


@torch.no_grad()
def inpainting(
    prior: Prior, codec: Codec, operator: LatentOperator | BindsNoise, side: int, device: torch.device
) -> Problem:
    """A random image without its centre."""
    task = task_named("inpaint")
    x = torch.rand(1, 3, side, side, generator=torch.Generator().manual_seed(0)).to(device)
    return pose(
        to_unit(task.degradation(to_signed(x))),
        prior=prior,
        codec=codec,
        operator=operator,
        degradation=task.degradation,
        sigma_y=task.sigma_y,
    )


def measure_method(
    name: str, prior: Prior, problem: Problem, steps: int, settings: dict[str, object], device: torch.device
) -> MethodCost:
    """Warm up, then one timed run, then one that counts what autograd keeps."""
    rare = {"every": 10**6} if name == "resample" else {}
    sampler = replace(METHODS[name].default, **{"steps": steps + 2, **rare, **settings})
    sampler(prior, problem, Noise(0))
    walked: list[int] = []
    counted = Counted(prior)
    begun = time.process_time()
    with Cost(device, nfe=counted) as cost:
        sampler(counted, problem, Noise(0), lambda step: walked.append(step.index))
    busy = time.process_time() - begun
    with KeptForBackward(networks(prior, problem)) as kept:
        peak = (
            allocated_peak(lambda: sampler(prior, problem, Noise(0)))
            if device.type == "cpu"
            else cost.extra_bytes
        )
    n = len(walked)
    return MethodCost(
        name, METHODS[name].differentiates, n, cost.nfe or 0, cost.seconds / n, busy / n, peak, kept.peak
    )


def allocated_peak(run: Callable[[], object]) -> int:
    """Most bytes that torch held at one time on the CPU, above those before, from the profiler's allocation
    record.
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # it announces each start and stop otherwise
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profile:
        run()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(path))
        events = [e for e in json.loads(path.read_text())["traceEvents"] if e.get("name") == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda e: e["ts"]):
        held += event["args"]["Bytes"]
        peak = max(peak, held)
    return peak


def networks(prior: Prior, problem: Problem) -> list[nn.Module]:
    """The modules whose weights are there anyway."""
    found: list[object] = [prior, *vars(prior).values(), problem.codec]
    if isinstance(problem.codec, FitsSize):
        found += [problem.codec.codec, *vars(problem.codec.codec).values()]
    if isinstance(problem.operator, HasNetwork):
        found.append(problem.operator.net)
    return [m for m in found if isinstance(m, nn.Module)]


class KeptForBackward:
    """The most bytes that autograd held at one time, each storage counted once; `modules` are left out."""

    def __init__(self, modules: Iterable[nn.Module] = ()) -> None:
        parts = [t for m in modules for t in (*m.parameters(), *m.buffers())]
        self.ignored = {t.untyped_storage().data_ptr() for t in parts}
        self.held: dict[int, int] = {}  # storage → how many saved tensors live in it
        self.now = self.peak = 0

    def __enter__(self) -> KeptForBackward:
        self._hooks = torch.autograd.graph.saved_tensors_hooks(
            lambda t: SavedTensor(t, self), lambda kept: kept.tensor
        )
        self._hooks.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._hooks.__exit__(*error)

    def take(self, storage: torch.UntypedStorage) -> None:
        key = storage.data_ptr()
        if key in self.ignored:
            return
        self.held[key] = self.held.get(key, 0) + 1
        if self.held[key] == 1:
            self.now += storage.nbytes()
            self.peak = max(self.peak, self.now)

    def drop(self, storage: torch.UntypedStorage) -> None:
        key = storage.data_ptr()
        if key not in self.held:
            return
        self.held[key] -= 1
        if self.held[key] == 0:
            del self.held[key]
            self.now -= storage.nbytes()


class SavedTensor:
    """A saved tensor that reports when it is freed."""

    def __init__(self, tensor: Tensor, meter: KeptForBackward) -> None:
        self.tensor, self.meter = tensor, meter
        meter.take(tensor.untyped_storage())

    def __del__(self) -> None:
        self.meter.drop(self.tensor.untyped_storage())
