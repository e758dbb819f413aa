"""Anchors: the clean latent from which a correction is taken, z_a = μ_z + c1 (z − μ_z) + c2 (μ̃_z − μ_z).

Two numbers make the whole family (paper, "Anchor choice"): how much of the proxy's noise is reused, how much
is fresh.
"""

from __future__ import annotations

import math
from typing import Literal

Anchor = Literal["arc", "fresh", "denoiser", "linear", "noisy"]
# at most √2 η_z,min from z; the others lie η_z away, at latents of no image
NEAR: tuple[Anchor, ...] = ("arc", "denoiser", "linear")


def coefficients(anchor: Anchor, beta: float) -> tuple[float, float]:
    """(c1, c2) for β = η_z,min / η_z."""
    return {
        "arc": (math.sqrt(max(1.0 - beta * beta, 0.0)), beta),  # keeps the prior's spread: c1² + c2² = 1
        "fresh": (0.0, 1.0),  # PASEO†: the perturbed prior mean, exact for linear H
        "denoiser": (1.0, 0.0),  # the current estimate itself
        "linear": (1.0 - beta, beta),
        "noisy": (1.0, 1.0),
    }[anchor]
