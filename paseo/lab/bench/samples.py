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

from paseo.base import NeedsMultiple
from paseo.errors import BadInput
from paseo.images import to_unit
from paseo.lab.bench.pictures import load_pictures, stack
from paseo.metrics import KernelDistance, kernel_distance, vgg_features
from paseo.models import Model
from paseo.noise import Noise
from paseo.samplers.unconditional import unconditional
from paseo.sheet import contact_sheet

WIDTH, LARGEST = 1024, 64  # of the sheet: pixels of a row, images


def draw_images(
    model: Model,
    count: int,
    seed: int,
    steps: int,
    batch: int = 16,
    tick: Callable[[int], Any] = lambda n: None,
    size: int | None = None,
) -> Tensor:
    """(count, 3, s, s) in [0,1], s the trained side unless given; image i has the seed `seed + i`."""
    size = size or model.size
    unit = model.codec.factor * (model.prior.multiple if isinstance(model.prior, NeedsMultiple) else 1)
    if size % unit:
        raise BadInput(f"size={size} is no multiple of {unit}, which the model {model.name} needs.")
    return torch.cat(list(_batches(model, size, count, seed, steps, batch, tick)))


@torch.no_grad()
def _batches(
    model: Model, size: int, count: int, seed: int, steps: int, batch: int, tick: Callable[[int], object]
) -> Iterator[Tensor]:
    cells = size // model.codec.factor
    latent = (model.latent_channels, cells, cells)
    for first in range(0, count, batch):
        seeds = [seed + i for i in range(first, min(first + batch, count))]
        z = unconditional(model.prior, (len(seeds), *latent), Noise(seeds), steps)
        tick(len(seeds))
        yield to_unit(model.codec.decode(z)).clamp(0, 1).cpu()


def sheet(images: Tensor) -> Image.Image:
    """Up to 64 of the images, as many in a row as 1,024 pixels hold."""
    shown, side = list(images[:LARGEST]), images.shape[-1]
    columns = max(1, WIDTH // side)
    return contact_sheet([shown[i : i + columns] for i in range(0, len(shown), columns)], side=side)


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
