"""Pictures that are not files of this machine: lists, tars and object stores.

IN    list.txt list.csv list.parquet   one picture per line or row (column `path`, `url` or `image`, else
                                       the first); relative names count from the list's folder
      pictures.tar                     WebDataset: every picture in it
      s3://bucket/folder gs://…        whatever fsspec has a driver for

Everything is read as a stream: a list of a million takes no more memory than one of ten. Where the results go
is `paseo.apps.sinks`.
"""

from __future__ import annotations

import csv
import io
import lzma
import tarfile
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import IO, Any

from paseo.apps.inputs import Job
from paseo.apps.sinks import Sink
from paseo.errors import BadInput
from paseo.images import EXTENSIONS, MAX_BYTES, Picture, read_bytes

LISTS = (".txt", ".csv", ".parquet")
COLUMNS = ("path", "url", "image")


def is_far(text: str) -> bool:
    """Whether this is for the functions below: a list, a tar, or an address."""
    return "://" in text or text.lower().endswith((*LISTS, ".tar"))


def open_far(url: str, mode: str = "rb") -> IO[bytes]:
    """A file by its path or address."""
    import fsspec

    try:
        return fsspec.open(url, mode).open()
    except ImportError as error:
        raise BadInput(f"{url}: {error}. Install the driver that it names.") from None
    except (OSError, ValueError) as error:
        raise BadInput(f"Cannot open {url}: {error}.") from error


@dataclass(frozen=True)
class FarJob(Job):
    """A picture by its address, or with its bytes at hand, and a place for the results."""

    url: str = ""
    content: bytes | None = field(default=None, repr=False)
    sink: Sink | None = None

    @property
    def data(self) -> bytes | None:
        return self.content

    @property
    def address(self) -> str | None:
        if "://" in self.url:
            return self.url
        return self.relative if self.content is not None else None

    @property
    def beside_inputs(self) -> bool:
        return self.sink is None and self.address is None

    def read(self) -> Picture:
        if self.data is not None:
            return read_bytes(self.data, self.relative)
        with open_far(self.url) as file:
            data = file.read(MAX_BYTES + 1)
        if not data or len(data) > MAX_BYTES:
            raise BadInput(f"{self.url} is empty, or larger than {MAX_BYTES:,} bytes.")
        return read_bytes(data, self.relative)

    def write_all(self, files: Sequence[tuple[str, bytes]]) -> None:
        if self.sink is None:
            super().write_all(files)
            return
        for suffix, data in files:
            self.sink.write(f"{PurePosixPath(self.relative).with_suffix('')}{suffix}", data)

    def stored(self) -> dict[str, Any] | None:
        return super().stored() if self.sink is None else self.sink.stored(self)

    def has(self, file: str) -> bool:
        return super().has(file) if self.sink is None else self.sink.has(self, file)


def far_jobs(
    inputs: Iterable[str], out: str, sink: Sink | None, shard: tuple[int, int] = (0, 1)
) -> Iterator[Job]:
    """One job per picture, as a stream; local files and folders may be among the inputs. Of `shard` (i, n)
    every n-th, beginning with the i-th; nothing is made of the others.
    """
    index, count = shard
    passed = 0  # pictures of the inputs before
    for given in inputs:
        first = (index - passed) % count
        seen = 0
        for seen, (name, url, data) in enumerate(_pictures_of(given), 1):
            if (seen - 1) % count == first:
                yield _job(name, url, out, sink, None if data is None else data())
        passed += seen


def _pictures_of(given: str) -> Iterator[tuple[str, str, Callable[[], bytes] | None]]:
    """(name, address, its bytes where they are at hand) of every picture of an input."""
    lower = given.lower()
    if lower.endswith(".tar"):
        yield from ((name, "", data) for name, data in pictures_of_tar(given))
    elif lower.endswith(LISTS):
        base = given.rpartition("/")[0]
        for entry in entries_of(given):
            absolute = "://" in entry or entry.startswith("/")
            yield entry, entry if absolute or not base else f"{base}/{entry}", None
    else:
        yield from ((name, url, None) for name, url in files_of(given))


