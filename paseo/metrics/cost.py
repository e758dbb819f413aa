"""What a run costs: seconds, peak memory and network evaluations.

    with Cost(device, nfe=prior) as cost:
        z = sampler(prior, problem, noise)
    cost.seconds, cost.peak_bytes, cost.nfe

Seconds are wall-clock, with the accelerator's queue emptied at both ends. The peak is what torch allocated on
CUDA and ROCm, what it holds at the end on Apple's MPS, and the largest resident size of the process on the
CPU (Linux resets that mark for each measurement, elsewhere a thread watches it). Evaluations are counted by
whoever makes them and read here: an object with an integer `nfe`, such as `paseo.base.Counted`, or a function
that returns one. Measurements may be nested.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Protocol, runtime_checkable

import torch

from paseo.errors import BadInput

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Cost:
    """`with Cost(device, nfe=counter) as cost: …`; the fields are filled in when the block ends, also by an
    exception.
    """

    _open: list[Cost] = []  # noqa: RUF012  an inner measurement resets the peak, so the outer ones note it before

    def __init__(
        self, device: torch.device | str = "cpu", nfe: Counts | Callable[[], int] | None = None
    ) -> None:
        self.device = torch.device(device)
        self.seconds = 0.0
        self.base_bytes = 0  # in use when it began
        self.peak_bytes = 0
        self.nfe: int | None = None  # None where nobody counted
        self._count = _reader(nfe)
        self._watcher: _Watcher | None = None

    @property
    def extra_bytes(self) -> int:
        """Peak above what was in use at the beginning."""
        return self.peak_bytes - self.base_bytes

    def __enter__(self) -> Cost:
        synchronize(self.device)
        for cost in Cost._open:
            cost._note_peak()
        self.base_bytes = self.peak_bytes = in_use(self.device)
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
        elif self.device.type == "cpu" and not _reset_peak():
            self._watcher = _Watcher()
        Cost._open.append(self)
        self._calls = self._count()
        self._start = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        synchronize(self.device)
        self.seconds = time.perf_counter() - self._start
        self._note_peak()
        Cost._open.remove(self)
        if self._watcher is not None:
            self._watcher.stop()
        if self._calls is not None:
            self.nfe = (self._count() or 0) - self._calls

    def _note_peak(self) -> None:
        if self.device.type == "cuda":
            peak = torch.cuda.max_memory_allocated(self.device)
        elif self._watcher is not None:
            peak = self._watcher.peak
        else:
            peak = _status("VmHWM:") if self.device.type == "cpu" else in_use(self.device)
        self.peak_bytes = max(self.peak_bytes, peak)


def in_use(device: torch.device | str = "cpu") -> int:
    """Bytes in use now: the accelerator's, or the process's resident size."""
    device = torch.device(device)
    if device.type == "cuda":
        return torch.cuda.memory_allocated(device)
    if device.type == "mps":
        return torch.mps.current_allocated_memory()
    if _STATUS.is_file():
        return _status("VmRSS:")
    import psutil  # comes with accelerate

    return int(psutil.Process().memory_info().rss)


def synchronize(device: torch.device | str) -> None:
    """Wait for queued work, so that clocks tell the truth."""
    device = torch.device(device)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


@runtime_checkable
class Counts(Protocol):
    """A prior that counts its calls, such as `paseo.base.Counted`."""

    nfe: int


def _reader(counter: Counts | Callable[[], int] | None) -> Callable[[], int | None]:
    if counter is None:
        return lambda: None
    if isinstance(counter, Counts) and isinstance(counter.nfe, int):
        return lambda: int(counter.nfe)
    if callable(counter):
        return lambda: int(counter())
    raise BadInput(
        "A counter is an object with an integer `nfe` or a function that returns one, got "
        f"{type(counter).__name__}."
    )


def _reset_peak() -> bool:
    """Set the kernel's high-water mark of this process to its present size; False where it cannot be."""
    try:
        _RESET.write_text("5")
    except OSError:
        return False
    return _status("VmHWM:") > 0


def _status(key: str) -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(key):
            return 1024 * int(line.split()[1])
    return 0


class _Watcher(threading.Thread):
    """Looks at the resident size every few milliseconds; it can miss a shorter peak."""

    def __init__(self, interval: float = 0.005) -> None:
        super().__init__(daemon=True)
        self.interval, self._peak, self._ended = interval, in_use(), threading.Event()
        self.start()

    @property
    def peak(self) -> int:
        self._peak = max(self._peak, in_use())
        return self._peak

    def run(self) -> None:
        while not self._ended.wait(self.interval):
            self._peak = max(self._peak, in_use())

    def stop(self) -> None:
        self._ended.set()
        self.join()


def metered(device: torch.device | str = "cpu") -> Cost:
    """A measurement to be entered: `with metered(device) as cost: …`."""
    return Cost(device)
