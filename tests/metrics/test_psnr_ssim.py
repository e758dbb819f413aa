"""PSNR and SSIM against scikit-image, and what all metrics refuse."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from skimage import data
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

from paseo.degrade import Downsample, task
from paseo.errors import BadInput
from paseo.metrics import consistency, psnr, ssim


def _pair(h: int = 64, w: int = 48, noise: float = 0.1) -> tuple[torch.Tensor, torch.Tensor]:
    reference = torch.tensor(data.astronaut()[:h, 150 : 150 + w]).permute(2, 0, 1)[None].double() / 255
    x = reference + noise * torch.randn(
        reference.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    return x.clamp(0, 1), reference


def _numpy(x: torch.Tensor) -> np.ndarray:
    return x[0].permute(1, 2, 0).numpy()


@given(h=st.integers(1, 60), w=st.integers(1, 60), noise=st.floats(1e-3, 0.5))
@settings(max_examples=25, deadline=None)
def test_psnr_equals_scikit_image(h: int, w: int, noise: float) -> None:
    x, reference = _pair(h, w, noise)
    expected = peak_signal_noise_ratio(_numpy(reference), _numpy(x), data_range=1)
    assert psnr(x, reference).item() == pytest.approx(expected, abs=1e-9)


@given(h=st.integers(11, 60), w=st.integers(11, 60), noise=st.floats(0, 0.5))
@settings(max_examples=25, deadline=None)
def test_ssim_equals_scikit_image(h: int, w: int, noise: float) -> None:
    x, reference = _pair(h, w, noise)
    options = {
        "gaussian_weights": True,
        "sigma": 1.5,
        "use_sample_covariance": False,
        "data_range": 1.0,
        "channel_axis": -1,
    }
    expected = structural_similarity(_numpy(x), _numpy(reference), **options)
    assert ssim(x, reference).item() == pytest.approx(expected, abs=1e-9)


def test_known_values() -> None:
    x = torch.full((2, 3, 16, 16), 0.5)
    assert psnr(x + 0.1, x).tolist() == pytest.approx([20, 20], abs=1e-4)
    assert psnr(x, x).tolist() == [math.inf, math.inf]
    assert ssim(x, x).tolist() == pytest.approx([1, 1], abs=1e-6)


def test_a_region_counts_alone() -> None:
    x, reference = _pair(32, 32)
    hole = torch.zeros(32, 32)
    hole[8:24, 4:20] = 1
    torch.testing.assert_close(psnr(x, reference, hole), psnr(x[..., 8:24, 4:20], reference[..., 8:24, 4:20]))
    both = psnr(torch.cat([x, x]), torch.cat([reference, reference]), torch.stack([hole, 1 - hole])[:, None])
    torch.testing.assert_close(both[:1], psnr(x, reference, hole))
    share = hole.mean().item()
    whole = -10 * math.log10(
        share * 10 ** (-both[0].item() / 10) + (1 - share) * 10 ** (-both[1].item() / 10)
    )
    assert whole == pytest.approx(psnr(x, reference).item(), abs=1e-9)


def test_values_are_clamped_as_saving_would() -> None:
    x, reference = _pair()
    loud = (x - 0.5) * 1.4 + 0.5
    torch.testing.assert_close(psnr(loud, reference), psnr(loud.clamp(0, 1), reference))
    torch.testing.assert_close(ssim(loud, reference), ssim(loud.clamp(0, 1), reference))


@pytest.mark.parametrize("metric", [psnr, ssim])
def test_scores_are_per_image_and_in_half_precision_too(metric) -> None:
    x, reference = _pair()
    other = reference.flip(-1)
    torch.testing.assert_close(
        metric(torch.cat([x, other]), torch.cat([reference, reference]))[1:], metric(other, reference)
    )
    score = metric(x.bfloat16(), reference.bfloat16())
    assert score.dtype == torch.float32
    assert score.item() == pytest.approx(
        metric(x.bfloat16().double(), reference.bfloat16().double()).item(), rel=1e-4
    )


@pytest.mark.parametrize("metric", [psnr, ssim])
def test_refusals(metric) -> None:
    x, reference = _pair()
    for bad, message in [
        (reference * 2 - 1, r"got values from -1 to .*\(x \+ 1\) / 2"),
        (reference * 255, r"\[0,1\]"),
        (reference * float("nan"), "NaN"),
        (reference[..., :-1], "one shape"),
        (reference[0], "B,3,H,W"),
        ((reference * 255).to(torch.uint8), "uint8"),
        (_numpy(reference), "ndarray"),
    ]:
        with pytest.raises(BadInput, match=message):
            metric(bad, x)
    with pytest.raises(BadInput, match="at least 11×11"):
        ssim(x[..., :10, :10], reference[..., :10, :10])
    with pytest.raises(BadInput, match="empty"):
        psnr(x, reference, torch.zeros(64, 48))
    with pytest.raises(BadInput, match="region"):
        psnr(x, reference, torch.ones(48, 64))


def test_consistency_sees_only_what_the_degradation_sees() -> None:
    x, reference = _pair(32, 32)
    inpaint = task("inpaint")
    filled = torch.where(inpaint.degradation.observed_at(32, 32).bool(), reference, x)  # ty: ignore[missing-attribute]
    assert consistency(filled, reference, inpaint).item() == 0
    assert psnr(filled, reference).item() < 40
    shifted = (reference * 0.8 + 0.1).clamp(0, 1)
    expected = (
        (Downsample(4)(2 * shifted - 1) - Downsample(4)(2 * reference - 1)).square().mean().sqrt().item()
    )
    assert consistency(shifted, reference, Downsample(4)).item() == pytest.approx(expected, rel=1e-12)
    flat = torch.full((1, 3, 32, 32), 0.25)
    assert consistency(flat + 0.5, flat, Downsample(4)).item() == pytest.approx(
        1.0, rel=1e-5
    )  # half of [0,1] is 1 in [-1,1]
