"""Structural similarity with a Gaussian window of 11 taps, σ = 1.5, per channel, averaged over channels and
pixels.

    SSIM = (2μμ' + C₁)(2σ_xx' + C₂) / ((μ² + μ'² + C₁)(σ² + σ'² + C₂)),    C₁ = 0.01², C₂ = 0.03²

Wang, Bovik, Sheikh & Simoncelli, "Image Quality Assessment", IEEE TIP 2004. Only windows that lie inside the
image count; population moments. scikit-image gives the same with gaussian_weights=True,
use_sample_covariance=False.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from paseo.errors import BadInput
from paseo.metrics.pairs import pair

_TAPS, _SIGMA, _C1, _C2 = 11, 1.5, 0.01**2, 0.03**2


def ssim(x: Tensor, reference: Tensor) -> Tensor:
    """SSIM of each image, (B,), at most 1; images (B,3,H,W) in [0,1], clamped to it first as saving would."""
    x, reference = pair(x, reference)
    if min(x.shape[-2:]) < _TAPS:
        raise BadInput(f"SSIM needs images of at least {_TAPS}×{_TAPS}, got {x.shape[-2]}×{x.shape[-1]}.")
    mean_x, mean_r = _window(x), _window(reference)
    var_x = _window(x * x) - mean_x**2
    var_r = _window(reference * reference) - mean_r**2
    covariance = _window(x * reference) - mean_x * mean_r
    luminance = (2 * mean_x * mean_r + _C1) / (mean_x**2 + mean_r**2 + _C1)
    structure = (2 * covariance + _C2) / (var_x + var_r + _C2)
    return (luminance * structure).mean(dim=(1, 2, 3))


def _window(x: Tensor) -> Tensor:
    """Gaussian means over the windows inside the image."""
    u = torch.arange(_TAPS, dtype=x.dtype, device=x.device) - _TAPS // 2
    taps = torch.exp(-0.5 * (u / _SIGMA) ** 2)
    taps = (taps / taps.sum()).expand(3, 1, 1, _TAPS)
    return F.conv2d(F.conv2d(x, taps, groups=3), taps.mT, groups=3)
