"""Ending politely: SIGTERM, as a cluster or a service manager sends it, is treated as Ctrl-C is.

A signal may arrive while Python clears an object away. What is raised there is printed and forgotten, and the
program would go on: such a signal is sent once more.
"""

from __future__ import annotations

import os
import signal
import sys
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
    before, hook = signal.signal(signal.SIGTERM, _terminate), sys.unraisablehook

    def lost(what: sys.UnraisableHookArgs) -> None:
        if not issubclass(what.exc_type, KeyboardInterrupt):
            hook(what)
            return
        ended = issubclass(what.exc_type, Terminated)
        if ended:
            signal.signal(signal.SIGTERM, _terminate)
        number = signal.SIGTERM if ended else signal.SIGINT
        again = threading.Timer(0.05, os.kill, (os.getpid(), number))
        again.daemon = True
        again.start()

    sys.unraisablehook = lost
    try:
        yield
    finally:
        sys.unraisablehook = hook
        signal.signal(signal.SIGTERM, before)
