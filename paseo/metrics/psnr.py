"""Peak signal-to-noise ratio:  PSNR = −10 log₁₀ mean (x − x')²,  for images in [0,1]."""

from __future__ import annotations

from torch import Tensor

from paseo.metrics.pairs import check_region, pair


def psnr(x: Tensor, reference: Tensor, region: Tensor | None = None) -> Tensor:
    """PSNR in dB of each image, (B,); images (B,3,H,W) in [0,1], clamped to it first as saving would.

    `region` (H,W) or (B,1,H,W), 1 where pixels count, restricts the mean to a hole or to what is visible.
    Equal images give infinity.
    """
    x, reference = pair(x, reference)
    error = (x - reference).square().mean(dim=1, keepdim=True)
    if region is None:
        return -10 * error.mean(dim=(1, 2, 3)).log10()
    m = check_region(region, x).to(error)
    return -10 * ((error * m).sum(dim=(1, 2, 3)) / m.sum(dim=(1, 2, 3))).log10()
