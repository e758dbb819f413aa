"""What the operator network is told besides the latent: the noise level and the position. Fixed functions, no
parameters.
"""

from __future__ import annotations

import torch
from torch import Tensor

EMBEDDING = 128  # entries of the noise embedding
NOISE_SCALE = 0.1  # s is divided by this before it is embedded
POSITION_SIZE = 64  # side for which the position map is stored
POSITION_FREQUENCIES = (1.0, 10000.0)
POSITION_CHANNELS = 4 * len(POSITION_FREQUENCIES)


def noise_embedding(s: Tensor | float, like: Tensor) -> Tensor:
    """e (B or 1, 128): even entries sin(a f_i), odd entries cos(a f_i), with a = s/0.1 and f_i =
    10000^(−i/63).
    """
    half = EMBEDDING // 2
    f = 10000.0 ** (-torch.arange(half, dtype=like.dtype, device=like.device) / (half - 1))
    a = torch.as_tensor(s, dtype=like.dtype, device=like.device).reshape(-1, 1) / NOISE_SCALE
    return torch.stack([torch.sin(a * f), torch.cos(a * f)], dim=-1).flatten(1)


def position_map(size: int = POSITION_SIZE) -> Tensor:
    """(1, 8, size, size): (sin, cos) of f·x per frequency, four channels of rows and four of columns, x from
    0 to 1.
    """
    x = torch.linspace(
        0, 1, size, dtype=torch.float64
    )  # f = 10000 needs float64 for the same digits on every machine
    waves = torch.stack([wave(f * x) for f in POSITION_FREQUENCIES for wave in (torch.sin, torch.cos)])
    rows, columns = waves[:, :, None].expand(-1, -1, size), waves[:, None, :].expand(-1, size, -1)
    return torch.cat([rows, columns])[None].float()
