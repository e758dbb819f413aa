"""Kernel distance: how far two sets of images are apart, as a squared maximum mean discrepancy on VGG16
features.

    MMD² = mean_{i≠j} k(a_i, a_j) + mean_{i≠j} k(b_i, b_j) − 2 mean_{i,j} k(a_i, b_j),  k(a,b) = (a·b/d + 1)³

The estimator (unbiased, cubic polynomial kernel) is the one of KID (Bińkowski et al., "Demystifying MMD
GANs", ICLR 2018). The features are not Inception's, so the numbers are not KID and cannot be compared with
published ones: they rank methods against each other and against a floor (two sets of real images). Small
negative values are normal, since the estimator is unbiased and its target may be 0. `kernel_distance` takes
any features, Inception's as well if they are at hand.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from paseo.errors import BadInput
from paseo.metrics.lpips import network
from paseo.metrics.pairs import check_images

_CHUNK = 1024  # rows of the kernel matrix that are held at once


class KernelDistance(NamedTuple):
    """A distance with its first-order standard error (jackknife over images)."""

    value: float
    standard_error: float
    images: tuple[int, int]


def vgg_features(images: Tensor, batch: int = 32) -> Tensor:
    """(N,512): the last convolutional stage of VGG16, averaged over the image; images (N,3,H,W) in [0,1],
    float32 on the CPU.

    One row per image, independent of the others, so that rows can be stored and put together later.
    """
    check_images(images)
    net = network("vgg", images.device, torch.float32)
    with torch.no_grad():
        rows = [
            net.features(part.float().clamp(0, 1) * 2 - 1)[-1].mean(dim=(2, 3)).cpu()
            for part in images.split(batch)
        ]
    return torch.cat(rows)


def kernel_distance(a: Tensor, b: Tensor) -> KernelDistance:
    """The distance between two sets of features, (n,d) and (m,d), computed in float64."""
    for what, f in (("first", a), ("second", b)):
        if f.ndim != 2 or f.shape[0] < 3:
            raise BadInput(
                f"The {what} set must be features (n,d) of at least 3 images, got the shape {tuple(f.shape)}."
            )
        if not bool(torch.isfinite(f).all()):
            raise BadInput(f"The {what} set of features holds NaN or infinite values.")
    if a.shape[1] != b.shape[1]:
        raise BadInput(f"Both sets must have features of one length, got {a.shape[1]} and {b.shape[1]}.")
    a, b = a.double(), b.double().to(a.device)
    within_a, within_b = (_row_sums(f, f) - _kernel(f, f, diagonal=True) for f in (a, b))
    across_a, across_b = _row_sums(a, b), _row_sums(b, a)
    value = _mmd(within_a.sum(), within_b.sum(), across_a.sum(), len(a), len(b))
    without_a = _mmd(
        within_a.sum() - 2 * within_a, within_b.sum(), across_a.sum() - across_a, len(a) - 1, len(b)
    )
    without_b = _mmd(
        within_a.sum(), within_b.sum() - 2 * within_b, across_b.sum() - across_b, len(a), len(b) - 1
    )
    variance = sum(
        float((len(w) - 1) / len(w) * (w - w.mean()).square().sum()) for w in (without_a, without_b)
    )
    return KernelDistance(float(value), math.sqrt(variance), (len(a), len(b)))


def _mmd(within_a: Tensor, within_b: Tensor, across: Tensor, n: int, m: int) -> Tensor:
    """From sums over i ≠ j and over all pairs; sums may be vectors, one entry per image left out."""
    return within_a / (n * (n - 1)) + within_b / (m * (m - 1)) - 2 * across / (n * m)


def _kernel(a: Tensor, b: Tensor, *, diagonal: bool = False) -> Tensor:
    products = (a * b).sum(1) if diagonal else a @ b.mT
    return (products / a.shape[1] + 1) ** 3


def _row_sums(a: Tensor, b: Tensor) -> Tensor:
    """Σ_j k(a_i, b_j)."""
    return torch.cat([_kernel(part, b).sum(1) for part in a.split(_CHUNK)])