def _job(name: str, url: str, out: str, sink: Sink | None, data: bytes | None = None) -> FarJob:
    """The picture's own folders are kept below the output; names that climb out of it are not followed."""
    parts = [p for p in name.partition("://")[2 if "://" in name else 0].split("/") if p not in ("", ".")]
    if not parts or ".." in parts or "\0" in name:
        raise BadInput(f"{name!r} is no name of a picture below a folder.")
    relative = PurePosixPath(*parts)
    folder = Path(out) / relative.parent if sink is None else Path(relative.parent)
    return FarJob(Path(url or name), folder, relative.stem, str(relative), url=url, content=data, sink=sink)


def entries_of(url: str) -> Iterator[str]:
    """The names in a list, one by one."""
    if url.lower().endswith(".parquet"):
        yield from _parquet(url)
        return
    with open_far(url) as file:
        text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
        if not url.lower().endswith(".csv"):
            yield from (line.strip() for line in text if line.strip() and not line.startswith("#"))
            return
        rows = csv.reader(text)
        header = next(rows, [])
        known = [i for i, name in enumerate(header) if name.strip().lower() in COLUMNS]
        if not known and header and header[0].strip():
            yield header[0].strip()  # no header: the first row is one
        yield from (row[known[0] if known else 0].strip() for row in rows if row and row[0].strip())


def _parquet(url: str) -> Iterator[str]:
    try:
        parquet: object = import_module("pyarrow.parquet")
    except ImportError:
        raise BadInput(f"{url}: Parquet needs pyarrow, which is not installed. pip install pyarrow") from None
    with open_far(url) as file:
        table = parquet.ParquetFile(file)
        names = table.schema_arrow.names
        column = next((n for n in names if n.lower() in COLUMNS), names[0])
        for batch in table.iter_batches(columns=[column]):
            yield from (str(value) for value in batch.column(0).to_pylist() if value)


def pictures_of_tar(url: str) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Name and reader of every picture of a tar, in order; to be read before the next one is asked for."""
    with open_far(url) as file, _whole_tar(url), tarfile.open(fileobj=file, mode="r|*") as tar:
        for member in tar:
            if not member.isfile() or PurePosixPath(member.name).suffix.lower() not in EXTENSIONS:
                continue
            yield member.name, partial(_member, url, tar, member)


def _member(url: str, tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    with _whole_tar(url):
        found = tar.extractfile(member) if member.size <= MAX_BYTES else None
        return b"" if found is None else found.read()


@contextmanager
def _whole_tar(url: str) -> Generator[None]:
    """Whatever reading a damaged tar raises, compressed or not, is the tar's fault."""
    try:
        yield
    except (tarfile.TarError, EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        raise BadInput(f"{url} is no tar, or is damaged: {error}.") from error


def files_of(url: str) -> Iterator[tuple[str, str]]:
    """(name below the folder, address) of the pictures of a folder, or of one file."""
    import fsspec

    try:
        fs, root = fsspec.url_to_fs(url)
        if not fs.isdir(root):
            yield root.rpartition("/")[2], url
            return
        for path in sorted(fs.find(root)):
            if PurePosixPath(path).suffix.lower() in EXTENSIONS:
                yield path.removeprefix(root).lstrip("/"), fs.unstrip_protocol(path)
    except (ImportError, ValueError, OSError) as error:
        raise BadInput(f"Cannot read {url}: {error}.") from error


def count(inputs: Iterable[str]) -> int | None:
    """How many pictures there are, where it can be told without reading them."""
    total = 0
    for given in inputs:
        if not given.lower().endswith(LISTS):
            return None
        total += sum(1 for _ in entries_of(given))
    return total
