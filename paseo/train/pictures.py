"""What a training run sees: whole pictures that were decoded once, or random crops of pictures of any size.

    whole   every picture's centre square at one size, cached; mirrored at random
    crops   scale, place and mirror drawn on the fly (paseo.train.crops), of one of several sides per batch

Both give batches (B,3,side,side) in [-1,1] and the same held-out pictures every time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from paseo.errors import BadInput
from paseo.train.crops import CropSet, centre_crop
from paseo.train.data import ImageSet, Source, digest_sources, find_sets, load_images, to_tensor
from paseo.train.loop import derive
from paseo.train.splits import split

DATA_HELP = (
    "Pictures: a folder (with sub-folders and tar files), a tar file, or a text list; several with commas "
    "between them, for crops with their shares: photos=0.8,faces=0.2."
)
CROPS_HELP = (
    "Sides of random crops in pixels, such as 128,192: cut on the fly from pictures of any size, at a random "
    "scale and mirrored; a side named twice is drawn twice as often, and of a larger one a batch has fewer. "
    "Without it every picture's centre square is used at SIZE."
)


class Pictures(Protocol):
    """Training pictures and held-out ones."""

    @property
    def count(self) -> int: ...  # pictures to train on
    @property
    def sides(self) -> Sequence[int]: ...  # of the pictures, in pixels
    @property
    def digest(self) -> str: ...  # of all that decides what they are
    def draw(self, index: Tensor, rng: torch.Generator) -> Tensor:
        """One training picture for each entry of `index`; crops are drawn without regard to it, and fewer of
        a larger side, so that every batch costs the same.
        """
        ...

    def examples(self, positions: range, side: int, rng: torch.Generator) -> Tensor:
        """Training pictures to be stored; crops are drawn from `rng` alone."""
        ...

    def held_out(self, limit: int) -> Tensor:
        """The first `limit` validation pictures, always the same."""
        ...

    def sample(self, count: int) -> Tensor:
        """About `count` training pictures, always the same."""
        ...


@dataclass(frozen=True, eq=False)
class WholePictures:
    """Pictures at one size, from the cache."""

    images: ImageSet
    rule: str = "auto"
    mirror: bool = True
    train: np.ndarray = field(init=False)
    validation: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        parts = split(self.images.names, self.rule, self.images.homes)
        object.__setattr__(self, "train", parts["train"])
        object.__setattr__(self, "validation", parts["validation"])

    @property
    def count(self) -> int:
        return len(self.train)

    @property
    def sides(self) -> Sequence[int]:
        return (self.images.pixels.shape[1],)

    @property
    def digest(self) -> str:
        return f"{self.images.digest} {self.rule} {self.mirror}"

    def examples(self, positions: range, side: int, rng: torch.Generator) -> Tensor:
        return self.draw(torch.tensor(positions) % self.count, rng)

    def draw(self, index: Tensor, rng: torch.Generator) -> Tensor:
        flip = (torch.rand(len(index), generator=rng) < 0.5) & self.mirror
        x = self.images.batch(self.train[index.numpy()])
        return torch.where(flip[:, None, None, None], x.flip(3), x)

    def held_out(self, limit: int) -> Tensor:
        return self.images.batch(self.validation[:limit])

    def sample(self, count: int) -> Tensor:
        return self.images.batch(self.train[:: max(1, self.count // count)][:count])


@dataclass(frozen=True, eq=False)
class CroppedPictures:
    """Random crops; the held-out ones are centre crops of the first side."""

    train: Sequence[Sequence[Source]]  # one list per set
    validation: Sequence[Source]
    shares: Sequence[float]
    sides: Sequence[int]
    seed: int = 0

    @property
    def count(self) -> int:
        return sum(map(len, self.train))

    @property
    def digest(self) -> str:
        return " ".join(digest_sources(sources, 0) for sources in self.train) + f" {list(self.shares)}"

    def examples(self, positions: range, side: int, rng: torch.Generator) -> Tensor:
        return CropSet(self.train, self.shares, side).batch(len(positions), rng)

    def draw(self, index: Tensor, rng: torch.Generator) -> Tensor:
        side = self.sides[int(torch.randint(len(self.sides), (1,), generator=rng))]
        count = max(1, round(len(index) * (min(self.sides) / side) ** 2))  # every batch as many pixels
        return CropSet(self.train, self.shares, side).batch(count, rng)

    def held_out(self, limit: int) -> Tensor:
        side = self.sides[0]
        return to_tensor(np.stack([centre_crop(s.read(), side) for s in self.validation[:limit]]))

    def sample(self, count: int) -> Tensor:
        rng = torch.Generator().manual_seed(derive(self.seed, -5))
        return CropSet(self.train, self.shares, self.sides[0]).batch(count, rng)


def load_pictures(
    data: Path | str,
    *,
    size: int,
    crops: Sequence[int],
    rule: str,
    cache: Path,
    seed: int = 0,
    mirror: bool = True,
) -> Pictures:
    """The pictures of `data`, whole at `size` or, with sides of crops, cut as they are needed."""
    sets = find_sets(data)
    if not crops:
        if any(share is not None for _, share in sets):
            raise BadInput(
                f"data is {str(data)!r}: shares need crops; whole pictures are all seen equally often."
            )
        return WholePictures(load_images(data, size, cache), rule, mirror)
    everything = [source for sources, _ in sets for source in sources]
    parts = split([s.name for s in everything], rule, [s.home for s in everything])
    train = set(parts["train"].tolist())
    chosen: list[list[Source]] = []
    shares: list[float] = []
    start = 0
    for sources, share in sets:
        own = [s for i, s in enumerate(sources, start) if i in train]
        start += len(sources)
        if own:
            chosen.append(own)
            shares.append(float(len(own)) if share is None else share)
    return CroppedPictures(chosen, _spread([everything[i] for i in parts["validation"]]), shares, crops, seed)


def check_crops(crops: Sequence[int], multiple: int) -> None:
    """Sides that the codec can hold."""
    if bad := [side for side in crops if side < 16 or side % multiple]:
        raise BadInput(f"crops has a side of {bad[0]} pixels, expected multiples of {multiple} from 16.")


def _spread(sources: list[Source]) -> list[Source]:
    """A fixed order in which the sets are mixed, so that the first few hold some of each."""
    return sorted(sources, key=lambda s: derive(len(s.name), *s.name.encode()))
