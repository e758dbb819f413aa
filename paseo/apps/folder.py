"""Many pictures through one model: read ahead, pictures of one size in one pass, written behind.

    jobs ─ passes ─▶ read (a thread) ─▶ compute ─▶ write (a thread)

Which pictures share a pass follows from the list of jobs alone, not from what is done already: a run that
was ended and started again makes the same passes, and so the same bytes. Only whole passes are filled up; a
picture that no other has the size of is computed alone, as it is by default.
"""

from __future__ import annotations

import errno
import io
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from paseo.apps.console import say
from paseo.apps.inputs import Job
from paseo.apps.job import Drawn, Measured, Restoration
from paseo.apps.loop import Outcome, by_folder, claim, told
from paseo.apps.progress import Progress
from paseo.apps.warn import Warnings
from paseo.errors import Cancelled, DiskFull
from paseo.files import NO_ROOM
from paseo.memory import rows_that_fit
from paseo.problem import device_of, multiple_of

CHUNK = 256  # jobs among which pictures of one size are looked for
MOST = {"cpu": 8}  # pictures in a pass where the number is left open; accelerators take more
MOST_ELSEWHERE = 32
AHEAD = 2  # passes that are read ahead, and that may wait to be written


@dataclass(frozen=True)
class Pass:
    """Jobs that are computed at the same time; `size` is what they are filled up to."""

    jobs: tuple[Job, ...]
    size: int = 1


Notice = Callable[[dict[str, Any]], None]


