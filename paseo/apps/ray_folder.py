"""`paseo restore --engine ray`: the same pictures on a Ray cluster, by Ray Data.

The driver streams the list in stretches; workers hold the model, read, compute and write by themselves, so
that only a line per picture travels. Input and output must be reachable from every worker: a shared folder or
an object store. A worker that is lost costs the unit it was computing, which is sent again.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from paseo.apps.console import say
from paseo.apps.far import FarJob
from paseo.apps.folder import Folder
from paseo.apps.inputs import Job
from paseo.apps.job import Plan, Restoration
from paseo.apps.loop import Outcome
from paseo.apps.progress import Progress
from paseo.apps.sinks import sink_of
from paseo.cluster import RayOptions, cluster
from paseo.errors import BadInput

if TYPE_CHECKING:
    from paseo.apps.runs import Wanted

UNIT = 16  # pictures that a worker takes at a time, and that are lost with it
STRETCH = 512  # units that Ray Data is given at a time: the list itself is never held


class FolderWorker:
    """In a process of the cluster: a model, and unit after unit."""

    def __init__(self, plan: Plan, out: str, skip: bool) -> None:
        self.work, self.skip = Restoration(plan), skip
        self.sink = sink_of(out, secrets.randbelow(10**9))  # parts of its own: nobody waits for another
        self.work.load()

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[Any]]:
        return {"result": [r for unit in batch["unit"] for r in self.restored(list(unit))]}

    def restored(self, unit: list[Job]) -> list[dict[str, object]]:
        sink = self.sink
        jobs = [replace(job, sink=sink) if isinstance(job, FarJob) else job for job in unit]
        folder = Folder(self.work, skip=self.skip, finish=sink.close if sink is not None else lambda: None)
        return folder(jobs, None).results


def run_on_ray(wanted: Wanted, address: str | None, *, keep: bool, quiet: bool) -> Outcome:
    """All pictures; results come back as they are ready."""
    for reason in wanted.work.plan.recipe.why:
        say(reason)
    outcome = Outcome(keep=keep)
    with cluster(RayOptions(address=address)) as ray:
        try:
            data: Any = import_module("ray.data")
        except ImportError:
            raise BadInput("--engine ray needs Ray Data: pip install 'ray[data]>=2.52'.") from None
        data.DataContext.get_current().enable_progress_bars = False
        _stream(ray, data, wanted, outcome, quiet)
    return outcome


def _stream(ray: ModuleType, data: ModuleType, wanted: Wanted, outcome: Outcome, quiet: bool) -> None:
    from paseo.apps.runs import print_outputs

    resources = ray.cluster_resources()
    gpus = 1 if resources.get("GPU", 0) else 0
    workers = max(1, int(resources.get("GPU" if gpus else "CPU", 1)))
    waiting = units(wanted.jobs)
    with Progress(wanted.total, "restore") as progress:
        while stretch := list(itertools.islice(waiting, STRETCH)):
            rows = data.from_items([{"unit": unit} for unit in stretch]).map_batches(
                FolderWorker,
                fn_constructor_args=(wanted.work.plan, wanted.out, wanted.skip),
                batch_size=1,
                compute=data.ActorPoolStrategy(size=min(workers, len(stretch))),
                num_cpus=None if gpus else 1,
                num_gpus=gpus or None,
            )
            for row in rows.iter_rows():
                result = row["result"]
                outcome.add(result)
                progress.clear()
                if result["status"] == "failed":
                    say(f"paseo: {result['input']}: {result['error']}")
                elif not quiet:
                    print_outputs(result)
                progress.done(skipped=result["status"] == "skipped")


def units(jobs: Iterable[Job]) -> Iterator[list[Job]]:
    """Jobs in the portions that travel; an open sink stays here."""
    waiting = (_travelling(job) for job in jobs)
    while unit := list(itertools.islice(waiting, UNIT)):
        yield unit


def _travelling(job: Job) -> Job:
    """A job that can be sent: without open files, and with absolute names."""
    if isinstance(job, FarJob):
        near = job.sink is None and job.url and "://" not in job.url
        folder = job.folder.absolute() if job.sink is None else job.folder
        return replace(job, sink=None, folder=folder, url=str(Path(job.url).absolute()) if near else job.url)
    return replace(job, source=job.source.absolute(), folder=job.folder.absolute())
