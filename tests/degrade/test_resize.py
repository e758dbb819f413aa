"""The down-sampler against other implementations of the same kernel, and against its definition at the
border.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from skimage import data

from paseo.degrade import Downsample, resize
from paseo.degrade.resize import bicubic_matrix
from paseo.errors import BadInput


def _photo(n: int = 128) -> torch.Tensor:
    return torch.tensor(data.astronaut()[:n, 100 : 100 + n]).permute(2, 0, 1)[None].double() / 127.5 - 1


@pytest.mark.parametrize("factor", [2, 4, 8])
def test_equals_torch_and_pillow_away_from_the_border(factor: int) -> None:
    x = _photo()
    n = 128 // factor
    ours = Downsample(factor)(x)
    inside = (..., slice(2, -2), slice(2, -2))  # the kernel reaches two output pixels far
    theirs = F.interpolate(x, scale_factor=1 / factor, mode="bicubic", antialias=True)
    torch.testing.assert_close(ours[inside], theirs[inside], rtol=0, atol=1e-12)
    channels = [
        np.array(Image.fromarray(c).resize((n, n), Image.Resampling.BICUBIC)) for c in x[0].float().numpy()
    ]
    pillow = torch.tensor(np.stack(channels))[None].double()
    torch.testing.assert_close(ours[inside], pillow[inside], rtol=0, atol=1e-6)  # Pillow works in float32
    border = (ours - theirs).abs().max()
    assert border > 1e-4  # they renormalise where we mirror


@pytest.mark.parametrize("factor", [1, 2, 2.5, 4, 8])
@pytest.mark.parametrize("n", [1, 2, 5, 16, 33])
def test_borders_are_mirrored_with_the_edge_repeated(factor: float, n: int) -> None:
    """The same kernel on an image that was mirrored by hand, far enough that the border plays no part."""
    x = torch.rand(n, dtype=torch.float64, generator=torch.Generator().manual_seed(n)).numpy()
    repeats = 2 * (int(8 * factor) // n + 2)
    long = np.concatenate([x[::-1], x] * repeats)  # one period is x backwards and forwards
    A = Downsample(factor)
    out = A.output_size(n, n)[0]
    start = n * (repeats + 1)  # in the middle of the repeats, where x stands forwards
    centre = start + (np.arange(out) + 0.5) * factor - 0.5
    t = np.abs(centre[:, None] - np.arange(len(long))) / factor
    kernel = np.where(
        t <= 1, 1.5 * t**3 - 2.5 * t**2 + 1, np.where(t <= 2, -0.5 * t**3 + 2.5 * t**2 - 4 * t + 2, 0)
    )
    expected = (kernel / kernel.sum(1, keepdims=True)) @ long
    np.testing.assert_allclose(bicubic_matrix(n, out, 1 / factor) @ x, expected, rtol=0, atol=1e-12)


def test_sizes() -> None:
    A = Downsample(4)
    assert A.output_size(128, 130) == (32, 33)
    assert A.image_size(32, 33) == (128, 132)
    assert Downsample(0.1 * 30).output_size(9, 12) == (3, 4)  # 0.1·30 is a little more than 3
    assert tuple(A.lift(torch.zeros(1, 3, 32, 33)).shape) == (1, 3, 128, 132)


@pytest.mark.parametrize("factor", [2.5, 4, 8])
def test_constants_stay_and_lift_is_the_inverse_on_smooth_images(factor: float) -> None:
    A = Downsample(factor)
    flat = torch.full((1, 3, 45, 50), 0.3, dtype=torch.float64)
    torch.testing.assert_close(A(flat), torch.full_like(A(flat), 0.3))
    torch.testing.assert_close(A.lift(A(flat), (45, 50)), flat)
    if factor % 1:
        return  # samples of a stretched cubic reproduce straight lines only if the stretch is an integer
    # Up-sampling keeps pixel centres where they are: a ramp comes back as the same ramp, away from the
    # mirrored border.

    ramp = torch.linspace(-1, 1, 120, dtype=torch.float64).expand(1, 3, 120, 120)
    margin = int(4 * factor)
    inside = (..., slice(margin, -margin))
    torch.testing.assert_close(A.lift(A(ramp), (120, 120))[inside], ramp[inside], rtol=0, atol=1e-12)


def test_lift_equals_torch_bicubic_away_from_the_border() -> None:
    y = _photo(32)
    theirs = F.interpolate(
        y, scale_factor=4, mode="bicubic", antialias=True
    )  # the antialiased one has a = −½ as well
    torch.testing.assert_close(
        Downsample(4).lift(y)[..., 8:-8, 8:-8], theirs[..., 8:-8, 8:-8], rtol=0, atol=1e-12
    )


def test_lift_to_an_odd_size_is_a_crop() -> None:
    y = _photo(33)
    A = Downsample(4)
    torch.testing.assert_close(A.lift(y, (130, 129)), A.lift(y)[..., :130, :129], rtol=0, atol=1e-14)


def test_a_size_that_does_not_belong_to_the_measurement_is_refused() -> None:
    y = torch.zeros(1, 3, 32, 32)
    for call in (Downsample(4).lift, Downsample(4).adjoint):
        with pytest.raises(BadInput, match="140×128 gives a measurement of 35×32, got one of 32×32"):
            call(y, (140, 128))


@pytest.mark.parametrize("factor", [0, 0.5, -4, float("nan"), float("inf"), "4"])
def test_bad_factors(factor) -> None:
    with pytest.raises(BadInput, match="factor must be"):
        Downsample(factor)


def test_bad_images() -> None:
    with pytest.raises(BadInput, match=r"got the shape \(3, 8, 8\)"):
        Downsample(4)(torch.zeros(3, 8, 8))
    with pytest.raises(BadInput, match="uint8"):
        Downsample(4)(torch.zeros(1, 3, 8, 8, dtype=torch.uint8))
    with pytest.raises(BadInput, match="got ndarray"):
        Downsample(4)(np.zeros((1, 3, 8, 8)))  # ty: ignore[invalid-argument-type]


def test_resize_to_any_size() -> None:
    x = _photo(32)
    assert tuple(resize(x, (13, 50)).shape) == (1, 3, 13, 50)
    torch.testing.assert_close(resize(x, (8, 8)), Downsample(4)(x))
    torch.testing.assert_close(resize(x, (32, 32)), x)
    torch.testing.assert_close(resize(x, (128, 128)), Downsample(4).lift(x))
