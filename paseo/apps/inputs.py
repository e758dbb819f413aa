"""Files and folders in, one job per image out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paseo.errors import BadInput

if TYPE_CHECKING:
    from paseo.images import Picture

ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff")  # as in paseo.formats, which loads torch


@dataclass(frozen=True)
class Job:
    """One input image and the folder and stem of all that is made from it."""

    source: Path
    folder: Path
    stem: str
    relative: str  # the input as the user sees it: below the folder that was given
    ending: str = ".png"  # of the pictures

    def path(self, suffix: str) -> Path:
        """Output file, such as suffix="_s0.png"."""
        return self.folder / f"{self.stem}{suffix}"

    @property
    def sidecar(self) -> Path:
        return self.path(".json")

    @property
    def data(self) -> bytes | None:
        """The file's bytes, where they are in memory already."""
        return None

    @property
    def address(self) -> str | None:
        """How a record calls the input where it is no file of this machine."""
        return None

    @property
    def beside_inputs(self) -> bool:
        """Whether an output might take the place of an input: both are files of this machine."""
        return True

    def stored(self) -> dict[str, Any] | None:
        """The record of an earlier run, where there is one."""
        from paseo.files import read_json

        return read_json(self.sidecar) if self.sidecar.is_file() else None

    def has(self, file: str) -> bool:
        """Whether an output of that name is there."""
        return (self.folder / file).is_file()

    def read(self) -> Picture:
        from paseo.images import read

        return read(self.source)

    def write_all(self, files: Sequence[tuple[str, bytes]]) -> None:
        """All outputs, by what follows the stem, or none of them; the record comes last."""
        from paseo.files import write_together

        write_together([(self.path(suffix), data) for suffix, data in files])


def named_file(out: Path) -> bool:
    """Whether -o is the name of one picture, not of a folder."""
    return out.suffix.lower() in ENDINGS and not out.is_dir()


def collect(inputs: Sequence[Path], out: Path) -> list[Job]:
    """One job per image. Folders are searched with their sub-folders, which are kept below `out`.

    `out` is a folder; for a single file it may also be the name of the picture to write.
    """
    from paseo.images import find_images

    if not inputs:
        raise BadInput("No input: give one or more image files or folders.")
    if named_file(out):
        if len(inputs) != 1 or inputs[0].is_dir():
            raise BadInput(f"-o {out} names one file, but there may be several outputs. Give a folder.")
        return [Job(inputs[0], out.parent, out.stem, inputs[0].name, out.suffix.lower())]
    if out.is_file():
        raise BadInput(
            f"-o {out} is a file; give a folder, or for a single input a name that ends with one of "
            f"{', '.join(ENDINGS)}."
        )
    jobs: list[Job] = []
    for given in inputs:
        if not given.is_dir():
            jobs.append(Job(given, out, given.stem, given.name))
            continue
        made_here = out.resolve() if out.resolve() != given.resolve() else None
        found = [p for p in find_images(given) if made_here is None or made_here not in p.resolve().parents]
        if not found:
            raise BadInput(f"The folder {given} holds no image files.")
        jobs += [Job(p, out / p.parent.relative_to(given), p.stem, str(p.relative_to(given))) for p in found]
    return jobs


def check_writable(folder: Path) -> None:
    """Find out now, not after an hour: can files be made there? Nothing is left behind."""
    from paseo.files import atomic

    probe = folder / ".paseo-can-write"
    with atomic(probe) as file:
        file.write(b"")
    probe.unlink(missing_ok=True)
