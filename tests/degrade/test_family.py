"""The numbers an operator is told: they do not jump, they add up, and masks are told cell by cell."""

from __future__ import annotations

import math

import pytest
import torch

from paseo.degrade import Blur, Mask, condition_of, task
from paseo.degrade.family import PARAMETERS, numbers_of, parts_of, seen_blocks
from paseo.degrade.kernels import gaussian_kernel, gaussian_moments, moments_of, motion_kernel, motion_moments
from paseo.errors import Unsupported
from paseo.trust import vouch


def numbers(name: str) -> dict[str, float]:
    return numbers_of(parts_of(task(name)))


def test_every_parameter_is_named_and_zero_where_nothing_was_done() -> None:
    assert tuple(numbers("sr:1")) == PARAMETERS
    assert not any(numbers("sr:1").values())


@pytest.mark.parametrize("angle", [0.0, 30.0, 117.0])
def test_kernels_have_the_moments_they_are_told_by(angle: float) -> None:
    assert moments_of(gaussian_kernel(4.0, 1.5, angle)) == pytest.approx(
        gaussian_moments(4.0, 1.5, angle), rel=0.01, abs=0.05
    )
    pixel = 0.25  # sharing a point between pixels widens by up to so much
    assert moments_of(motion_kernel(15.0, angle)) == pytest.approx(motion_moments(15.0, angle), abs=pixel)
    assert float(motion_kernel(15.0, angle).sum()) == pytest.approx(1)


def test_a_half_turn_changes_nothing_and_angles_do_not_jump() -> None:
    assert numbers("blur:4x1@10") == pytest.approx(numbers("blur:4x1@190"))
    near = [numbers("blur:4x1@179.9")[k] - numbers("blur:4x1@0.1")[k] for k in PARAMETERS]
    assert max(map(abs, near)) < 0.02


def test_blur_after_blur_adds_up() -> None:
    both = numbers("blur:3,blur:4")
    assert (both["width_xx"], both["width_xy"], both["width_yy"]) == pytest.approx((5, 0, 5))
    mixed = numbers("blur:2,motion:12@0")  # variances 4 + 4 and 12
    assert mixed["motion"] == pytest.approx(12 / 20)
    assert mixed["width_xx"] == pytest.approx(4)
    assert numbers_of((Blur(gaussian_kernel(2.0, 2.0, 0.0)),))["width_xx"] == pytest.approx(2, rel=0.01)


def test_coarseness_falls_with_quality() -> None:
    values = [numbers(f"jpeg:{q}")["coarseness"] for q in range(1, 101)]
    assert values == sorted(values, reverse=True)
    assert values[-1] == 0
    assert numbers("sr:4")["octaves"] == 2
    assert numbers("noise:0.02,jpeg:50")["grain"] == pytest.approx(0.2)
    assert numbers("sr:2,noise:0.02")["grain"] == 0  # the last noise is σ_y


def test_what_the_family_does_not_know_is_refused() -> None:
    with pytest.raises(Unsupported, match="comes too late"):
        numbers("jpeg:50,sr:2")
    with pytest.raises(Unsupported, match="no member"):
        numbers(vouch("torch.nn.functional:relu"))


def test_masks_are_told_cell_by_cell() -> None:
    hole = torch.ones(24, 16)
    hole[8:16, 0:6] = 0
    told = condition_of(Mask(hole), 8, (24, 16))
    assert told.seen is not None
    assert told.seen.shape == (1, 16, 3, 2)
    cell = told.seen[0, :, 1, 0].view(4, 4)  # rows, columns of 2×2 pixels
    assert torch.equal(cell, torch.tensor([[0.0, 0, 0, 1]] * 4))
    assert float(told.seen.sum()) == 16 * 6 - 12
    assert condition_of(task("sr4"), 8, (24, 16)).seen is None


def test_the_mask_of_a_mirrored_margin_is_mirrored() -> None:
    seen = torch.ones(20, 20)
    seen[17, :] = 0
    told = condition_of(Mask(seen), 8, (20, 20), (24, 24)).seen
    assert told is not None
    whole = torch.ones(24, 24)
    whole[17], whole[21] = 0, 0  # 19 is the mirror
    assert torch.equal(told, seen_blocks(whole[None, None], 8))


def test_the_root_of_moments_is_the_root() -> None:
    n = numbers("blur:4x1@33")
    root = torch.tensor([[n["width_xx"], n["width_xy"]], [n["width_xy"], n["width_yy"]]], dtype=torch.float64)
    xx, xy, yy = gaussian_moments(4.0, 1.0, 33.0)
    assert torch.allclose(root @ root, torch.tensor([[xx, xy], [xy, yy]], dtype=torch.float64))
    assert math.isclose(float(torch.linalg.det(root)), 4.0)
