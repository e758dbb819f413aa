"""Small pictures for training tests."""

from __future__ import annotations

import numpy as np
from PIL import Image


def picture(seed: int, side: int = 32) -> Image.Image:
    """Smooth colours with an edge: something a network can learn from."""
    rng = np.random.default_rng(seed)
    small = Image.fromarray(rng.integers(0, 256, (4, 4, 3), dtype=np.uint8)).resize(
        (side, side), Image.Resampling.BICUBIC
    )
    pixels = np.array(small)
    pixels[: rng.integers(4, side - 4), : rng.integers(4, side - 4)] //= 2
    return Image.fromarray(pixels)
