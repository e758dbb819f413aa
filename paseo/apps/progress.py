"""How far a run is: one line that changes on a terminal, a plain line now and then in a log.

restore 12/500  b/photo.jpg  step 7/27  2 %  14.2 a minute  34 min left
"""

from __future__ import annotations

import sys
import time
from typing import TextIO

from paseo.apps.console import say
from paseo.base import Step

EVERY = 30.0  # seconds between two lines in a log
REFRESH = 0.2  # between two looks of a terminal


class Progress:
    """Counts pictures and the steps of the one at hand. Use it as a `with` block and as a `watch` hook."""

    def __init__(self, total: int | None, verb: str, stream: TextIO | None = None) -> None:
        self.total, self.verb = total, verb  # total None: not known, as of a stream
        self.stream = stream or sys.stderr
        self.terminal = self.stream.isatty()
        self.finished = self.skipped = 0
        self.name, self.part, self.steps = "", 0.0, ""  # of the pass that is being computed
        self.start = time.monotonic()
        self.shown = 0.0 if self.terminal else self.start
        self.width = 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def begin(self, name: str) -> None:
        self.name, self.part, self.steps = name, 0.0, ""
        self.show()

    def watch(self, pictures: int = 1) -> _Watch:
        """A hook for a pass over so many pictures."""
        return _Watch(self, pictures)

    def done(self, skipped: bool = False) -> None:
        """One picture more."""
        self.finished += 1
        self.skipped += skipped
        self.part = 0.0
        self.show()

    def clear(self) -> None:
        if self.terminal and self.width:
            self.stream.write("\r" + " " * self.width + "\r")
            self.width = 0

    def show(self) -> None:
        now = time.monotonic()
        if now - self.shown < (REFRESH if self.terminal else EVERY):
            return
        self.shown = now
        if not self.terminal:
            say(self.line(now))
            return
        text = self.line(now)
        self.stream.write("\r" + text.ljust(self.width))
        self.stream.flush()
        self.width = len(text)

    def line(self, now: float) -> str:
        """Everything that is known, in one line."""
        of = "" if self.total is None else f"/{self.total}"
        parts = [f"{self.verb} {self.finished}{of}", self.name, self.steps]
        computed = self.finished - self.skipped + self.part
        elapsed = now - self.start
        if self.total:
            parts.append(f"{100 * (self.finished + self.part) / self.total:.0f} %")
        if computed > 0 and elapsed > 0:
            parts.append(f"{60 * computed / elapsed:.1f} a minute")
            if self.total:
                left = self.total - self.finished - self.part
                parts.append(f"{spell(left * elapsed / computed)} left")
        return "  ".join(part for part in parts if part)


class _Watch:
    """Counts the steps of one pass; several passes of a picture count from the start again."""

    def __init__(self, progress: Progress, pictures: int) -> None:
        self.progress, self.pictures = progress, pictures

    def __call__(self, step: Step) -> None:
        self.progress.part = self.pictures * (step.index + 1) / step.total
        self.progress.steps = f"step {step.index + 1}/{step.total}"
        self.progress.show()


def spell(seconds: float) -> str:
    """A time that people read: 50 s, 12 min, 3.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
