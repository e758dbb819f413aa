"""JPEG: the exact codec against files made by Pillow, the twin against the exact codec, and their
derivatives.
"""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, features
from skimage import data

from paseo.degrade import JPEG, SoftJPEG
from paseo.degrade.jpeg_exact import round_trip
from paseo.degrade.jpeg_tables import quantisation_tables
from paseo.errors import BadInput, Unsupported

turbo = pytest.mark.skipif(
    not features.check_feature("libjpeg_turbo"), reason="this Pillow was built with another JPEG library"
)
ZIGZAG = sorted(
    ((i, j) for i in range(8) for j in range(8)), key=lambda p: (sum(p), p[0] if sum(p) % 2 else p[1])
)


def _file(array: np.ndarray, quality: int) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, "JPEG", quality=quality, subsampling="4:2:0")
    return buffer.getvalue()


def _photo(h: int, w: int) -> np.ndarray:
    return data.astronaut()[40 : 40 + h, 150 : 150 + w].copy()


def _content(kind: str, h: int, w: int) -> np.ndarray:
    rng = np.random.default_rng(h * 1000 + w)
    if kind == "photo":
        return _photo(h, w)
    return (
        rng.integers(0, 256, (h, w, 3), dtype=np.uint8)
        if kind == "noise"
        else rng.integers(0, 2, (h, w, 3), dtype=np.uint8) * 255
    )


@turbo
@given(
    kind=st.sampled_from(["photo", "noise", "extremes"]),
    h=st.integers(1, 70),
    w=st.integers(1, 70),
    quality=st.integers(1, 100),
)
@settings(max_examples=120, deadline=None)
def test_the_codec_gives_pillows_bytes(kind: str, h: int, w: int, quality: int) -> None:
    array = _content(kind, h, w)
    ours = round_trip(torch.tensor(array).permute(2, 0, 1)[None].int(), quality)[0].permute(1, 2, 0)
    theirs = np.array(Image.open(io.BytesIO(_file(array, quality))))
    assert np.array_equal(ours.numpy(), theirs)


@turbo
def test_the_degradation_gives_pillows_bytes_in_signed_units() -> None:
    array = _photo(128, 128)
    x = torch.tensor(array).permute(2, 0, 1)[None].double() / 127.5 - 1
    y = JPEG(10)(x)
    theirs = np.array(Image.open(io.BytesIO(_file(array, 10))))
    np.testing.assert_allclose(((y[0] + 1) * 127.5).permute(1, 2, 0).numpy(), theirs, rtol=0, atol=1e-9)


@pytest.mark.parametrize("quality", [1, 10, 49, 50, 75, 100])
def test_tables_are_those_in_the_file(quality: int) -> None:
    written = Image.open(io.BytesIO(_file(_photo(16, 16), quality))).quantization  # ty: ignore[missing-attribute]
    for ours, theirs in zip(quantisation_tables(quality), (written[0], written[1]), strict=True):
        in_order = [int(ours[i, j]) for i, j in ZIGZAG]
        assert list(theirs) in (in_order, ours.flatten().tolist())  # Pillow's order depends on its version


def test_tables_at_quality_ten() -> None:
    luma, chroma = quantisation_tables(10)
    assert int(luma[0, 0]) == 80
    assert int(chroma[0, 0]) == 85
    assert int(luma.max()) == 255


@pytest.mark.parametrize("rounding", ["polynomial", "straight"])
def test_the_twin_is_near_the_codec(rounding) -> None:
    x = torch.tensor(_photo(128, 128)).permute(2, 0, 1)[None].float() / 127.5 - 1
    exact, soft = JPEG(10)(x), SoftJPEG(10, rounding)(x)
    damage = (exact - x).square().mean().sqrt()
    assert (soft - exact).square().mean().sqrt() < 0.3 * damage


@pytest.mark.parametrize("make", [JPEG, SoftJPEG])
@pytest.mark.parametrize("level", [-1.0, -0.3, 0.0, 0.45, 1.0])
def test_flat_grey_is_kept_up_to_quantisation(make, level: float) -> None:
    y = make(10)(torch.full((1, 3, 24, 24), level))
    assert float(y.std()) < 1e-6
    assert (
        float((y - level).abs().max()) <= (80 / 8 / 2 + 1) / 127.5
    )  # half a step of the DC coefficient, and one level


