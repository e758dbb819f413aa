"""How good and how expensive: PSNR, SSIM, LPIPS, kernel distance, consistency with the measurement; seconds,
memory, NFE.

    from paseo.metrics import lpips, psnr

    psnr(x, reference)                       # (B,) in dB
    lpips(x, reference, backbone="vgg")      # (B,)
    psnr(x, reference, region=hole)          # inside the hole only

Images at all functions are (B,3,H,W) in [0,1] and are clamped to it first, as saving would; scores are per
image. Images in other ranges, of different shapes, or with NaN are refused rather than scored.
"""

from __future__ import annotations

from paseo.metrics.consistency import consistency, misfit
from paseo.metrics.cost import Cost
from paseo.metrics.kernel import KernelDistance, kernel_distance, vgg_features
from paseo.metrics.lpips import LPIPS, MissingLpipsWeights, load_lpips, lpips, weights_available
from paseo.metrics.psnr import psnr
from paseo.metrics.ssim import ssim

__all__ = [
    "LPIPS",
    "Cost",
    "KernelDistance",
    "MissingLpipsWeights",
    "consistency",
    "kernel_distance",
    "load_lpips",
    "lpips",
    "misfit",
    "psnr",
    "ssim",
    "vgg_features",
    "weights_available",
]
