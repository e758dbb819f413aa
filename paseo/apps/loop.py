"""Image by image: a loop that goes on when one of them fails, and says what happened to each."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from paseo.apps.console import progress, say
from paseo.apps.inputs import Job
from paseo.errors import BadInput, Cancelled, DiskFull, PaseoError
from paseo.files import NO_ROOM

OUTPUT_SUFFIX = r"(_s\d+|_mean|_std|_measurement)?\.(png|jpe?g|webp|tiff?)"


@dataclass
class Outcome:
    """The result of a run over files; JSON by `as_json`, exit code by `code`."""

    results: list[dict[str, Any]] = field(default_factory=list)
    stopped: bool = False  # nothing more could be written: the rest is left
    keep: bool = True  # all results; else failures alone, so that a million pictures take no memory
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, result: dict[str, Any]) -> None:
        self.counts[result["status"]] += 1
        if self.keep or result["status"] == "failed":
            self.results.append(result)

    def count(self, status: str) -> int:
        return self.counts[status]

    def as_json(self) -> dict[str, object]:
        summary = {status: self.count(status) for status in ("done", "skipped", "failed")}
        summary |= {"left": self.count("left")} if self.stopped else {}
        return {"schema_version": 1, "results": self.results, "summary": summary}

    def text(self, verb: str) -> str:
        parts = [f"{self.count('done')} {verb}"]
        parts += [f"{self.count(s)} {s}" for s in ("skipped", "failed", "left") if self.count(s)]
        return ", ".join(parts)

    @property
    def code(self) -> int:
        if self.stopped:
            return 2
        return 1 if self.count("failed") else 0


def run_jobs(
    jobs: Sequence[Job],
    work: Callable[[Job, Any], dict[str, Any]],
    *,
    verb: str,
    done: Callable[[Job], bool] = lambda job: False,
) -> Outcome:
    """`work(job, bar)` for every job that is not `done`, in order. A job that fails is reported on stderr
    and the rest go on.
    """
    outcome, claimed, seen = Outcome(), dict[int, str](), 0
    sources = by_folder(jobs)
    with progress(len(jobs), verb, "file") as bar:
        for job in jobs:
            start = time.perf_counter()
            result: dict[str, Any] = {"input": str(job.source), "status": "done"}
            try:
                claim(job, claimed, sources)
                if done(job):
                    result["status"] = "skipped"
                else:
                    result |= work(job, bar)
                    result.setdefault("seconds", round(time.perf_counter() - start, 3))
            except Cancelled:
                raise
            except Exception as error:  # whatever one file leads to, the others are not to blame
                result |= {"status": "failed", "error": told(error)}
                bar.clear()
                say(f"paseo: {job.relative}: {result['error']}")
                outcome.stopped = isinstance(error, DiskFull) or (
                    isinstance(error, OSError) and error.errno in NO_ROOM
                )
            outcome.add(result)
            seen += 1
            bar.update()
            if outcome.stopped:
                break
    for job in jobs[seen:]:
        outcome.add({"input": str(job.source), "status": "left"})
    return outcome


def told(error: Exception) -> str:
    """An error in one line; those that are not ours with their kind, and lack of memory with what helps."""
    text = " ".join(str(error).split())
    if isinstance(error, MemoryError) and not isinstance(error, PaseoError):
        return f"There is not enough memory for this image ({text or 'MemoryError'}). Scale it down."
    if isinstance(error, PaseoError | OSError | ValueError) and text:
        return text
    return f"{type(error).__name__}: {text}".rstrip(": ")


def by_folder(jobs: Iterable[Job]) -> dict[str, list[str]]:
    """The inputs' full names, by the folders they lie in."""
    found: dict[str, list[str]] = {}
    for job in jobs:
        path = job.source.resolve()
        found.setdefault(str(path.parent), []).append(str(path))
    return found


def claim(job: Job, claimed: dict[int, str], sources: Mapping[str, Sequence[str]] | None = None) -> None:
    """No output may overwrite an input (its own, or one of `sources`), another job's output, or a JSON file
    that is not ours.

    `claimed` remembers hashes, not names: a million jobs take little memory.
    """
    target = (job.folder / job.stem).resolve()
    mark = hash(str(target))
    if other := claimed.get(mark):
        raise BadInput(
            f"{other} and {job.source.name} would both become {target.name}{job.ending}. Rename one or use "
            "two output folders."
        )
    claimed[mark] = job.source.name
    ours = re.compile(re.escape(str(target)) + OUTPUT_SUFFIX)
    beside = (sources or {}).get(str(target.parent), ())
    if job.beside_inputs and any(ours.fullmatch(source) for source in (str(job.source.resolve()), *beside)):
        raise BadInput(
            f"the output {job.path(job.ending)} would overwrite an input. Give another output folder with -o."
        )
    if "schema_version" not in (job.stored() or ("schema_version",)):
        raise BadInput(
            f"{job.sidecar} is there already and is no record of ours. Give another output folder with -o."
        )
