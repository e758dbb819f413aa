"""Images to be scored on: found in folders, tar files or lists, decoded to 8-bit squares, known by name and
by content.

Everything random about an image is seeded by its content, never by its place in a list: the measurement's
noise and the sampler's noise of an image are the same alone, in any shard and in any order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from paseo.errors import BadInput
from paseo.seeds import of_image
from paseo.train.data import Source, decode_image, find_sources
from paseo.train.splits import split

Part = Literal["all", "train", "validation", "test"]


@dataclass(frozen=True, eq=False)
class Truth:
    """A ground truth."""

    name: str  # its file's, without folder and ending
    pixels: np.ndarray  # (H, W, 3) uint8

    @cached_property
    def sha256(self) -> str:
        """Of size and pixels, so that it does not depend on how they were stored."""
        return hashlib.sha256(
            repr(self.pixels.shape).encode() + np.ascontiguousarray(self.pixels).tobytes()
        ).hexdigest()

    @property
    def size(self) -> tuple[int, int]:
        return int(self.pixels.shape[0]), int(self.pixels.shape[1])

    @property
    def tensor(self) -> Tensor:
        """(3, H, W) in [0,1]."""
        return torch.from_numpy(self.pixels.copy()).permute(2, 0, 1).to(torch.float32) / 255

    def seed(self, purpose: str, seed: int) -> int:
        """63 bits for one purpose ("measurement", "sample") and run seed of this image."""
        return of_image(seed, self.sha256, purpose)


def load_pictures(
    data: str | Path,
    part: Part = "all",
    first: int = 0,
    count: int | None = None,
    size: int | None = None,
    rule: str = "auto",
) -> list[Truth]:
    """Images `first` … `first + count − 1` of a part of the data, in the order of their names; cropped and
    resized to `size`.

    The parts are those of training (`paseo.train.splits.split`): for the synthetic faces test is 0–499,
    validation 500–749.
    """
    sources = sorted(find_sources(data), key=lambda s: s.name)
    if part != "all":
        positions = split([s.name for s in sources], rule, [s.home for s in sources])[part]
        sources = [sources[int(i)] for i in positions]
    chosen = sources[first : None if count is None else first + count]
    if not chosen or (count is not None and len(chosen) < count):
        wanted = "images" if count is None else f"{count} images from position {first}"
        raise BadInput(f"{data} has {len(sources)} images in the part {part!r}; {wanted} were asked for.")
    pictures = [Truth(s.stem, _decoded(s, size)) for s in chosen]
    _check_names(pictures, data)
    return pictures


def stack(pictures: Sequence[Truth]) -> Tensor:
    """(B, 3, H, W) in [0,1]; images of one size only."""
    if len({p.size for p in pictures}) > 1:
        raise BadInput(
            "Images of several sizes cannot be computed at the same time. Give a size to bring them to."
        )
    return torch.stack([p.tensor for p in pictures])


def _decoded(source: Source, size: int | None) -> np.ndarray:
    try:
        return decode_image(source.read(), size)
    except (
        Exception
    ) as error:  # Pillow's decoders raise many types; a benchmark must not silently lose an image
        raise BadInput(f"{source.name} of {source.path} cannot be decoded: {error}.") from error


def _check_names(pictures: Sequence[Truth], data: str | Path) -> None:
    seen: set[str] = set()
    for p in pictures:
        if p.name in seen:
            raise BadInput(
                f"{data} holds two images named {p.name!r}. Rows are known by these names: rename one."
            )
        seen.add(p.name)
