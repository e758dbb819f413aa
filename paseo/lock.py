"""One writer per folder: a lock file that says who holds it and since when, also on file systems that
machines share.

The file is made with O_EXCL, which network file systems honour where they ignore locks of the kernel, and
its time is
renewed while its owner lives. It is nobody's once its process is gone (seen at once on the same machine),
or once it
has not been renewed for two minutes by the clock of the file system itself, so that clocks may differ. A
lock that is nobody's is removed by one of those who want it, and then made anew by one.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from paseo.errors import BadInput
from paseo.files import bounded_json, cannot_write, machine, process_runs

RENEW, STALE = 20.0, 120.0  # seconds


@dataclass(frozen=True)
class Owner:
    """Who holds a lock."""

    machine: str
    pid: int
    born: str  # when the process began, since its number may be given to another one
    since: str
    token: str

    @classmethod
    def read(cls, value: object) -> Owner | None:
        """From JSON; None for anything else."""
        if not isinstance(value, dict) or not isinstance(value.get("pid"), int):
            return None
        words = {name: value.get(name) for name in ("machine", "born", "since", "token")}
        if not all(isinstance(word, str) for word in words.values()):
            return None
        return cls(pid=value["pid"], **{name: str(word) for name, word in words.items()})


class Busy(BadInput):
    """Somebody else is at work there."""


def me() -> Owner:
    """This process."""
    pid = os.getpid()
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    return Owner(machine=machine(), pid=pid, born=_born(pid), since=since, token=secrets.token_hex(8))


def gone(owner: Owner) -> bool | None:
    """Whether the process has ended; None where that cannot be seen from here."""
    if owner.machine != machine():
        return None
    return _born(owner.pid) != owner.born or not process_runs(owner.pid)


def _born(pid: int) -> str:
    try:
        return (
            Path(f"/proc/{pid}/stat")
            .read_text(encoding="utf-8", errors="replace")
            .rpartition(")")[2]
            .split()[19]
        )
    except (OSError, IndexError):
        return ""


@contextmanager
def locked(folder: Path, what: str, name: str = ".lock", wait: float = 0.0) -> Generator[Path]:
    """While the block lasts, the folder is ours; `Busy` if somebody else holds it for more than `wait`
    seconds. `what` is for the message.
    """
    path, mine = folder / name, me()
    deadline = time.monotonic() + wait
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _take(path, mine, what)
            break
        except Busy:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.05)
        except OSError as error:
            raise cannot_write(path, error) from error
    ended = threading.Event()
    renewal = threading.Thread(target=_renew, args=(path, ended), name="paseo-lock", daemon=True)
    renewal.start()
    try:
        yield path
    finally:
        ended.set()
        renewal.join()
        if (now := holder(path)) is not None and now.token == mine.token:
            path.unlink(missing_ok=True)


def holder(path: Path) -> Owner | None:
    """Who holds a lock; None where nobody does, or where its file cannot be read."""
    try:
        return Owner.read(bounded_json(path.read_bytes(), 4096))
    except (OSError, ValueError):
        return None


def is_held(path: Path) -> bool:
    """Whether a running process holds the lock."""
    owner = holder(path)
    if owner is not None and (ended := gone(owner)) is not None:
        return not ended
    return path.exists() and _age(path) < STALE


def _take(path: Path, mine: Owner, what: str) -> None:
    for _ in range(20):
        try:
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        except FileExistsError:
            if is_held(path):
                raise _busy(path, what) from None
            _remove_dead(path)
            continue
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(asdict(mine), file)
            file.flush()
            os.fsync(file.fileno())
        return
    raise _busy(path, what)


def _busy(path: Path, what: str) -> Busy:
    owner = holder(path)
    who = (
        f"the process {owner.pid} on {owner.machine.split()[0]} since {owner.since}"
        if owner
        else "somebody else"
    )
    return Busy(
        f"{path.parent} is in use: {who} is at work on this {what}. Wait for it to end, or take another "
        f"folder."
    )


def _remove_dead(path: Path) -> None:
    """Of those who find a dead lock one removes it: it holds a second file meanwhile, and looks again. While
    the dead one lies there nobody can make a new one, so that what is removed is what was judged.
    """
    guard = path.with_name(f"{path.name}.guard")
    try:
        os.close(os.open(guard, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
    except FileExistsError:
        if _age(guard) > STALE:  # whoever made it was killed
            guard.unlink(missing_ok=True)
        time.sleep(0.01)
        return
    try:
        if path.exists() and not is_held(path):
            path.unlink(missing_ok=True)
    finally:
        guard.unlink(missing_ok=True)


def _age(path: Path) -> float:
    """Seconds since the last renewal, by the clock that dates the files of that folder."""
    probe = path.with_name(f"{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        probe.touch()
        return probe.stat().st_mtime - path.stat().st_mtime
    except OSError:
        return 0.0
    finally:
        probe.unlink(missing_ok=True)


def _renew(path: Path, ended: threading.Event) -> None:
    while not ended.wait(RENEW):
        with suppress(OSError):
            os.utime(path)
