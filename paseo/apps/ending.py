"""Ending politely: SIGTERM, as a cluster or a service manager sends it, is treated as Ctrl-C is."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED, TERMINATED = 130, 143  # exit codes, 128 + the number of the signal


class Terminated(KeyboardInterrupt):
    """SIGTERM arrived: everything that cleans up after Ctrl-C does so now."""


def _terminate(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the clean-up is not interrupted by a second one
    raise Terminated


@contextmanager
def polite_end() -> Generator[None]:
    """While the block lasts, SIGTERM raises `Terminated` in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
