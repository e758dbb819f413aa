"""The cells of a plan on a Ray cluster: units are sent to wherever there is room, and results come back as
bytes.

The driver alone writes, so workers need no shared folder; they need the package and the model. A worker that
is lost (killed, out of memory, its machine gone) costs the unit it was computing, which is sent again; a unit
that loses its worker every time is recorded as failed and the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType

from paseo.cluster import RayOptions, cluster
from paseo.errors import BadInput
from paseo.lab.bench.cells import Cell
from paseo.lab.bench.compute import CellResult, worker_for
from paseo.lab.bench.config import BenchConfig
from paseo.lab.bench.pictures import Truth


def run_on_ray(
    config: BenchConfig,
    units: Sequence[Sequence[Cell]],
    pictures: Mapping[str, Truth],
    finish: Callable[[Sequence[Cell], Sequence[CellResult]], None],
    options: RayOptions | None = None,
) -> None:
    """Compute all units; `finish` is called here, in the order in which they are ready."""
    o = options or RayOptions()
    with cluster(o) as ray:
        _schedule(ray, config, units, pictures, finish, o)


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
