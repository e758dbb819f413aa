"""The cells of a plan on a Ray cluster: units are sent to wherever there is room, and results come back as
bytes.

The driver alone writes, so workers need no shared folder; they need the package and the model. A worker that
is lost (killed, out of memory, its machine gone) costs the unit it was computing, which is sent again; a unit
that loses its worker every time is recorded as failed and the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from paseo.cluster import RayOptions, cluster
from paseo.errors import BadInput
from paseo.lab.bench.cells import Cell
from paseo.lab.bench.compute import Result, worker_for
from paseo.lab.bench.config import BenchConfig
from paseo.lab.bench.pictures import Picture


def run_on_ray(
    config: BenchConfig,
    units: Sequence[Sequence[Cell]],
    pictures: Mapping[str, Picture],
    finish: Callable[[Sequence[Cell], Sequence[Result]], None],
    options: RayOptions | None = None,
) -> None:
    """Compute all units; `finish` is called here, in the order in which they are ready."""
    o = options or RayOptions()
    with cluster(o) as ray:
        _schedule(ray, config, units, pictures, finish, o)


def _schedule(ray: Any, config: BenchConfig, units: Any, pictures: Any, finish: Any, o: RayOptions) -> None:
    compute = ray.remote(num_cpus=o.cpus, num_gpus=o.gpus, max_retries=o.retries)(compute_unit)
    resources = ray.cluster_resources()
    if o.gpus > resources.get("GPU", 0.0):
        raise BadInput(
            f"Each unit is to take {o.gpus:g} GPUs, and the cluster has {resources.get('GPU', 0.0):g}."
        )
    room = 2 * max(1, int(resources.get("CPU", 1) / max(o.cpus, 0.01)))  # enough waiting that no worker idles
    sent, waiting = ray.put(config.model_dump_json()), iter(units)
    running: dict[Any, Sequence[Cell]] = {}
    while True:
        while len(running) < room and (unit := next(waiting, None)) is not None:
            running[compute.remote(sent, list(unit), [pictures[sha] for sha in unit[0].company])] = unit
        if not running:
            return
        (ready,), _ = ray.wait(list(running), num_returns=1)
        unit = running.pop(ready)
        finish(unit, _collect(ray, ready, unit))


def _collect(ray: Any, ready: Any, unit: Sequence[Cell]) -> Sequence[Result]:
    try:
        return ray.get(ready)
    except ray.exceptions.RayError as error:  # the worker was lost more often than it is worth
        told = " ".join(str(error).split())[:2000]
        return [
            Result(failure={"key": c.key, "error": type(error).__name__, "message": told, "traceback": ""})
            for c in unit
        ]


def compute_unit(config: str, unit: list[Cell], pictures: list[Picture]) -> list[Result]:
    """In a Ray worker, which keeps its model between units."""
    return worker_for(config)(unit, pictures)
