"""Latents of a whole image set, encoded once: float16 shards in safetensors, each image also mirrored.

A shard appears only when complete, so that an interrupted encoding goes on where it stopped; several
processes take turns. float16 keeps 11 bits of a unit-variance latent, a rounding of about 3e-4, far below
what a network here resolves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from paseo.base import Codec, HasHash, HasLatentSpace
from paseo.codecs.weights import weights_hash
from paseo.train.arrays import ArrayWriter, open_array
from paseo.train.data import ImageSet

if TYPE_CHECKING:
    from accelerate import Accelerator

SHARD = 2048  # images per file
_BATCH = 32


@dataclass(frozen=True, eq=False)
class Latents:
    """Rows (variants, c, h, w) per image, memory-mapped; for clean latents the variants are: as it is,
    mirrored.
    """

    shards: Sequence[np.ndarray]

    def __call__(self, index: np.ndarray, variant: np.ndarray) -> Tensor:
        """(B, c, h, w) float32 of image index[i] in variant[i]."""
        rows = [
            self.shards[i // SHARD][i % SHARD, v]
            for i, v in zip(index.tolist(), variant.tolist(), strict=True)
        ]
        return torch.from_numpy(np.stack(rows).astype(np.float32))

    @property
    def shape(self) -> tuple[int, int, int]:
        """(c, h, w)."""
        c, h, w = self.shards[0].shape[2:]
        return int(c), int(h), int(w)


class Blocks(Protocol):
    """Images that can be read block by block."""

    def __len__(self) -> int: ...
    def batch(self, positions: range, /) -> Tensor: ...


def encode_rows(
    images: Blocks, row: Callable[[Tensor, int], Tensor], cache: Path, key: str, accelerator: Accelerator
) -> Latents:
    """Apply `row(x, position)` to blocks x of images at `position`… and keep its (B, variants, c, h, w)
    results.
    """
    from tqdm import tqdm

    paths = [cache / f"latents-{key}-{i:04d}.safetensors" for i in range(-(-len(images) // SHARD))]
    mine = [
        i
        for i in range(len(paths))
        if i % accelerator.num_processes == accelerator.process_index and not paths[i].exists()
    ]
    bar = tqdm(
        total=SHARD * len(mine),
        desc="encode",
        unit="image",
        disable=None if mine and accelerator.is_main_process else True,
    )
    for number in mine:
        end = min((number + 1) * SHARD, len(images))
        with ArrayWriter(paths[number], "float16") as writer:
            for start in range(number * SHARD, end, _BATCH):
                stop = min(start + _BATCH, end)
                writer.append(row(images.batch(range(start, stop)), start).cpu().numpy())
                bar.update(stop - start)
    bar.close()
    accelerator.wait_for_everyone()
    return Latents([open_array(p) for p in paths])


def clean_latents(
    codec: Codec, images: ImageSet, cache: Path, accelerator: Accelerator, bf16: bool
) -> Latents:
    """E(x) and E(mirrored x) of every image."""

    def row(x: Tensor, position: int) -> Tensor:
        both = torch.stack([x, x.flip(3)], dim=1).flatten(0, 1)
        return encode(codec, both, accelerator.device, bf16).unflatten(0, (len(x), 2))

    key = digest("clean", images.digest, codec_digest(codec), bf16)
    return encode_rows(images, row, cache, key, accelerator)


@torch.no_grad()
def encode(codec: Codec, x: Tensor, device: torch.device, bf16: bool) -> Tensor:
    """E(x) in float32 on `device`, without gradients, computed in bfloat16 if asked for."""
    with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
        return codec.encode(x.to(device)).float()


def codec_digest(codec: Codec) -> str:
    """SHA-256 that names the codec's latent space: its own record, or else over all its weights."""
    known = codec.hash if isinstance(codec, HasHash) else ""
    if known or not isinstance(codec, nn.Module):
        return str(known)
    return weights_hash(codec.state_dict())


def latent_space_of(codec: Codec, otherwise: str) -> str:
    """The name of the codec's latent space, or another one where it has none."""
    return codec.latent_space if isinstance(codec, HasLatentSpace) else otherwise


def digest(*parts: object) -> str:
    """A short name for a cache file."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
