"""What a family's operator is trained on: pairs of latents, made anew for every step, or encoded beforehand.

    fresh    picture, degradation, noise and both encodings are made as they are needed
    stored   each of some pictures is degraded N times; all encodings lie in a file, and a step reads from it.
             For codecs that cost more than the operator's own gradient, such as TAESD on a CPU. With N = 0
             only the pictures are stored, for a student (paseo.train.teacher)

What is stored are the latents alone: which degradation and which noise made row i, k follows from the seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor, nn

from paseo.base import Codec, Degradation
from paseo.degrade import Compose
from paseo.train.draws import FamilyDraw
from paseo.train.latents import Latents, codec_digest, digest, encode, encode_rows
from paseo.train.loop import derive
from paseo.train.measure import noisy
from paseo.train.pictures import Pictures

if TYPE_CHECKING:
    from accelerate import Accelerator


@dataclass(frozen=True, eq=False)
class Sample:
    """A batch: z, E(y), and what lies between them."""

    z: Tensor  # (B, c, h, w)
    target: Tensor
    degradations: list[Degradation]
    s: Tensor  # (B,), on [-1,1] images
    side: int  # of the pictures, in pixels


class Samples(Protocol):
    """Where batches come from."""

    def __call__(self, index: Tensor, rng: torch.Generator) -> Sample: ...


@dataclass(frozen=True, eq=False)
class FreshSamples:
    """Everything is drawn for the batch at hand."""

    codec: Codec
    pictures: Pictures
    draw: FamilyDraw
    device: torch.device
    bf16: bool

    def __call__(self, index: Tensor, rng: torch.Generator) -> Sample:
        x = self.pictures.draw(index, rng)
        degradations = [self.draw(rng, x.shape[-1]) for _ in range(len(x))]
        s = torch.tensor([self.draw.noise(rng) for _ in range(len(x))])
        lifted = torch.cat([measured(a, x[i : i + 1], s[i : i + 1], rng) for i, a in enumerate(degradations)])
        both = encode(self.codec, torch.cat([x, lifted]), self.device, self.bf16)
        z, target = both.chunk(2)
        return Sample(z, target, degradations, s, int(x.shape[-1]))


@dataclass(frozen=True, eq=False)
class StoredPictures:
    """Pictures of one side, one after the other: picture i is always the same."""

    pictures: Pictures
    side: int
    count: int
    seed: int

    def __len__(self) -> int:
        return self.count

    def batch(self, positions: range) -> Tensor:
        rng = torch.Generator().manual_seed(derive(self.seed, self.side, positions.start, -6))
        return self.pictures.examples(positions, self.side, rng)


class StoredSamples:
    """`count` pictures of each side, `variants` measurements of each, encoded once."""

    def __init__(
        self, fresh: FreshSamples, count: int, variants: int, seed: int, cache: Path, accelerator: Accelerator
    ) -> None:
        self.draw, self.device, self.seed = fresh.draw, fresh.device, seed
        if isinstance(fresh.codec, nn.Module):  # a third less time on CPUs
            fresh.codec.to(memory_format=torch.channels_last)  # ty: ignore[no-matching-overload]  (not in its stub)
        self.count, self.variants, self.sides = count, variants, fresh.pictures.sides
        self.rows = {side: self._encoded(fresh, side, cache, accelerator) for side in self.sides}

    def __call__(self, index: Tensor, rng: torch.Generator) -> Sample:
        side = self.sides[int(torch.randint(len(self.sides), (1,), generator=rng))]
        if not self.variants:
            return self._unmeasured(side, index, rng)
        k = torch.randint(self.variants, (len(index),), generator=rng)
        rows, latents = (index % self.count).numpy(), self.rows[side]
        made = [self._made(side, int(i), int(j)) for i, j in zip(rows, k, strict=True)]
        return Sample(
            latents(rows, 0 * rows).to(self.device),
            latents(rows, 1 + k.numpy()).to(self.device),
            [degradation for degradation, _, _ in made],
            torch.tensor([s for _, s, _ in made]),
            side,
        )

    def _unmeasured(self, side: int, index: Tensor, rng: torch.Generator) -> Sample:
        """For a student, whose teacher gives the target: stored pictures, fresh degradations."""
        rows = (index % self.count).numpy()
        z = self.rows[side](rows, 0 * rows).to(self.device)
        degradations = [self.draw(rng, side) for _ in range(len(rows))]
        s = torch.tensor([self.draw.noise(rng) for _ in range(len(rows))])
        return Sample(z, z, degradations, s, side)

    def _made(self, side: int, i: int, k: int) -> tuple[Degradation, float, torch.Generator]:
        """Degradation and s of measurement k of picture i, and the generator of its noise."""
        rng = torch.Generator().manual_seed(derive(self.seed, side, i, k, -7))
        return self.draw(rng, side), self.draw.noise(rng), rng

    def _encoded(self, fresh: FreshSamples, side: int, cache: Path, accelerator: Accelerator) -> Latents:
        def row(x: Tensor, position: int) -> Tensor:
            columns = [x]
            for k in range(self.variants):
                made = [self._made(side, position + i, k) for i in range(len(x))]
                columns.append(
                    torch.cat(
                        [
                            measured(a, x[i : i + 1], torch.tensor([s]), rng)
                            for i, (a, s, rng) in enumerate(made)
                        ]
                    )
                )
            encoded = [encode(fresh.codec, y, fresh.device, fresh.bf16).cpu() for y in columns]
            return torch.stack(encoded, dim=1)

        pictures = StoredPictures(fresh.pictures, side, self.count, self.seed)
        parts = (fresh.pictures.digest, side, self.count, self.variants, self.seed, self.draw.kinds)
        key = digest("family", codec_digest(fresh.codec), fresh.bf16, *parts)
        return encode_rows(pictures, row, cache, key, accelerator)


@torch.no_grad()
def measured(degradation: Degradation, x: Tensor, s: Tensor, rng: torch.Generator) -> Tensor:
    """lift(A(x) + s·n) in float32, with the noise that lies inside a chain."""
    with torch.autocast(x.device.type, enabled=False):
        if isinstance(degradation, Compose):
            y = degradation.draw(x, lambda v: torch.randn(v.shape, generator=rng).to(v))
        else:
            y = degradation(x)
        return degradation.lift(noisy(y, s, rng), (x.shape[2], x.shape[3]))
