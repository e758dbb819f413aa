"""The two scales and the way between them.

public   images in [0,1], σ_y for such images     files, PIL, `restore`, records, tables
inside   images in [-1,1], noise on that scale    codecs, degradations, `Problem`, samplers

A measurement changes scale once, in `problem.pose`, and its noise level with it: σ = 2σ_y. Nothing behind
that door multiplies by 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def to_signed(x: Tensor) -> Tensor:
    """[0,1] → [-1,1], as codecs and degradations want it."""
    return x * 2 - 1


def to_unit(x: Tensor) -> Tensor:
    """[-1,1] → [0,1]."""
    return (x + 1) / 2


def signed_std(sigma_y: float) -> float:
    """A standard deviation of [0,1] images → the same noise on [-1,1] images."""
    return 2.0 * sigma_y


def unit_std(sigma: float) -> float:
    """A standard deviation of [-1,1] images → the same noise on [0,1] images."""
    return sigma / 2.0
