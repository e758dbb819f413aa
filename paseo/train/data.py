"""Training images: found in folders, tar files or lists, decoded once into one memory-mapped uint8 array.

The cache is a safetensors file (N, size, size, 3) beside a JSON index with the names; both are named after a
digest of the sources, so that a changed folder makes a new cache. A file that cannot be decoded is reported
and skipped.

Several sets are given with commas between them, each with its share of the crops if crops are drawn:
"photos=0.8,faces=0.2". How they are split into training, validation and test is said in `paseo.train.splits`.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from paseo.errors import BadInput
from paseo.files import exists, read_json, write_text
from paseo.train.arrays import ArrayWriter, open_array

IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff"})
_FORMAT = 1  # part of the digest: raise it when decoding changes


@dataclass(frozen=True)
class Source:
    """Where one encoded image lies: a whole file, or `size` bytes of a tar file from `offset`."""

    name: str  # relative to the folder, or the member's name: identifies the image in every split and report
    path: Path
    offset: int = 0
    size: int | None = None

    def read(self) -> bytes:
        with self.path.open("rb") as file:
            file.seek(self.offset)
            return file.read() if self.size is None else file.read(self.size)

    @property
    def stem(self) -> str:
        return Path(self.name).stem

    @property
    def home(self) -> str:
        """The file it lies in, by which a split may sort as well."""
        return self.path.name


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Decoded images with their names."""

    pixels: np.ndarray  # (N, size, size, 3) uint8, memory-mapped
    names: list[str]
    digest: str  # of sources and size: names every cache derived from these pixels
    skipped: dict[str, str]  # name → reason
    homes: list[str] | None = None  # the files they lie in

    def __len__(self) -> int:
        return len(self.names)

    @property
    def size(self) -> int:
        return self.pixels.shape[1]

    def batch(self, index: Tensor | np.ndarray | Sequence[int]) -> Tensor:
        """(B,3,size,size) float in [-1,1]."""
        return to_tensor(self.pixels[np.asarray(index)])


def to_tensor(pixels: np.ndarray) -> Tensor:
    """uint8 (B,H,W,3) → float (B,3,H,W) in [-1,1]."""
    return torch.from_numpy(np.ascontiguousarray(pixels)).permute(0, 3, 1, 2).float().div_(127.5).sub_(1)


# ---------------------------------------------------------------------------------------------- finding


def find_sets(data: Path | str) -> list[tuple[list[Source], float | None]]:
    """The images of each set of "PATH,PATH,…" with the share typed behind it ("PATH=0.3"), or None."""
    if exists(data):
        return [(_find(Path(data)), None)]
    sets: list[tuple[list[Source], float | None]] = []
    for text in str(data).split(","):
        path, equals, share = text.strip().rpartition("=")
        if not equals or exists(text.strip()):
            sets.append((_find(Path(text.strip())), None))
            continue
        try:
            value = float(share)
        except ValueError:
            value = -1.0
        if not 0 < value < 1e9:
            raise BadInput(f"{text!r}: the share of a set is a number above 0, got {share!r}.")
        sets.append((_find(Path(path)), value))
    if len({share is None for _, share in sets}) > 1:
        raise BadInput(f"data is {data!r}: give every set its share, or none.")
    return sets


def find_sources(data: Path | str) -> list[Source]:
    """Every image of folders (with sub-folders and tar files), tar files, single images, or text lists of
    such paths.
    """
    return [source for sources, _ in find_sets(data) for source in sources]


def _find(root: Path) -> list[Source]:
    if not exists(root):
        raise BadInput(
            f"No data at {root}. Give a folder of images, a tar file, or a text file with one path per line."
        )
    if root.is_dir():
        found = [
            s
            for p in sorted(root.rglob("*"))
            if p.is_file()
            for s in _open(p, p.relative_to(root).as_posix())
        ]
    elif root.suffix.lower() == ".txt":
        lines = [line.strip() for line in root.read_text(encoding="utf-8").splitlines()]
        found = [
            s
            for line in lines
            if line and not line.startswith("#")
            for s in _listed(root.parent / line, line)
        ]
    else:
        found = list(_open(root, root.name))
    if not found:
        raise BadInput(
            f"{root} holds no images. Known suffixes: {', '.join(sorted(IMAGE_SUFFIXES))}, alone or inside "
            ".tar files."
        )
    return found


def _listed(path: Path, line: str) -> list[Source]:
    if not path.is_file():
        raise BadInput(
            f"The list names {line!r}, but there is no file {path}. Paths are relative to the list."
        )
    return list(_open(path, line))


