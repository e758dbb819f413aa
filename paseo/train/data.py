"""Training images: found in folders, tar files or lists, decoded once into one memory-mapped uint8 array, and
split.

The cache is a safetensors file (N, size, size, 3) beside a JSON index with the names; both are named after a
digest of the sources, so that a changed folder makes a new cache. A file that cannot be decoded is reported
and skipped.

Splits depend on a file's name alone. `number` is the split of everything this project publishes on the
synthetic faces, whose names are generator seeds: test 0–499, validation 500–749, training from 750; numbers
of a million and more belong to no split. `hash` puts a fixed share of any other names aside. `auto` takes
`number` if all names are numbers and both training and validation get images, else `hash`.
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
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from paseo.errors import BadInput
from paseo.files import read_json, write_text
from paseo.train.arrays import ArrayWriter, open_array

Rule = Literal["auto", "number", "hash", "ffhq"]
Part = Literal["train", "validation", "test"]

IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff"})
_FORMAT = 1  # part of the digest: raise it when decoding changes
_TEST, _VALIDATION, _RESERVED = 500, 750, 1_000_000  # ends of the `number` ranges
_FFHQ = (1_000, 2_000, 70_000)  # of the `ffhq` ranges: 1,000 test, 1,000 validation, 68,000 training images
_HASHED_SHARE = 0.02  # of the names, for test and for validation each, under the `hash` rule


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


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Decoded images with their names."""

    pixels: np.ndarray  # (N, size, size, 3) uint8, memory-mapped
    names: list[str]
    digest: str  # of sources and size: names every cache derived from these pixels
    skipped: dict[str, str]  # name → reason

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


# ---------------------------------------------------------------------- finding


def find_sources(data: Path | str) -> list[Source]:
    """Every image of a folder (with sub-folders and tar files), one tar file, one image, or a text list of
    such paths.
    """
    root = Path(data)
    if not root.exists():
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


# ---------------------------------------------------------------------- decoding


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
    return ImageSet(pixels, entry["names"], digest, entry["skipped"])


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


# ---------------------------------------------------------------------- splitting


def split(names: Sequence[str], rule: Rule = "auto") -> dict[Part, np.ndarray]:
    """Positions of the training, validation and test images; training and validation are never empty."""
    if rule not in get_args(Rule):
        raise BadInput(f"The split rule is {rule!r}, expected one of {', '.join(get_args(Rule))}.")
    numbered = all(Path(n).stem.isdecimal() for n in names)
    if rule in ("number", "ffhq") and not numbered:
        stray = next(n for n in names if not Path(n).stem.isdecimal())
        raise BadInput(
            f"The split rule {rule!r} needs file names that are numbers, found {stray!r}. Use the rule "
            "'hash'."
        )
    if rule == "ffhq":
        return _group([_by_number(int(Path(n).stem), *_FFHQ) for n in names])
    if rule != "hash" and numbered:
        parts = _group([_by_number(int(Path(n).stem)) for n in names])
        if len(parts["train"]) and len(parts["validation"]):
            return parts
        if rule == "number":
            raise BadInput(
                "The split rule 'number' leaves no training (750 and up) or no validation (500–749) "
                "images. Use the rule 'hash'."
            )
    return _by_hash(names)


def _group(labels: Sequence[Part | None]) -> dict[Part, np.ndarray]:
    array = np.array([label or "" for label in labels])
    return {part: np.flatnonzero(array == part) for part in ("train", "validation", "test")}


def _by_number(
    number: int, test: int = _TEST, validation: int = _VALIDATION, reserved: int = _RESERVED
) -> Part | None:
    if number < test:
        return "test"
    if number < validation:
        return "validation"
    return "train" if number < reserved else None


def _by_hash(names: Sequence[str]) -> dict[Part, np.ndarray]:
    if len(names) < 2:
        raise BadInput(f"Training needs at least two images (one is kept for validation), got {len(names)}.")
    u = np.array([int.from_bytes(hashlib.sha256(n.encode()).digest()[:8], "big") / 2**64 for n in names])
    labels: list[Part | None] = ["validation" if v < 2 * _HASHED_SHARE else "train" for v in u]
    labels = ["test" if v < _HASHED_SHARE else label for v, label in zip(u, labels, strict=True)]
    if "validation" not in labels:  # a small set: the image nearest to the range stands in
        labels[int(np.argmin(np.where(np.array(labels) == "train", u, np.inf)))] = "validation"
    if "train" not in labels:
        labels[int(np.argmax(np.where(np.array(labels) == "validation", -1.0, u)))] = "train"
    return _group(labels)
