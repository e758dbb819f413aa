"""Blur against scipy's mirror mode, down to images smaller than the kernel."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from paseo.degrade import Blur, GaussianBlur
from paseo.errors import BadInput

sizes = st.tuples(st.integers(1, 50), st.integers(1, 50))


def _image(h: int, w: int) -> torch.Tensor:
    return torch.randn(1, 3, h, w, dtype=torch.float64, generator=torch.Generator().manual_seed(h * 100 + w))


def test_the_papers_kernel() -> None:
    taps = GaussianBlur().taps
    assert taps.shape == (25,)
    assert taps.sum().item() == pytest.approx(1, abs=1e-15)
    delta = np.zeros((61, 61))
    delta[30, 30] = 1
    reference = ndimage.gaussian_filter(delta, 3.0)
    assert (reference != 0).sum() == 25 * 25
    np.testing.assert_allclose(torch.outer(taps, taps).numpy(), reference[18:43, 18:43], rtol=0, atol=1e-16)
    response = GaussianBlur()(torch.tensor(delta)[None, None].expand(1, 3, 61, 61))
    np.testing.assert_allclose(response[0, 1].numpy(), reference, rtol=0, atol=1e-16)


@given(size=sizes)
@settings(max_examples=30, deadline=None)
def test_gaussian_equals_scipy(size: tuple[int, int]) -> None:
    x = _image(*size)
    expected = ndimage.gaussian_filter(x.numpy(), (0, 0, 3.0, 3.0), mode="mirror", truncate=4.0)
    np.testing.assert_allclose(GaussianBlur()(x).numpy(), expected, rtol=0, atol=1e-13)


@given(size=sizes, sides=st.tuples(st.integers(0, 6), st.integers(0, 6)))
@settings(max_examples=30, deadline=None)
def test_any_kernel_equals_scipy(size: tuple[int, int], sides: tuple[int, int]) -> None:
    x = _image(*size)
    kernel = (
        np.random.default_rng(0).random((2 * sides[0] + 1, 2 * sides[1] + 1)) + 0.01
    )  # not symmetric: a flip would show
    expected = ndimage.convolve(x[0, 0].numpy(), kernel / kernel.sum(), mode="mirror")
    np.testing.assert_allclose(Blur(torch.tensor(kernel))(x)[0, 0].numpy(), expected, rtol=0, atol=1e-13)


def test_a_small_kernel_side_cuts_the_gaussian() -> None:
    assert GaussianBlur(3.0, 9).taps.shape == (9,)
    x = _image(20, 20)
    as_kernel = Blur(torch.outer(GaussianBlur(3.0, 9).taps, GaussianBlur(3.0, 9).taps))
    torch.testing.assert_close(GaussianBlur(3.0, 9)(x), as_kernel(x), rtol=0, atol=1e-14)


def test_refusals() -> None:
    with pytest.raises(BadInput, match="odd sides"):
        Blur(torch.ones(4, 4))
    with pytest.raises(BadInput, match="sum above 0"):
        Blur(torch.zeros(3, 3))
    with pytest.raises(BadInput, match="sum above 0"):
        Blur(torch.full((3, 3), float("nan")))
    with pytest.raises(BadInput, match="sigma"):
        GaussianBlur(sigma=0)
    with pytest.raises(BadInput, match="odd number"):
        GaussianBlur(size=60)
    with pytest.raises(BadInput, match="Blur: an image of 8×8"):
        GaussianBlur().lift(torch.zeros(1, 3, 9, 9), (8, 8))