class Folder:
    """One run of a restoration over jobs."""

    def __init__(
        self,
        work: Restoration,
        *,
        skip: bool = False,
        notice: Notice = lambda result: None,
        keep: bool = True,
        fill: bool = False,
        finish: Callable[[], None] = lambda: None,
    ) -> None:
        self.work, self.skip, self.notice, self.finish = work, skip, notice, finish
        self.outcome = Outcome(keep=keep)
        self.claimed: dict[int, str] = {}
        self.sources: dict[str, list[str]] = {}
        self.fill = fill  # fill up the pass of a single picture, as a replay needs it
        self.warnings = Warnings()

    def __call__(self, jobs: Iterable[Job], total: int | None) -> Outcome:
        waiting: deque[tuple[Pass, list[Future[Measured | None]]]] = deque()
        writing: deque[tuple[Job, Future[dict[str, object]]]] = deque()
        self.sources = by_folder(jobs) if isinstance(jobs, list) else {}
        passes = self.passes(jobs)
        with (
            Progress(total, "restore") as progress,
            ThreadPoolExecutor(1, "read") as reader,
            ThreadPoolExecutor(1, "write") as writer,
        ):
            try:
                while not self.outcome.stopped:
                    for coming in itertools.islice(passes, AHEAD - len(waiting)):
                        waiting.append((coming, [reader.submit(self.take, job) for job in coming.jobs]))
                    if not waiting:
                        break
                    self._compute(*waiting.popleft(), progress, writer, writing)
                    self._collect(writing, progress, AHEAD * 32)
                self._collect(writing, progress, 0)
            except BaseException:
                reader.shutdown(wait=False, cancel_futures=True)
                raise
            finally:
                self.finish()
                self.warnings.close()
            if self.outcome.stopped:
                left = [job for one, _ in waiting for job in one.jobs]
                left += [job for one in passes for job in one.jobs]
                for job in left:
                    self.outcome.add({"input": str(job.source), "status": "left"})
        if isinstance(jobs, list):  # told in the order in which they were asked for
            place = {str(job.source): i for i, job in enumerate(jobs)}
            self.outcome.results.sort(key=lambda result: place[result["input"]])
        return self.outcome

    # ---- which pictures share a pass

    def passes(self, jobs: Iterable[Job]) -> Iterator[Pass]:
        together, waiting = self.work.plan.together, iter(jobs)
        if together == 1 or self.work.plan.mask is not None:  # masks differ from picture to picture
            yield from (Pass((job,)) for job in waiting)
            return
        sizes: dict[tuple[int, int], int] = {}
        while chunk := list(itertools.islice(waiting, CHUNK)):
            by_size: dict[tuple[int, int] | None, list[Job]] = {}
            for job in chunk:
                by_size.setdefault(header_size(job), []).append(job)
            for size, same in by_size.items():
                if size is not None and size not in sizes:
                    sizes[size] = together or self.fitting(size)
                n = 1 if size is None else sizes[size]
                whole = len(same) - len(same) % n
                yield from (Pass(tuple(same[i : i + n]), n) for i in range(0, whole, n))
                yield from (Pass((job,), n if self.fill else 1) for job in same[whole:])

    def fitting(self, size: tuple[int, int]) -> int:
        """How many pictures of (H, W) fit into memory at the same time, with all their draws."""
        import torch

        work = self.work
        if work.plan.recipe.operator.kind == "mask":
            return 1
        codec, recipe = work.model.codec, work.plan.recipe
        if not work.plan.degrade and recipe.degradation is not None:
            lifted = recipe.degradation.lift(torch.zeros(1, 3, *size), work.plan.size)
            size = (int(lifted.shape[-2]), int(lifted.shape[-1]))
        step = codec.factor * multiple_of(work.model.prior)
        cells = (-(-size[0] // step) * -(-size[1] // step)) * (step // codec.factor) ** 2
        place = device_of(codec)
        rows = rows_that_fit(work.model.prior, codec, cells, place)
        return max(1, min(MOST.get(place.type, MOST_ELSEWHERE), rows // len(work.plan.seeds)))

    # ---- read, compute, write

    def take(self, job: Job) -> Measured | None:
        """In the reader's thread: the picture, or None where the run is there already."""
        claim(job, self.claimed, self.sources, self.work.suffixes(job.ending))
        if self.skip and self.work.done(job):
            return None
        return self.work.prepare(job)

    def _compute(
        self,
        one: Pass,
        read: list[Future[Measured | None]],
        progress: Progress,
        writer: ThreadPoolExecutor,
        writing: deque[tuple[Job, Future[dict[str, object]]]],
    ) -> None:
        group: list[Measured] = []
        for job, future in zip(one.jobs, read, strict=True):
            this = self._result(job, future, progress)
            if this is not None:
                progress.clear()
                self.warnings.tell(job.relative, self.work.warnings(this))
                group.append(this)
        for batch, size in ((group, one.size),) if self._fits(group) else [([g], 1) for g in group]:
            if not batch or self.outcome.stopped:
                continue
            progress.begin(batch[0].job.relative + (f" and {len(batch) - 1} more" if len(batch) > 1 else ""))
            try:
                drawn = self.work.draw(batch, progress.watch(len(batch)), size)
            except Cancelled:
                raise
            except Exception as error:  # whatever these files lead to, the others are not to blame
                for this in batch:
                    self._failed(this.job, error, progress)
                continue
            for this, draws in zip(batch, drawn, strict=True):
                writing.append((this.job, writer.submit(self._write, this, draws)))

    def _fits(self, group: list[Measured]) -> bool:
        """A header may say another size than its picture has."""
        return len({this.picture.size for this in group}) <= 1

    def _write(self, this: Measured, drawn: Drawn) -> dict[str, object]:
        return self.work.write(this, drawn)

    def _result(self, job: Job, future: Future[Measured | None], progress: Progress) -> Measured | None:
        try:
            this = future.result()
        except Exception as error:
            self._failed(job, error, progress)
            return None
        if this is None:
            self._finished({"input": str(job.source), "status": "skipped"}, progress)
        return this

    def _collect(
        self, writing: deque[tuple[Job, Future[dict[str, object]]]], progress: Progress, most: int
    ) -> None:
        """Take what is written; wait only while more than `most` are not."""
        while writing and (len(writing) > most or writing[0][1].done()):
            job, future = writing.popleft()
            try:
                self._finished({"input": str(job.source), "status": "done", **future.result()}, progress)
            except Exception as error:
                self._failed(job, error, progress)

    def _finished(self, result: dict[str, Any], progress: Progress) -> None:
        self.outcome.add(result)
        progress.done(skipped=result["status"] == "skipped")
        progress.clear()
        for note in result.get("notes", ()):
            say(note)
        self.notice(result)

    def _failed(self, job: Job, error: Exception, progress: Progress) -> None:
        full = isinstance(error, DiskFull) or (isinstance(error, OSError) and error.errno in NO_ROOM)
        if full and self.outcome.stopped:  # computed, but no room for it either: it was said once
            self.outcome.add({"input": str(job.source), "status": "left"})
            return
        text = told(error)
        progress.clear()
        say(f"paseo: {job.relative}: {text}")
        self.outcome.stopped = self.outcome.stopped or full or _gone(error)
        self.outcome.add({"input": str(job.source), "status": "failed", "error": text})
        progress.done()


def _gone(error: Exception) -> bool:
    """Nothing else can be written either: the output has been closed."""
    return isinstance(error, OSError) and error.errno == errno.EPIPE


def header_size(job: Job) -> tuple[int, int] | None:
    """(H, W) of a picture, upright, from its header; None where it does not tell."""
    try:
        with Image.open(io.BytesIO(job.data) if job.data is not None else Path(job.source)) as image:
            turned = image.getexif().get(0x0112, 1) in range(5, 9)
            width, height = image.size
            return (width, height) if turned else (height, width)
    except Exception:  # reading it will say what is wrong
        return None
