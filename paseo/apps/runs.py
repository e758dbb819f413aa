"""One `paseo restore` from the request to the summary: which pictures, on which engine, with which result."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import typer

from paseo.apps.console import say, shown, told_json
from paseo.apps.far import count, far_jobs, is_far
from paseo.apps.folder import Folder
from paseo.apps.inputs import Job, check_writable, collect, named_file
from paseo.apps.job import Restoration
from paseo.apps.loop import Outcome
from paseo.apps.sinks import Sink, sink_of
from paseo.apps.warn import before, plain
from paseo.errors import BadInput, DiskFull
from paseo.files import write_text
from paseo.lab.bench.run import Shard

ENGINES = ("local", "ray")


@dataclass(frozen=True, eq=False)
class Wanted:
    """A restoration and the pictures it is for."""

    work: Restoration
    jobs: Iterable[Job]
    out: str
    total: int | None = None  # not known of a stream
    sink: Sink | None = None
    shard: Shard = field(default_factory=Shard)
    skip: bool = False
    fill: bool = False  # a replay

    @classmethod
    def of(cls, work: Restoration, inputs: list[str], out: str, shard: Shard, skip: bool) -> Wanted:
        """Local files and folders as a list, whatever else as a stream; this shard's part of them."""
        if not (is_far(out) or any(is_far(given) for given in inputs)):
            jobs = collect([Path(given) for given in inputs], Path(out))[shard.index :: shard.count]
            check_writable(Path(out).parent if named_file(Path(out)) else Path(out))
            return cls(work, jobs, out, len(jobs), None, shard, skip)
        if not inputs:
            raise BadInput("No input: give one or more image files, folders, lists or tars.")
        sink = sink_of(out, shard.index)
        if sink is None:
            check_writable(Path(out))
        total = count(inputs)
        mine = None if total is None else len(range(shard.index, total, shard.count))
        stream = far_jobs(inputs, out, sink, (shard.index, shard.count))
        return cls(work, stream, out, mine, sink, shard, skip or sink is not None)

    def failures(self, outcome: Outcome) -> None:
        """`failures.jsonl` beside the results: one line for every picture that failed, none when none did."""
        number = f"-{self.shard.index}-of-{self.shard.count}" if self.shard.count > 1 else ""
        name = f"failures{number}.jsonl"
        lines = [told_json(r) for r in outcome.results if r["status"] == "failed"]
        text = "".join(line + "\n" for line in lines)
        if self.sink is not None:
            if lines:
                self.sink.note(name, text.encode())
            return
        if named_file(Path(self.out)):
            return
        path = Path(self.out) / name
        if not lines:
            path.unlink(missing_ok=True)
            return
        try:
            write_text(path, text)
            say(f"what failed, and why: {path}")
        except DiskFull:  # it was said of the first picture
            return


def run(wanted: Wanted, engine: str, address: str | None, *, keep: bool, quiet: bool) -> Outcome:
    """All pictures, however many fail. `keep` holds every result for JSON; `quiet` leaves stdout to it."""
    if engine not in ENGINES:
        raise BadInput(f"--engine {engine} is not one of {', '.join(ENGINES)}.")
    with plain():
        if engine == "ray":
            from paseo.apps.ray_folder import run_on_ray

            outcome = run_on_ray(wanted, address, keep=keep, quiet=quiet)
        else:
            outcome = _run_here(wanted, keep, quiet)
    wanted.failures(outcome)
    return outcome


def _run_here(wanted: Wanted, keep: bool, quiet: bool) -> Outcome:
    work = wanted.work
    work.load()  # missing weights are not the fault of a file
    for reason in work.plan.recipe.why:
        say(reason)
    for warning in before(work):
        say(f"note: {warning}")
    folder = Folder(
        work,
        skip=wanted.skip,
        notice=(lambda result: None) if quiet else print_outputs,
        keep=keep or wanted.fill,
        fill=wanted.fill,
        finish=wanted.sink.close if wanted.sink is not None else lambda: None,
    )
    return folder(wanted.jobs, wanted.total)


def print_outputs(result: dict[str, object]) -> None:
    """The files of a picture, on stdout, as soon as they are there."""
    outputs = result.get("outputs")
    for path in outputs if isinstance(outputs, list) else []:
        typer.echo(shown(path))