def _open(path: Path, name: str) -> Iterator[Source]:
    if path.suffix.lower() in IMAGE_SUFFIXES:
        yield Source(name, path)
    elif path.suffix.lower() == ".tar":
        try:
            with tarfile.open(path, "r:") as tar:  # uncompressed only: members are read by offset later
                for member in tar:
                    if member.isfile() and Path(member.name).suffix.lower() in IMAGE_SUFFIXES:
                        yield Source(member.name, path, member.offset_data, member.size)
        except tarfile.TarError as error:
            raise BadInput(f"{path} is not a readable uncompressed tar file: {error}.") from error


# --------------------------------------------------------------------------------------------- decoding


def decode_image(blob: bytes, size: int | None) -> np.ndarray:
    """Upright RGB (H,W,3) uint8; with a size, the centre square resampled to it by Lanczos."""
    from PIL import Image, ImageOps

    with Image.open(io.BytesIO(blob)) as image:
        image.load()
        if image.mode.startswith(("I", "F")):  # converting would cut values off at 255
            raise BadInput(
                f"images of mode {image.mode} (16 bit or float) are not trained on; store them as 8 bit"
            )
        upright = ImageOps.exif_transpose(image).convert("RGB")
    if size is None:
        return np.asarray(upright)
    side = min(upright.size)
    left, top = (upright.width - side) // 2, (upright.height - side) // 2
    square = upright.crop((left, top, left + side, top + side))
    return np.asarray(square if side == size else square.resize((size, size), Image.Resampling.LANCZOS))


def load_images(data: Path | str, size: int, cache: Path) -> ImageSet:
    """All images of `data` at `size`, from the cache if it is there."""
    if not 8 <= size <= 4096:
        raise BadInput(f"The image size is {size}, expected 8 to 4096 pixels.")
    sources = find_sources(data)
    digest = digest_sources(sources, size)
    array, index = cache / f"images-{digest}.safetensors", cache / f"images-{digest}.json"
    if not (array.exists() and index.exists()):
        _decode_all(sources, size, array, index)
    entry = read_json(index)
    pixels = open_array(array)
    if len(pixels) != len(entry["names"]):
        raise BadInput(
            f"{array} and {index.name} do not belong together. Delete both: they will be made again."
        )
    tell_skipped(entry["skipped"], len(pixels), index)
    kept = [s.home for s in sources if s.name not in entry["skipped"]]
    homes = kept if len(kept) == len(pixels) else None
    return ImageSet(pixels, entry["names"], digest, entry["skipped"], homes)


def tell_skipped(skipped: dict[str, str], kept: int, index: Path) -> None:
    """A warning that names a few of the files that were left out."""
    if skipped:
        few = "; ".join(f"{name}: {reason}" for name, reason in list(skipped.items())[:3])
        warnings.warn(
            f"{len(skipped)} files were left out, {kept} are used "
            f"({few}{' …' if len(skipped) > 3 else ''}). All: {index}",
            stacklevel=3,
        )


def digest_sources(sources: Sequence[Source], size: int) -> str:
    """A short name for what decoding these sources at this size gives."""
    h = hashlib.sha256(f"{_FORMAT} {size}".encode())
    for s in sources:
        length = s.path.stat().st_size if s.size is None else s.size
        h.update(f"\0{s.name}\0{s.offset}\0{length}\0{s.path.stat().st_mtime_ns}".encode())
    return h.hexdigest()[:16]


def _decode_all(sources: Sequence[Source], size: int, array: Path, index: Path) -> None:
    from tqdm import tqdm

    def attempt(source: Source) -> np.ndarray | str:
        try:
            return decode_image(source.read(), size)
        except Exception as error:  # Pillow's decoders raise many types; each one only costs this file
            return f"{type(error).__name__}: {error}"

    names: list[str] = []
    skipped: dict[str, str] = {}
    with ArrayWriter(array, "uint8") as writer, ThreadPoolExecutor(torch.get_num_threads()) as pool:
        for start in tqdm(
            range(0, len(sources), 256), desc="decode", unit="x256", leave=False, disable=None
        ):  # bounded memory
            block = sources[start : start + 256]
            results = list(pool.map(attempt, block))
            good = [(s, r) for s, r in zip(block, results, strict=True) if isinstance(r, np.ndarray)]
            skipped.update({s.name: r for s, r in zip(block, results, strict=True) if isinstance(r, str)})
            names.extend(s.name for s, _ in good)
            if good:
                writer.append(np.stack([r for _, r in good]))
        if not names:
            raise BadInput(
                f"None of the {len(sources)} images could be decoded; the first error: "
                f"{next(iter(skipped.values()))}"
            )
    write_text(index, json.dumps({"names": names, "skipped": skipped}))
