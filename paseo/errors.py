"""The errors a user may see. Each message names the value, what was expected and the way out."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager


class PaseoError(Exception):
    """Base of all errors raised on purpose; the CLI prints it without a traceback and exits with 2."""


class BadInput(PaseoError, ValueError):
    """A value, file or setting that cannot be used as given."""


class DiskFull(BadInput):
    """Nothing can be written where it was asked for: no room, a quota, or read-only. No other file would
    fare better.
    """


class Unsupported(PaseoError):
    """A combination that has no meaning, such as an adjoint of JPEG."""


class MissingWeights(PaseoError, FileNotFoundError):
    """A model or operator that is not on this machine, is incomplete, or is not what its name says."""


class NotFinite(PaseoError, FloatingPointError):
    """A latent became NaN or infinite; the message names the step and a setting to try."""


class Cancelled(PaseoError):
    """Raised by a `watch` hook to stop a run between two steps."""


class OutOfMemory(PaseoError, MemoryError):
    """The machine or the accelerator ran out of memory; the message says during what, and what needs less."""


@contextmanager
def out_of_memory(during: str, way_out: str) -> Generator[None]:
    """Turn an allocation failure of torch, on any device, into an `OutOfMemory` that says what to do."""
    try:
        yield
    except OutOfMemory:
        raise
    except (MemoryError, RuntimeError) as error:
        text = str(error)
        # CUDA, ROCm and MPS; the CPU; Windows; oneDNN
        signs = ("out of memory", "can't allocate", "not enough memory", "could not create a primitive")
        if not (isinstance(error, MemoryError) or any(sign in text for sign in signs)):
            raise
        first = text.splitlines()[0] if text else "allocation failed"
        raise OutOfMemory(f"Out of memory during {during}. {way_out} (torch said: {first})") from error
