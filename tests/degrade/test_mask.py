"""Masks: which pixels are seen, and which latent cells."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from paseo.degrade import CentreBox, Mask
from paseo.errors import BadInput


def test_the_papers_box() -> None:
    observed = CentreBox().observed_at(512, 512)[0, 0]
    rows, columns = (observed == 0).nonzero(as_tuple=True)
    assert (int(rows.min()), int(rows.max()), int(columns.min()), int(columns.max())) == (128, 383, 128, 383)
    assert int((observed == 0).sum()) == 256 * 256
    cells = CentreBox().latent_cells(8, (512, 512))[0, 0]
    rows, columns = (cells == 0).nonzero(as_tuple=True)
    assert (int(rows.min()), int(rows.max()), int(columns.min()), int(columns.max())) == (16, 47, 16, 47)
    assert int((cells == 0).sum()) == 32 * 32
    eroded = CentreBox().latent_cells(8, (512, 512), erode=True)
    assert int((eroded == 0).sum()) == 34 * 34


def test_the_hole_is_mid_grey_and_the_rest_untouched() -> None:
    x = torch.rand(2, 3, 16, 16)
    y = CentreBox()(x)
    assert (y[..., 4:12, 4:12] == 0).all()
    y[..., 4:12, 4:12] = x[..., 4:12, 4:12]
    assert torch.equal(y, x)


@given(
    size=st.tuples(st.integers(1, 30), st.integers(1, 30)),
    factor=st.integers(1, 9),
    density=st.floats(0.5, 1.0),
    erode=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_latent_cells_by_their_definition(
    size: tuple[int, int], factor: int, density: float, erode: bool
) -> None:
    h, w = size
    observed = torch.rand(h, w, generator=torch.Generator().manual_seed(h * 31 + w)) < density
    m, n = -(-h // factor), -(-w // factor)
    seen = [
        [bool(observed[i * factor : (i + 1) * factor, j * factor : (j + 1) * factor].all()) for j in range(n)]
        for i in range(m)
    ]
    if erode:
        near = [-1, 0, 1]
        seen = [
            [
                all(seen[i + a][j + b] for a in near for b in near if 0 <= i + a < m and 0 <= j + b < n)
                for j in range(n)
            ]
            for i in range(m)
        ]
    cells = Mask(observed).latent_cells(factor, erode=erode)
    assert torch.equal(cells[0, 0].bool(), torch.tensor(seen))


def test_one_mask_per_image() -> None:
    observed = torch.ones(2, 1, 8, 8)
    observed[1, :, :4] = 0
    x = torch.rand(2, 3, 8, 8) + 1
    y = Mask(observed)(x)
    assert torch.equal(y[0], x[0])
    assert (y[1, :, :4] == 0).all()
    assert tuple(Mask(observed).latent_cells(4).shape) == (2, 1, 2, 2)


def test_an_editors_mask_is_white_where_it_is_to_be_filled() -> None:
    hole = torch.zeros(6, 6)
    hole[2:4] = 1.0
    mask = Mask.from_hole(hole)
    assert torch.equal(mask.observed[0, 0], 1 - hole)
    assert torch.equal(Mask.from_hole(hole.bool()).observed, mask.observed)


def test_refusals() -> None:
    with pytest.raises(BadInput, match="0 or 1 everywhere"):
        Mask(torch.full((4, 4), 0.5))
    with pytest.raises(BadInput, match="shape"):
        Mask(torch.ones(2, 3, 4, 4))
    with pytest.raises(BadInput, match="The mask is 4×4 and the image 8×8"):
        Mask(torch.ones(4, 4))(torch.zeros(1, 3, 8, 8))
    with pytest.raises(BadInput, match="fraction"):
        CentreBox(0)
    with pytest.raises(BadInput, match="size"):
        CentreBox().latent_cells(8)
    with pytest.raises(BadInput, match="factor"):
        CentreBox().latent_cells(0, (8, 8))
