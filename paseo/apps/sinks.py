"""Results that are not files of this machine: in the parts of a tar, or in an object store.

OUT   results.tar                      results-0-00000.tar, …: pictures and their records, so many to a part
      s3://bucket/folder               one object per picture and record

A part appears when it is complete. Which pictures are done is read off the records, so that any run can be
ended and resumed.
"""

from __future__ import annotations

import io
import tarfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from paseo.apps.inputs import Job
from paseo.errors import BadInput
from paseo.files import bounded_json
from paseo.recipe.key import key_of

PER_PART = 256  # pictures of a tar: what a killed worker may have to do again


class Sink(ABC):
    """Where results go that are no files of this machine."""

    @abstractmethod
    def write(self, name: str, data: bytes) -> None: ...

    @abstractmethod
    def stored(self, job: Job) -> dict[str, Any] | None:
        """The record of an earlier run."""
        ...

    @abstractmethod
    def has(self, job: Job, file: str) -> bool: ...

    @abstractmethod
    def note(self, name: str, data: bytes) -> None:
        """A file beside the results."""
        ...

    def close(self) -> None:  # noqa: B027 (most sinks have nothing to finish)
        """Nothing more will come."""


class ObjectStore(Sink):
    """A folder of an object store, in which an object appears when it is complete."""

    def __init__(self, url: str) -> None:
        import fsspec

        try:
            self.fs, self.root = fsspec.url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise BadInput(f"-o {url}: {error}.") from None
        try:
            self.write(".paseo-can-write", b"")
            self.fs.rm(self._path(".paseo-can-write"))
        except OSError as error:
            raise BadInput(f"Cannot write to {url}: {error}.") from error

    def _path(self, name: str) -> str:
        return f"{self.root.rstrip('/')}/{name}"

    def write(self, name: str, data: bytes) -> None:
        path = self._path(name)
        self.fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        self.fs.pipe_file(path, data)

    def note(self, name: str, data: bytes) -> None:
        self.write(name, data)

    def stored(self, job: Job) -> dict[str, Any] | None:
        path = self._path(f"{PurePosixPath(job.relative).with_suffix('')}.json")
        return bounded_json(self.fs.cat_file(path)) if self.fs.exists(path) else None

    def has(self, job: Job, file: str) -> bool:
        return bool(self.fs.exists(self._path(str(PurePosixPath(job.relative).with_name(file)))))


class Tars(Sink):
    """Parts of a tar: pictures and records, the record last. A part is renamed when it is complete."""

    def __init__(self, url: str, shard: int = 0, per_part: int = PER_PART) -> None:
        import fsspec

        try:
            self.fs, path = fsspec.url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise BadInput(f"-o {url}: {error}.") from None
        self.stem, self.shard, self.per_part = path.removesuffix(".tar"), shard, per_part
        self.fs.makedirs(self.stem.rpartition("/")[0] or ".", exist_ok=True)
        self.done: dict[int, int] = {}  # hash of a name → hash of its run's key
        self.parts = 0
        for part in sorted(self.fs.glob(f"{self.stem}-*-*.tar")):
            self._learn(part)
        self.buffer, self.records = io.BytesIO(), 0
        self.tar = tarfile.TarFile(fileobj=self.buffer, mode="w")

    def _learn(self, part: str) -> None:
        """What an earlier run has made; its parts are never touched again."""
        middle, number = part.removesuffix(".tar").rsplit("-", 2)[1:]
        if middle == str(self.shard) and number.isdecimal():
            self.parts = max(self.parts, int(number) + 1)
        with self.fs.open(part, "rb") as file, tarfile.open(fileobj=file, mode="r|") as tar:
            for member in tar:
                found = tar.extractfile(member) if member.name.endswith(".json") else None
                if found is not None:
                    name = hash(member.name.removesuffix(".json"))
                    self.done[name] = hash(key_of(bounded_json(found.read())))

    def write(self, name: str, data: bytes) -> None:
        member = tarfile.TarInfo(name)
        member.size = len(data)
        self.tar.addfile(member, io.BytesIO(data))
        if name.endswith(".json"):
            self.records += 1
            if self.records >= self.per_part:
                self._flush()

    def stored(self, job: Job) -> dict[str, Any] | None:
        return None  # asked by key: `has_run`

    def has(self, job: Job, file: str) -> bool:
        return False

    def has_run(self, job: Job, record: Mapping[str, object]) -> bool:
        """Whether a part holds this very run of this picture."""
        return self.done.get(hash(str(PurePosixPath(job.relative).with_suffix("")))) == hash(key_of(record))

    def note(self, name: str, data: bytes) -> None:
        self.fs.pipe_file(f"{self.stem}-{name}", data)

    def _flush(self) -> None:
        self.tar.close()
        if self.records:
            target = f"{self.stem}-{self.shard}-{self.parts:05d}.tar"
            temporary = f"{target}.part"
            self.fs.pipe_file(temporary, self.buffer.getvalue())
            self.fs.mv(temporary, target)
            self.parts += 1
        self.buffer, self.records = io.BytesIO(), 0
        self.tar = tarfile.TarFile(fileobj=self.buffer, mode="w")

    def close(self) -> None:
        self._flush()


def sink_of(out: str, shard: int = 0, per_part: int = PER_PART) -> Sink | None:
    """Where results go; None for a folder of this machine."""
    if out.lower().endswith(".tar"):
        return Tars(out, shard, per_part)
    return ObjectStore(out) if "://" in out else None
