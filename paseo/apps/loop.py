"""Image by image: a loop that goes on when one of them fails, and says what happened to each."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paseo.apps.console import progress, say
from paseo.apps.inputs import Job
from paseo.errors import BadInput, Cancelled, DiskFull, PaseoError
from paseo.files import NO_ROOM


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


def claim(
    job: Job,
    claimed: dict[int, str],
    sources: Mapping[str, Sequence[str]] | None = None,
    suffixes: Sequence[str] = (".png",),
) -> None:
    """Every name that a job is going to write: none may be an input (its own, or one of `sources`), another
    job's output, a JSON file that is not ours, or a name that a file or a record cannot have.

    `claimed` remembers hashes, not names: a million jobs take little memory.
    """
    paths = [job.path(suffix) for suffix in (*suffixes, ".json")]
    _check_names(job, paths)
    folder = job.folder.resolve()
    names = [str(folder / path.name) for path in paths[:-1]]
    marks = [hash(name) for name in names]
    if other := next((claimed[mark] for mark in marks if mark in claimed), None):
        raise BadInput(
            f"{other} and {job.source.name} would both become {job.stem}{job.ending} or a picture beside it. "
            "Rename one or use two output folders."
        )
    claimed |= dict.fromkeys(marks, job.source.name)
    beside = (sources or {}).get(str(folder), ())
    if job.beside_inputs and not {str(job.source.resolve()), *beside}.isdisjoint(names):
        raise BadInput(
            f"the output {job.path(job.ending)} would overwrite an input. Give another output folder with -o."
        )
    if "schema_version" not in (job.stored() or ("schema_version",)):
        raise BadInput(
            f"{job.sidecar} is there already and is no record of ours. Give another output folder with -o."
        )


def _check_names(job: Job, paths: Sequence[Path]) -> None:
    """A record is UTF-8, and so must be what it names; 255 bytes are what file systems allow."""
    try:
        longest = max(len(path.name.encode()) for path in paths)
        str(job.source).encode()
    except UnicodeEncodeError:
        raise BadInput("its name is not UTF-8, and no record could hold it. Rename it.") from None
    if job.beside_inputs and longest > 255:
        raise BadInput(f"its outputs would have names of {longest} bytes, more than 255. Rename it.")
