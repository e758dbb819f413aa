"""Checks that all metrics share: two batches of images in [0,1] that can be compared, and the region that
counts.
"""

from __future__ import annotations

import torch
from torch import Tensor

from paseo.errors import BadInput

# more than 5 % of values beyond [-0.5, 1.5] are not noise or overshoot but another range
_FAR, _MANY = 0.5, 0.05


def pair(x: Tensor, reference: Tensor) -> tuple[Tensor, Tensor]:
    """Both images (B,3,H,W) in [0,1], clamped to it as saving would, at least in float32. Anything else is a
    BadInput.
    """
    for what, image in (("The image", x), ("The reference", reference)):
        check_images(image, what)
    if x.shape != reference.shape:
        raise BadInput(
            f"Only images of one shape can be compared, got {tuple(x.shape)} and {tuple(reference.shape)}."
        )
    dtype = torch.float64 if torch.float64 in (x.dtype, reference.dtype) else torch.float32
    return x.to(dtype).clamp(0, 1), reference.to(x.device, dtype).clamp(0, 1)


def check_images(x: object, what: str = "The image") -> None:
    """A float tensor (B,3,H,W), finite and in [0,1] up to noise and overshoot."""
    if (
        not isinstance(x, Tensor)
        or x.ndim != 4
        or x.shape[1] != 3
        or 0 in x.shape
        or not x.is_floating_point()
    ):
        got = f"{tuple(x.shape)} of {x.dtype}" if isinstance(x, Tensor) else type(x).__name__
        raise BadInput(f"{what} must be a floating-point tensor (B,3,H,W) in [0,1], got {got}.")
    if not bool(torch.isfinite(x).all()):
        raise BadInput(f"{what} holds NaN or infinite values and cannot be scored.")
    if float(((x < -_FAR) | (x > 1 + _FAR)).float().mean()) > _MANY:
        low, high = float(x.min()), float(x.max())
        raise BadInput(
            f"{what} must be in [0,1], got values from {low:.3g} to {high:.3g}. Images in [-1,1] become so "
            "by (x + 1) / 2."
        )


def check_region(region: Tensor, like: Tensor) -> Tensor:
    """(H,W) or (1 or B,1,H,W), 1 or True where pixels count → bool (1 or B,1,H,W) on the images' device."""
    m = region[None, None] if region.ndim == 2 else region
    if (
        m.ndim != 4
        or m.shape[1] != 1
        or m.shape[0] not in (1, like.shape[0])
        or m.shape[-2:] != like.shape[-2:]
    ):
        raise BadInput(
            f"A region for images {tuple(like.shape)} has the shape (H,W) or (B,1,H,W), got "
            f"{tuple(region.shape)}."
        )
    m = m.to(like.device) > 0.5
    if not bool(m.flatten(1).any(1).all()):
        raise BadInput("The region is empty: no pixel would be compared.")
    return m
