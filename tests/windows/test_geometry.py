"""Where windows lie and how they are joined: every entry once, starts on the grain, and a blend of a local
map is the map.
"""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from paseo.errors import BadInput
from paseo.windows import Cover, Windows, axis_weights, blended, starts

SOME = Windows(side=40, halo=3, blend=4)


@given(
    length=st.integers(1, 120).map(lambda n: 4 * n),
    halo=st.integers(0, 6),
    blend=st.integers(1, 9),
    spare=st.integers(1, 12),
    scale=st.sampled_from([1, 2, 8]),
)
@settings(max_examples=60, deadline=None)
def test_weights_sum_to_one_and_are_zero_in_the_halo(
    length: int, halo: int, blend: int, spare: int, scale: int
) -> None:
    overlap = 2 * halo + blend
    side = min(length, -(-(2 * overlap + spare + 4) // 4) * 4)
    windows = Windows(max(side, 2 * overlap + 1), halo, blend)
    first = starts(length, side, overlap, grain=4)
    assert first[0] == 0
    assert first[-1] == length - side
    assert all(start % 4 == 0 for start in first)
    assert all(0 < b - a <= side - overlap for a, b in pairwise(first))
    weights = axis_weights(first, side, length, windows, scale)
    total = torch.zeros(length * scale, dtype=torch.float64)
    for start, w in zip(first, weights, strict=True):
        total[start * scale : (start + side) * scale] += w
        assert start == 0 or not w[: halo * scale].any()
        assert start + side == length or not w[len(w) - halo * scale :].any()
    torch.testing.assert_close(total, torch.ones_like(total), rtol=0, atol=1e-12)


def blur(x: Tensor) -> Tensor:
    """A map that reaches three cells, and not linear."""
    kernel = torch.arange(1.0, 50.0, dtype=x.dtype).view(1, 1, 7, 7).expand(x.shape[1], 1, 7, 7) / 1000
    return torch.tanh(F.conv2d(x, kernel, padding=3, groups=x.shape[1]))


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("canvas", [(96, 60), (40, 132), (24, 24)])
def test_a_blend_with_a_halo_as_wide_as_the_reach_is_the_map_itself(
    canvas: tuple[int, int], batch: int
) -> None:
    x = torch.randn(2, 3, *canvas, dtype=torch.double)
    cover = Cover(canvas, Windows(40, 3, 4, batch), grain=4)
    torch.testing.assert_close(blended(blur, x, cover), blur(x), rtol=0, atol=1e-12)


def test_a_blend_can_change_the_number_of_entries_per_cell() -> None:
    def grow(z: Tensor) -> Tensor:
        return F.interpolate(z, scale_factor=8.0, mode="nearest")

    cover, z = Cover((64, 80), SOME, 4), torch.randn(1, 2, 64, 80)
    x = blended(grow, z, cover, results=8)
    torch.testing.assert_close(x, grow(z))
    torch.testing.assert_close(blended(lambda x: F.avg_pool2d(x, 8), x, cover, entries=8), z)


def test_gradients_of_a_blend_are_those_of_the_map() -> None:
    cover = Cover((64, 80), SOME, 4)
    x = torch.randn(1, 2, 64, 80, dtype=torch.double, requires_grad=True)
    u = torch.randn(1, 2, 64, 80, dtype=torch.double)
    (whole,) = torch.autograd.grad(blur(x), x, u)
    (parts,) = torch.autograd.grad(blended(blur, x, cover), x, u)
    torch.testing.assert_close(parts, whole, rtol=0, atol=1e-12)


def test_windows_that_cannot_advance_are_refused() -> None:
    with pytest.raises(BadInput, match="side above"):
        Windows(side=24, halo=8, blend=8)
    with pytest.raises(BadInput, match="halo"):
        Windows(side=64, halo=-1)
