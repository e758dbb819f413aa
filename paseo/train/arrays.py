"""One large array in one safetensors file, written as a stream and read through a memory map.

A safetensors file is eight bytes of header length, a JSON header and the raw data. The header is padded with
spaces to a fixed size and filled in last, when the number of rows is known, so that a set larger than the
memory can be written row by row; any safetensors reader opens the result. Files appear under their name only
when complete.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from pathlib import Path
from types import TracebackType

import numpy as np

from paseo.errors import BadInput, MissingWeights
from paseo.files import sweep, temporary_name
from paseo.weights import header

_HEADER = 4096 - 8  # bytes kept for the JSON header, so that the data begins on a page
_ABANDONED = 3600.0  # seconds without a write after which a partial file is given up
_NAMES = {"uint8": "U8", "float16": "F16", "float32": "F32"}
_DTYPES = {name: np.dtype(numpy_name) for numpy_name, name in _NAMES.items()}


class ArrayWriter:
    """Appends blocks of rows; leaving the `with` block without an error publishes the file."""

    def __init__(self, path: Path, dtype: str, name: str = "data") -> None:
        if dtype not in _NAMES:
            raise BadInput(f"Arrays are stored as {', '.join(_NAMES)}, not {dtype!r}.")
        self.path, self.dtype, self.name, self.rows = path, np.dtype(dtype), name, 0
        self.row_shape: tuple[int, ...] | None = None  # set by the first block
        path.parent.mkdir(parents=True, exist_ok=True)
        _clear(path)
        self._partial = temporary_name(path)
        self._file = self._partial.open("wb")
        self._file.write(b" " * (8 + _HEADER))

    def append(self, rows: np.ndarray) -> None:
        """Add rows of shape (n, …), the same … every time."""
        if self.row_shape is None:
            self.row_shape = rows.shape[1:]
        if rows.shape[1:] != self.row_shape:
            raise BadInput(f"{self.path.name} holds rows of shape {self.row_shape}, got {rows.shape[1:]}.")
        self._file.write(np.ascontiguousarray(rows, self.dtype).tobytes())
        self.rows += len(rows)

    def __enter__(self) -> ArrayWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._publish()
        else:
            self._file.close()
            self._partial.unlink(missing_ok=True)

    def _publish(self) -> None:
        shape = [self.rows, *(self.row_shape or ())]
        size = math.prod(shape) * self.dtype.itemsize
        table = {self.name: {"dtype": _NAMES[self.dtype.name], "shape": shape, "data_offsets": [0, size]}}
        self._file.seek(0)
        self._file.write(_HEADER.to_bytes(8, "little") + json.dumps(table).encode().ljust(_HEADER))
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        os.replace(self._partial, self.path)


def _clear(path: Path) -> None:
    """Remove what writers of this file left behind that were killed; a living one touches its file all the
    time.
    """
    sweep(path.parent)
    for left in path.parent.glob(f".{path.name}.*.tmp"):
        with contextlib.suppress(FileNotFoundError):
            if time.time() - left.stat().st_mtime > _ABANDONED:
                left.unlink()


def open_array(path: Path) -> np.ndarray:
    """The only array of a safetensors file as a read-only memory map."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
        (entry,) = header(path).values()
        dtype, shape = _DTYPES[entry.dtype], entry.shape
        expected = 8 + length + math.prod(shape) * dtype.itemsize
    except (MissingWeights, ValueError, KeyError, OSError) as error:
        raise BadInput(
            f"{path} is not an array file of this program ({error!r}). Delete it: it will be made again."
        ) from error
    if path.stat().st_size != expected:
        raise BadInput(
            f"{path} has {path.stat().st_size} bytes instead of {expected}. Delete it: it will be made again."
        )
    if 0 in shape:
        return np.zeros(shape, dtype)
    return np.memmap(path, dtype, "r", offset=8 + length, shape=shape)
