"""Files that appear whole or not at all: written under a temporary name beside the target, then renamed over
it.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO, Any

from paseo.errors import BadInput, DiskFull

MAX_JSON = 64 << 20  # bytes


def is_file(path: str | Path) -> bool:
    """Whether it is a file. A name that is too long for one, or behind a closed door, is none: pathlib raises
    then, until Python 3.14.
    """
    return os.path.isfile(path)


def is_folder(path: str | Path) -> bool:
    """Whether it is a folder; names as above."""
    return os.path.isdir(path)


def exists(path: str | Path) -> bool:
    """Whether there is anything; names as above."""
    return os.path.exists(path)


@contextmanager
def atomic(path: str | Path) -> Generator[IO[bytes]]:
    """A binary file that takes its name only once it is complete and on the disk; parent folders are made."""
    path = Path(path)
    temporary = temporary_name(path)
    try:
        if path.is_dir():
            raise IsADirectoryError(0, "it is a folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.parent not in _SWEPT:
            _SWEPT.add(path.parent)
            sweep(path.parent)
        file = temporary.open("xb")
    except OSError as error:
        raise cannot_write(path, error) from error
    except ValueError as error:  # a NUL, or letters that no file system holds
        raise BadInput(f"{path!r} cannot be the name of a file: {error}.") from error
    try:
        with file:
            yield file
            sync(file)
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise cannot_write(path, error) from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_together(files: Sequence[tuple[Path, bytes]]) -> None:
    """All files or none: when all are on the disk they take their names, in this order."""
    with ExitStack() as opened:
        for path, data in reversed(files):  # what was opened last is closed first
            file = opened.enter_context(atomic(path))
            file.write(data)
            sync(file)


def temporary_name(path: Path) -> Path:
    """Beside the target, and nobody else's: not another process's, nor another machine's that shares the
    folder.
    """
    short = path.name.encode()[:120].decode(errors="ignore")  # names have at most 255 bytes
    return path.with_name(f".{short}.{machine_tag()}-{os.getpid()}-{secrets.token_hex(8)}.tmp")


@cache
def machine_tag() -> str:
    """Eight letters for this machine and, in containers that share its name, for the space of process
    numbers.
    """
    return hashlib.sha256(machine().encode()).hexdigest()[:8]


def machine() -> str:
    """The name of this machine and, where there are several, of its space of process numbers."""
    import socket  # costs a start-up that writes nothing two milliseconds

    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return f"{socket.gethostname()} {space}".strip()


def process_runs(pid: int) -> bool:
    """Whether a process of this machine lives."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # it is there, and somebody else's
        return True
    return True


def sweep(folder: Path) -> None:
    """Remove what killed processes of this machine left half-written in a folder, and what others left a
    day ago.
    """
    for path in folder.glob(".*.tmp"):
        found = _TEMPORARY.search(path.name)
        with suppress(OSError):
            if found is None:
                continue
            ours = found["machine"] == machine_tag()
            if (ours and not process_runs(int(found["pid"]))) or time.time() - path.stat().st_mtime > 86_400:
                path.unlink()


_TEMPORARY = re.compile(r"\.(?P<machine>[0-9a-f]{8})-(?P<pid>[0-9]{1,9})-[0-9a-f]{16}\.tmp$")
_SWEPT: set[Path] = set()  # folders this process has looked at


def sync(file: IO[bytes]) -> None:
    """Until this returns, a power failure may leave an empty file behind a new name."""
    file.flush()
    os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """So that the new name outlives a power failure too; systems that cannot do it are left alone."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


NO_ROOM = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EROFS,
    errno.EFBIG,
}  # what no other file of the folder would escape


def cannot_write(path: Path, error: OSError) -> BadInput:
    """What to raise; `DiskFull` where nothing else could be written either."""
    kind = DiskFull if error.errno in NO_ROOM else BadInput
    return kind(f"Cannot write {path}: {error.strerror or error}.")


def write_text(path: str | Path, text: str) -> Path:
    with atomic(path) as file:
        file.write(text.encode())
    return Path(path)


def write_json(path: str | Path, value: Any) -> Path:
    """Indented UTF-8 JSON; NaN and infinity are refused, since they are not JSON."""
    with atomic(path) as file:
        file.write(as_json(value))
    return Path(path)


def as_json(value: object) -> bytes:
    """The bytes of such a file."""
    try:
        return (json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()
    except (ValueError, TypeError) as error:
        raise BadInput(f"This cannot be recorded: {error}.") from error


def read_json(path: str | Path, most: int = MAX_JSON) -> Any:
    """A JSON file of at most `most` bytes; BadInput says why it cannot be used."""
    try:
        with Path(path).open("rb") as file:
            raw = file.read(most + 1)
    except OSError as error:
        raise BadInput(f"Cannot read {path}: {error.strerror}.") from error
    except ValueError as error:  # a name with a NUL
        raise BadInput(f"Cannot read {path!r}: {error}.") from error
    try:
        return bounded_json(raw, most)
    except ValueError as error:
        raise BadInput(f"{path} is not JSON: {error}.") from error


def bounded_json(raw: bytes, most: int = MAX_JSON) -> Any:
    """The value of JSON in UTF-8, strictly: no NaN, no lone surrogates, bounded size and depth. ValueError
    otherwise.
    """
    if len(raw) > most:
        raise ValueError(f"it has more than {most:,} bytes")
    try:
        value = json.loads(raw.decode("utf-8"), parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if b"\\ud" in raw or b"\\uD" in raw:  # half a character: it could be neither printed nor written again
        json.dumps(value, ensure_ascii=False).encode()
    return value


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")
