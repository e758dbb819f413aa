"""What all degradations share: checks, changes of unit, and the product with one matrix per side."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from paseo.base import HasParams
from paseo.errors import BadInput
from paseo.units import to_signed as to_signed
from paseo.units import to_unit as to_unit

Size = tuple[int, int]
"""(height, width) in pixels."""


def size_of(x: Tensor) -> Size:
    """(H, W) of a batch of images."""
    return int(x.shape[-2]), int(x.shape[-1])


def check_images(x: object, what: str = "The image", channels: int | None = None) -> None:
    """A float tensor (B,C,H,W) with at least one pixel, or a BadInput that says what was given instead."""
    wanted = f"a floating-point tensor (B,{channels or 'C'},H,W)"
    if not isinstance(x, Tensor):
        raise BadInput(
            f"{what} must be {wanted}, got {type(x).__name__}. For files use `paseo degrade`, for PIL "
            "images convert first."
        )
    if x.ndim != 4 or 0 in x.shape or (channels is not None and x.shape[1] != channels):
        raise BadInput(f"{what} must be {wanted}, got the shape {tuple(x.shape)}.")
    if not x.is_floating_point():
        raise BadInput(
            f"{what} must be {wanted}, got {x.dtype}. Convert 8-bit values with `x.float() / 127.5 - 1`."
        )


def check_size(size: Size | None, y: Tensor, fits: Size, what: str) -> None:
    """`size` is a plausible image size for the measurement y: it would have been measured with the size
    `fits`.
    """
    if size is not None and fits != size_of(y):
        raise BadInput(
            f"{what}: an image of {size[0]}×{size[1]} gives a measurement of {fits[0]}×{fits[1]}, got one "
            f"of {y.shape[-2]}×{y.shape[-1]}."
        )


def check_positive(value: float, what: str, at_least: float = 0.0) -> None:
    """A finite number above zero (and not below `at_least`)."""
    if not (isinstance(value, int | float) and math.isfinite(value) and value > 0 and value >= at_least):
        raise BadInput(
            f"{what} must be a finite number of {f'at least {at_least:g}' if at_least else 'more than 0'}, "
            f"got {value!r}."
        )


def params_of(degradation: object) -> dict[str, object]:
    """What is needed to build it again, for records; empty where it does not tell."""
    return degradation.params if isinstance(degradation, HasParams) else {}


def wide(x: Tensor) -> Tensor:
    """Half-precision images are worked on in float32; float32 and float64 stay as they are."""
    return x if x.dtype in (torch.float32, torch.float64) else x.float()


def separable(x: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """R x Cᵀ for every channel; the matrices are in the precision of `wide(x)`."""
    return (rows @ (wide(x) @ columns.mT)).to(x.dtype)
