"""Two questions that only sound alike.

consistency   RMS of A(x̂) − A(x)   against the noiseless measurement of the truth, in [-1,1] units: how
                                    much of what A sees was restored; 0 whatever was invented where A sees
                                    nothing.
misfit        RMS of A(x̂) − y      against the measurement itself, in [0,1] units, over what was seen: about
                                    σ_y where the restoration explains it. It needs no truth.

Both are bounded below by what the autoencoder cannot represent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from paseo.metrics.pairs import pair


def consistency(x: Tensor, reference: Tensor, degradation: Callable[[Tensor], Tensor]) -> Tensor:
    """RMS distance in [-1,1] units of each image's measurement to the reference's, (B,); images (B,3,H,W) in
    [0,1].

    `degradation` is A without noise on images in [-1,1], such as `paseo.task("sr4")`.
    """
    x, reference = pair(x, reference)
    error = degradation(x * 2 - 1) - degradation(reference * 2 - 1)
    return error.square().mean(dim=(1, 2, 3)).sqrt()


def misfit(x: Tensor, y: Tensor, degradation: Callable[[Tensor], Tensor]) -> Tensor:
    """RMS distance in [0,1] units of each image's measurement to y, (B,); images (B,3,H,W) and y in [0,1].

    Hidden pixels, where there is nothing but noise to compare with, do not count.
    """
    error = ((degradation(x * 2 - 1) + 1) / 2 - y).square()
    seen = torch.ones_like(error)
    if isinstance(degradation, MasksPixels):
        seen = degradation.observed_at(*y.shape[-2:]).to(error).expand_as(error)
    return ((error * seen).sum(dim=(1, 2, 3)) / seen.sum(dim=(1, 2, 3))).sqrt()


@runtime_checkable
class MasksPixels(Protocol):
    """A degradation that hides pixels."""

    def observed_at(self, height: int, width: int) -> Tensor: ...
