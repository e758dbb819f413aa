"""The cells of a plan on a Ray cluster: units are sent to wherever there is room, and results come back as
bytes.

The driver alone writes, so workers need no shared folder; they need the package and the model. A worker that
is lost (killed, out of memory, its machine gone) costs the unit it was computing, which is sent again; a unit
that loses its worker every time is recorded as failed and the others go on.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

from paseo.errors import BadInput
from paseo.lab.bench.cells import Cell
from paseo.lab.bench.compute import CellResult, worker_for
from paseo.lab.bench.config import BenchConfig
from paseo.lab.bench.pictures import Truth

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class RayOptions:
    """How a cluster is used."""

    address: str | None = None  # of a running cluster ("auto" finds one); None starts one here
    workers: int | None = None  # CPUs of a cluster that is started here; None: all
    cpus: float = 1.0  # that one unit takes
    gpus: float = 0.0  # that one unit takes; 0.25 lets four share one
    retries: int = 3  # of a unit whose worker is lost


def run_on_ray(
    config: BenchConfig,
    units: Sequence[Sequence[Cell]],
    pictures: Mapping[str, Truth],
    finish: Callable[[Sequence[Cell], Sequence[CellResult]], None],
    options: RayOptions | None = None,
) -> None:
    """Compute all units; `finish` is called here, in the order in which they are ready."""
    try:
        ray: ModuleType = import_module("ray")
    except ImportError:
        raise BadInput(
            "--engine ray needs Ray, which is not installed. Run: pip install 'ray>=2.40'"
        ) from None
    o = options or RayOptions()
    started = not ray.is_initialized()
    with stdout_kept_clean():
        if started:
            if o.address is None:
                os.environ |= {k: v for k, v in credentials().items() if k not in os.environ}
            ray.init(**init_options(o))
        try:
            _schedule(ray, config, units, pictures, finish, o)
        finally:
            if started:
                ray.shutdown()


def init_options(o: RayOptions) -> dict[str, Any]:
    """For `ray.init`: a cluster that is started here listens on this machine alone."""
    quiet = {"include_dashboard": False, "log_to_driver": False}
    if o.address is not None:
        return {"address": o.address, "log_to_driver": False}
    return {"num_cpus": o.workers, "_node_ip_address": LOOPBACK, "dashboard_host": LOOPBACK, **quiet}


def credentials() -> dict[str, str]:
    """A cluster that is started here takes orders from those who know its token, which is new each time."""
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}


@contextmanager
def stdout_kept_clean() -> Generator[None]:
    """Ray's processes tell of lost workers on stdout, where `--json -` puts its result: while they run, it
    is stderr.
    """
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def _schedule(
    ray: ModuleType,
    config: BenchConfig,
    units: Iterable[Sequence[Cell]],
    pictures: Mapping[str, Truth],
    finish: Callable[[Sequence[Cell], Sequence[CellResult]], object],
    o: RayOptions,
) -> None:
    compute = ray.remote(num_cpus=o.cpus, num_gpus=o.gpus, max_retries=o.retries)(compute_unit)
    resources = ray.cluster_resources()
    if o.gpus > resources.get("GPU", 0.0):
        raise BadInput(
            f"Each unit is to take {o.gpus:g} GPUs, and the cluster has {resources.get('GPU', 0.0):g}."
        )
    room = 2 * max(1, int(resources.get("CPU", 1) / max(o.cpus, 0.01)))  # enough waiting that no worker idles
    sent, waiting = ray.put(config.model_dump_json()), iter(units)
    running: dict[object, Sequence[Cell]] = {}
    while True:
        while len(running) < room and (unit := next(waiting, None)) is not None:
            running[compute.remote(sent, list(unit), [pictures[sha] for sha in unit[0].company])] = unit
        if not running:
            return
        (ready,), _ = ray.wait(list(running), num_returns=1)
        unit = running.pop(ready)
        finish(unit, _collect(ray, ready, unit))


def _collect(ray: ModuleType, ready: object, unit: Sequence[Cell]) -> Sequence[CellResult]:
    try:
        return ray.get(ready)
    except ray.exceptions.RayError as error:  # the worker was lost more often than it is worth
        told = " ".join(str(error).split())[:2000]
        return [
            CellResult(
                failure={"key": c.key, "error": type(error).__name__, "message": told, "traceback": ""}
            )
            for c in unit
        ]


def compute_unit(config: str, unit: list[Cell], pictures: list[Truth]) -> list[CellResult]:
    """In a Ray worker, which keeps its model between units."""
    return worker_for(config)(unit, pictures)
