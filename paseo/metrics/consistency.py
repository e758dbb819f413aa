"""Consistency with the measurement:  RMS of A(x̂) − A(x),  between the re-degraded reconstruction and the noiseless measurement.

In [-1,1] units, so that it can be set beside the noise level there (2σ_y). A reconstruction can invent what A
does not see and still have 0; it is bounded below by what the autoencoder cannot represent.
"""

from __future__ import annotations

from collections.abc import Callable

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
