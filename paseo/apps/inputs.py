"""Files and folders in, one job per image out, and a loop that goes on when one of them fails."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paseo.apps.console import progress, say
from paseo.errors import BadInput, Cancelled, DiskFull, PaseoError
from paseo.files import NO_ROOM

OUTPUT_SUFFIX = r"(_s\d+|_mean|_std|_measurement)?\.png"


@dataclass(frozen=True)
class Job:
    """One input image and the folder and stem of all that is made from it."""

    source: Path
    folder: Path
    stem: str
    relative: str  # the input as the user sees it: below the folder that was given

    def path(self, suffix: str) -> Path:
        """Output file, such as suffix="_s0.png"."""
        return self.folder / f"{self.stem}{suffix}"

    @property
    def sidecar(self) -> Path:
        return self.path(".json")


@dataclass
class Outcome:
    """What became of a run over files; JSON by `as_json`, exit code by `code`."""

    results: list[dict[str, Any]] = field(default_factory=list)
    stopped: bool = False  # nothing more could be written: the rest is left

    def count(self, status: str) -> int:
        return sum(r["status"] == status for r in self.results)

    def as_json(self) -> dict[str, Any]:
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


def collect(inputs: Sequence[Path], out: Path) -> list[Job]:
    """One job per image. Folders are searched with their sub-folders, which are kept below `out`.

    `out` is a folder; for a single file it may also be the name of the PNG to write.
    """
    from paseo.images import find_images

    if not inputs:
        raise BadInput("No input: give one or more image files or folders.")
    if out.suffix.lower() == ".png" and not out.is_dir():
        if len(inputs) != 1 or inputs[0].is_dir():
            raise BadInput(f"-o {out} names one file, but there may be several outputs. Give a folder.")
        return [Job(inputs[0], out.parent, out.stem, inputs[0].name)]
    if out.is_file():
        raise BadInput(
            f"-o {out} is a file; give a folder, or a name that ends with .png for a single input."
        )
    jobs: list[Job] = []
    for given in inputs:
        if not given.is_dir():
            jobs.append(Job(given, out, given.stem, given.name))
            continue
        made_here = out.resolve() if out.resolve() != given.resolve() else None
        found = [p for p in find_images(given) if made_here is None or made_here not in p.resolve().parents]
        if not found:
            raise BadInput(f"The folder {given} holds no image files.")
        jobs += [Job(p, out / p.parent.relative_to(given), p.stem, str(p.relative_to(given))) for p in found]
    return jobs


def run_jobs(
    jobs: Sequence[Job], work: Callable[[Job, Any], dict[str, Any]], *, verb: str, skip_existing: bool = False
) -> Outcome:
    """`work(job, bar)` for every job, in order. A job that fails is reported on stderr and the rest go on."""
    outcome, claimed = Outcome(), dict[Path, Path]()
    sources = {job.source.resolve() for job in jobs}
    with progress(len(jobs), verb, "file") as bar:
        for job in jobs:
            start = time.perf_counter()
            result: dict[str, Any] = {"input": str(job.source), "status": "done"}
            try:
                _claim(job, claimed, sources)
                if skip_existing and is_complete(job):
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
            outcome.results.append(result)
            bar.update()
            if outcome.stopped:
                break
    outcome.results += [{"input": str(job.source), "status": "left"} for job in jobs[len(outcome.results) :]]
    return outcome


def told(error: Exception) -> str:
    """An error in one line; those that are not ours with their kind, and lack of memory with what helps."""
    text = " ".join(str(error).split())
    if isinstance(error, MemoryError) and not isinstance(error, PaseoError):
        return f"There is not enough memory for this image ({text or 'MemoryError'}). Scale it down."
    if isinstance(error, PaseoError | OSError | ValueError) and text:
        return text
    return f"{type(error).__name__}: {text}".rstrip(": ") + ""


def _claim(job: Job, claimed: dict[Path, Path], sources: set[Path]) -> None:
    """No output may overwrite an input, another job's output, or a JSON file that is not ours."""
    from paseo.files import read_json

    target = (job.folder / job.stem).resolve()
    if other := claimed.get(target):
        raise BadInput(
            f"{other.name} and {job.source.name} would both become {target.name}.png. Rename one or use "
            "two output folders."
        )
    claimed[target] = job.source
    ours = re.compile(re.escape(str(target)) + OUTPUT_SUFFIX)
    if any(ours.fullmatch(str(source)) for source in sources):
        raise BadInput(
            f"the output {job.path('.png')} would overwrite an input. Give another output folder with -o."
        )
    if job.sidecar.exists() and "schema_version" not in (read_json(job.sidecar) or ()):
        raise BadInput(
            f"{job.sidecar} is there already and is no record of ours. Give another output folder with -o."
        )


def is_complete(job: Job) -> bool:
    """The sidecar, which is written last, is there with all the files it lists."""
    from paseo.files import read_json

    if not job.sidecar.is_file():
        return False
    try:
        record = read_json(job.sidecar)
        return all((job.folder / entry["file"]).is_file() for entry in record["outputs"])
    except (PaseoError, KeyError, TypeError):
        return False
