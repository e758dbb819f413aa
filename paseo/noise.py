"""Randomness as an argument: one generator per sample, so that a sample alone equals the same sample in a
batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import SupportsIndex

import torch
from torch import Tensor


class Noise:
    """Independent Gaussian streams, one per sample of the batch, drawn on the CPU for the same numbers
    everywhere.
    """

    def __init__(self, seeds: SupportsIndex | Iterable[SupportsIndex | torch.Generator]) -> None:
        entries = list(seeds) if isinstance(seeds, Iterable) else [seeds]
        if not entries:
            raise ValueError("Noise needs at least one seed.")
        self.generators = [g if isinstance(g, torch.Generator) else _seeded(g) for g in entries]
        self.seeds = [g.initial_seed() for g in self.generators]

    def __len__(self) -> int:
        return len(self.generators)

    def like(self, x: Tensor) -> Tensor:
        """Standard normal noise of x's shape, dtype and device; x[i] is served by the i-th generator."""
        return self.normal(x.shape).to(device=x.device, dtype=x.dtype)

    def normal(self, shape: Sequence[int]) -> Tensor:
        """The same for a shape (B, ...), in float32 on the CPU whatever torch's default dtype is."""
        if shape[0] != len(self.generators):
            raise ValueError(f"A batch of {shape[0]} needs as many seeds, got {len(self.generators)}.")
        one = tuple(shape[1:])
        draws = (torch.randn(one, generator=g, device=g.device, dtype=torch.float32) for g in self.generators)
        return torch.stack([draw.cpu() for draw in draws])

    def signs(self, x: Tensor) -> Tensor:
        """Rademacher probes (±1) of x's shape, dtype and device."""
        return torch.where(self.normal(x.shape) < 0, -1.0, 1.0).to(device=x.device, dtype=x.dtype)


def _seeded(seed: SupportsIndex) -> torch.Generator:
    number = seed.__index__()
    if not 0 <= number < 2**63:
        raise ValueError(f"A seed is an integer from 0 to 2^63 - 1, got {number}.")
    return torch.Generator("cpu").manual_seed(number)
