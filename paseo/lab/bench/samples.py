"""How good is a prior by itself? A sheet of its own images, and their distance from real ones.

The distance is the unbiased kernel distance on VGG16 features (`paseo.metrics.kernel_distance`). Real images
other than the reference set have one too, the floor: a perfect model reaches it, within the standard errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from paseo.images import to_unit
from paseo.lab.bench.pictures import load_pictures, stack
from paseo.metrics import KernelDistance, kernel_distance, vgg_features
from paseo.models import Model
from paseo.noise import Noise
from paseo.samplers.unconditional import unconditional
from paseo.sheet import contact_sheet

COLUMNS, LARGEST = 8, 64  # of the sheet


def draw_images(
    model: Model,
    count: int,
    seed: int,
    steps: int,
    batch: int = 16,
    tick: Callable[[int], Any] = lambda n: None,
) -> Tensor:
    """(count, 3, s, s) in [0,1]; image i has the seed `seed + i`."""
    parts = list(_batches(model, count, seed, steps, batch, tick))
    return torch.cat(parts)


@torch.no_grad()
def _batches(
    model: Model, count: int, seed: int, steps: int, batch: int, tick: Callable[[int], object]
) -> Iterator[Tensor]:
    latent = tuple(model.codec.encode(torch.zeros(1, 3, model.size, model.size)).shape[1:])
    for first in range(0, count, batch):
        seeds = [seed + i for i in range(first, min(first + batch, count))]
        z = unconditional(model.prior, (len(seeds), *latent), Noise(seeds), steps)
        tick(len(seeds))
        yield to_unit(model.codec.decode(z)).clamp(0, 1).cpu()


def sheet(images: Tensor) -> Image.Image:
    """Up to 64 of the images, eight to a row."""
    shown = list(images[:LARGEST])
    return contact_sheet(
        [shown[i : i + COLUMNS] for i in range(0, len(shown), COLUMNS)], side=images.shape[-1]
    )


@dataclass(frozen=True)
class Distances:
    """Kernel distances from held-out images, times 1000."""

    samples: KernelDistance  # of the prior's images
    floor: KernelDistance  # of as many training images

    def to_json(self) -> dict[str, Any]:
        return {
            name: {
                "distance": 1e3 * d.value,
                "standard_error": 1e3 * d.standard_error,
                "images": list(d.images),
            }
            for name, d in (("samples", self.samples), ("floor", self.floor))
        }


def distances(images: Tensor, data: str | Path) -> Distances:
    """The images, and as many of the data's training part, against as many of its test part."""
    count, size = len(images), images.shape[-1]
    real = {
        part: vgg_features(stack(load_pictures(data, part, 0, count, size))) for part in ("test", "train")
    }
    return Distances(
        kernel_distance(vgg_features(images), real["test"]), kernel_distance(real["train"], real["test"])
    )