def test_the_value_is_exact_and_the_derivative_is_the_twins() -> None:
    x = torch.tensor(_photo(24, 40)).permute(2, 0, 1)[None].double() / 127.5 - 1
    x = x * 0.9
    A, generator = JPEG(10), torch.Generator().manual_seed(0)
    u, v = (torch.randn(x.shape, dtype=x.dtype, generator=generator) for _ in range(2))
    value = A(x)
    y, jv = torch.func.jvp(A, (x,), (v,))[:2]
    pull = torch.func.vjp(A, x)[1]
    soft_jv = torch.func.jvp(A.twin, (x,), (v,))[1]
    assert torch.equal(y, value)
    assert torch.equal(jv, soft_jv)
    torch.testing.assert_close((jv * u).sum(), (pull(u)[0] * v).sum(), rtol=1e-10, atol=0)
    leaf = x.clone().requires_grad_()
    out = A(leaf)
    assert torch.equal(out, value)
    (out * u).sum().backward()
    torch.testing.assert_close(leaf.grad, pull(u)[0], rtol=0, atol=1e-14)
    assert soft_jv.norm() > 0
    with torch.no_grad():
        assert torch.equal(torch.func.jvp(A, (x,), (v,))[1], jv)


def test_the_twins_derivative_is_that_of_its_value() -> None:
    x = torch.tensor(_photo(16, 16)).permute(2, 0, 1)[None].double() / 127.5 - 1
    x = x * 0.8
    v = torch.randn(x.shape, dtype=x.dtype, generator=torch.Generator().manual_seed(3))
    A, h = SoftJPEG(10), 1e-6
    difference = (A(x + h * v) - A(x - h * v)) / (2 * h)
    torch.testing.assert_close(torch.func.jvp(A, (x,), (v,))[1], difference, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("rounding", "low", "high"), [("polynomial", 0.0, 0.75), ("straight", 1.0, 1.0)])
def test_derivative_of_the_rounding(rounding, low: float, high: float) -> None:
    u = torch.linspace(-2, 2, 401, dtype=torch.float64, requires_grad=True)
    r = SoftJPEG(10, rounding)._round(u)
    (slope,) = torch.autograd.grad(r.sum(), u)
    assert low <= float(slope.min()) <= float(slope.max()) <= high + 1e-12
    torch.testing.assert_close(r, u.round() + (u - u.round()) ** 3 if rounding == "polynomial" else u.round())


@given(size=st.tuples(st.integers(1, 40), st.integers(1, 40)))
@settings(max_examples=20, deadline=None)
def test_the_twin_takes_any_size(size: tuple[int, int]) -> None:
    x = torch.rand(1, 3, *size) * 2 - 1
    for y in (SoftJPEG(10)(x), JPEG(10)(x)):
        assert y.shape == x.shape
        assert float(y.abs().max()) <= 1


def test_images_of_a_batch_do_not_know_each_other() -> None:
    x = torch.rand(3, 3, 20, 28, generator=torch.Generator().manual_seed(0)) * 2 - 1
    for A in (JPEG(10), SoftJPEG(10)):
        torch.testing.assert_close(A(x)[1:2], A(x[1:2]), rtol=0, atol=1e-5 if isinstance(A, SoftJPEG) else 0)


def test_refusals() -> None:
    y = torch.zeros(1, 3, 8, 8)
    for A in (JPEG(), SoftJPEG()):
        assert not A.linear
        with pytest.raises(Unsupported, match="no adjoint"):
            A.adjoint(y)
        with pytest.raises(BadInput, match="3"):
            A(torch.zeros(1, 1, 8, 8))
    for quality in (0, 101, 10.5):
        with pytest.raises(BadInput, match="1 to 100"):
            JPEG(quality)  # ty: ignore[invalid-argument-type]
    with pytest.raises(BadInput, match="rounding"):
        JPEG(10, "hard")  # ty: ignore[invalid-argument-type]
    with pytest.raises(BadInput, match="NaN"):
        JPEG()(torch.full((1, 3, 8, 8), float("nan")))
