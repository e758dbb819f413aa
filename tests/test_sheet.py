"""Contact sheets and maps: fixed scales, labels that fit, cells where they belong."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from paseo.errors import BadInput
from paseo.sheet import COLOURS, TOP, contact_sheet, deviation_map


def test_the_scale_is_fixed_and_ends_at_top() -> None:
    std = torch.tensor([[0.0, TOP / 4, TOP / 2, 3 * TOP / 4, TOP, 10 * TOP]])
    colours = (deviation_map(std) * 255).round().permute(1, 2, 0)[0].int().tolist()
    assert colours == [list(c) for c in (*COLOURS, COLOURS[-1])]


def test_a_value_has_its_colour_whatever_its_neighbours() -> None:
    alone = deviation_map(torch.full((2, 2), 0.07))[:, 0, 0]
    beside = deviation_map(torch.tensor([[0.07, 0.2], [0.0, 0.1]]))[:, 0, 0]
    assert torch.equal(alone, beside)
    assert torch.equal(deviation_map(torch.full((1, 2, 2), 0.07))[:, 0, 0], alone)


def test_brighter_means_more() -> None:
    luma = torch.tensor([0.2126, 0.7152, 0.0722]) @ deviation_map(torch.linspace(0, TOP, 101)[None])[:, 0]
    assert bool((luma.diff() > 0).all())


def test_maps_refuse_other_shapes() -> None:
    for bad in (torch.zeros(3, 4, 4), torch.zeros(4)):
        with pytest.raises(BadInput, match="map is drawn"):
            deviation_map(bad)


def test_cells_lie_where_they_belong() -> None:
    red, green = torch.zeros(3, 8, 8), Image.new("RGB", (8, 8), (0, 255, 0))
    red[0] = 1
    sheet = np.array(contact_sheet([[red, None], [green, red]], side=16, gap=2))
    assert sheet.shape == (2 + 2 * 18, 2 + 2 * 18, 3)
    assert sheet[10, 10].tolist() == [255, 0, 0]
    assert sheet[10, 28].tolist() == [255, 255, 255]
    assert sheet[28, 10].tolist() == [0, 255, 0]
    assert sheet[28, 28].tolist() == [255, 0, 0]


def test_labels_and_footer_make_room_for_themselves() -> None:
    plain = contact_sheet([[torch.zeros(3, 8, 8)]], side=64)
    labelled = contact_sheet(
        [[torch.zeros(3, 8, 8)]], side=64, columns=["truth"], rows=["a long label"], footer="one\ntwo"
    )
    assert labelled.width > plain.width + 50
    assert labelled.height > plain.height + 20
    assert np.array(labelled)[:, :40].min() < 128  # something dark was written at the left


def test_shapes_are_kept_and_small_images_are_not_smoothed() -> None:
    wide = torch.zeros(3, 1, 2)
    wide[:, 0, 1] = 1
    sheet = np.array(contact_sheet([[wide]], side=20, gap=0))
    assert sheet[10, 2].tolist() == [0, 0, 0]
    assert sheet[10, 17].tolist() == [255, 255, 255]
    assert sheet[2, 2].tolist() == [255, 255, 255]  # above the 20×10 image
    assert set(np.unique(sheet)) == {0, 255}


def test_an_empty_sheet_is_refused() -> None:
    with pytest.raises(BadInput, match="at least one image"):
        contact_sheet([])
