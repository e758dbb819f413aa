"""One run in a thread of its own: it reports steps, denoiser calls, time and a preview, and stops when asked
to.

The preview is the decoded clean estimate of the step. Decoding draws no random number, so that a watched run
and an unwatched one give the same bytes; it is left out while it would take more than a fifth of the time.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import torch
from PIL import Image
from torch import Tensor

from paseo.apps.job import Restoration
from paseo.apps.ui.form import Prepared
from paseo.base import Codec, Prior, Step
from paseo.errors import Cancelled
from paseo.images import to_pil
from paseo.models import Model, load_model
from paseo.problem import multiple_of
from paseo.schedule import Schedule
from paseo.units import to_unit

PREVIEW_SHARE = 0.2  # of the time, at most
TICK = 0.25  # seconds between two looks at the clock


@dataclass(frozen=True, eq=False)
class RunProgress:
    """How far a run is."""

    step: int = 0
    steps: int = 0
    nfe: int = 0  # denoiser calls so far
    all_nfe: int = 0
    seconds: float = 0.0
    left: float | None = None  # seconds; None before the first step
    preview: Image.Image | None = None

    @property
    def fraction(self) -> float:
        return self.step / self.steps if self.steps else 0.0


class Watched:
    """A prior that counts its calls, and that asks before each one whether to go on."""

    def __init__(self, prior: Prior, watcher: RunWatcher) -> None:
        self.prior, self.watcher = prior, watcher

    def x0(self, x: Tensor, t: float) -> Tensor:
        self.watcher.check()
        self.watcher.nfe += 1
        return self.prior.x0(x, t)

    @property
    def schedule(self) -> Schedule:
        return self.prior.schedule

    @property
    def multiple(self) -> int:
        return multiple_of(self.prior)


@dataclass(eq=False)
class RunWatcher:
    """Its `watch` is called once per step."""

    batches: int  # runs of the sampler, one after the other
    all_nfe: int
    cancelled: threading.Event
    codec: Codec | None = None
    nfe: int = 0
    done: int = 0  # steps of all batches
    news: queue.SimpleQueue[RunProgress] = field(default_factory=queue.SimpleQueue)
    start: float = field(default_factory=time.perf_counter)
    _last: float = 0.0
    _cost: float = 0.0

    def check(self) -> None:
        if self.cancelled.is_set():
            raise Cancelled("Cancelled.")

    def watch(self, step: Step) -> None:
        self.check()
        self.done += 1
        steps, passed = step.total * self.batches, time.perf_counter() - self.start
        left = passed / self.done * (steps - self.done)
        self.news.put(
            RunProgress(self.done, steps, self.nfe, self.all_nfe, passed, left, self._preview(step.z))
        )

    def _preview(self, z: Tensor) -> Image.Image | None:
        before = time.perf_counter()
        if self.codec is None or before - self._last < max(0.5, self._cost / PREVIEW_SHARE):
            return None
        image = to_pil(to_unit(self.codec.decode(z[:1].detach()))[0].clamp(0, 1).nan_to_num(0.5))
        self._last = time.perf_counter()
        self._cost = self._last - before
        return image


def run(prepared: Prepared, model: Model, cancelled: threading.Event) -> Iterator[RunProgress]:
    """Do it: progress while it runs, then the files are there. Errors of the run are raised here."""
    plan = prepared.plan
    batches = -(-len(plan.seeds) // plan.batch)
    watcher = RunWatcher(batches, batches * plan.recipe.sampler.nfe, cancelled, model.codec)
    watched = replace(model, prior=Watched(model.prior, watcher))
    work = Restoration(plan, watched, _face_model(plan.recipe.faces, watched, watcher))
    failure: list[BaseException] = []

    def target() -> None:
        try:
            watcher.check()
            with torch.no_grad():
                work(prepared.job, watcher.watch)
        except BaseException as error:  # handed to whoever waits
            failure.append(error)

    thread = threading.Thread(target=target, name="paseo-ui", daemon=True)
    thread.start()
    try:
        latest = RunProgress(all_nfe=watcher.all_nfe)
        yield latest
        while thread.is_alive():
            thread.join(TICK)
            fresh = list(_drained(watcher.news))
            if fresh:
                preview = next((p.preview for p in reversed(fresh) if p.preview is not None), None)
                latest = replace(fresh[-1], preview=preview)
            else:
                latest = replace(latest, seconds=time.perf_counter() - watcher.start, preview=None)
            yield latest
    except GeneratorExit:  # the page is gone
        cancelled.set()
        raise
    if failure:
        raise failure[0]


def _face_model(name: str, model: Model, watcher: RunWatcher) -> Model | None:
    """The model of the faces, which Cancel reaches as well; None where none is wanted."""
    if not name or name == model.name:
        return model if name else None
    found = load_model(name)
    return replace(found, prior=Watched(found.prior, watcher))


def _drained(news: queue.SimpleQueue[RunProgress]) -> Iterator[RunProgress]:
    while True:
        try:
            yield news.get_nowait()
        except queue.Empty:
            return
