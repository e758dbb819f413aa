"""Which faces are left alone, and the words for it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from paseo.faces.align import Frame, frame_of
from paseo.faces.usable import hint, inside, refusal, turned


def face(scale: float = 1.0, nose: float = 0.0, eyes: float = 20.0) -> Tensor:
    flat = torch.tensor([[-eyes, 0.0], [eyes, 0], [nose, 25], [-16, 44], [16, 44]], dtype=torch.float64)
    return scale * flat + 200


@pytest.mark.parametrize(
    ("landmarks", "words"),
    [
        (face(0.7), None),
        (face(0.2), "too small"),
        (face(2.0), "too large"),
        (face(nose=17.0), "turned away"),
        (face(eyes=12.0), "turned away"),
        (face() - torch.tensor([190.0, 0.0]), "cut off"),
    ],
)
def test_a_face_is_usable_or_there_is_a_reason(landmarks: Tensor, words: str | None) -> None:
    reason = refusal(landmarks, frame_of(landmarks), (400, 400))
    if words is None:
        assert reason is None
    else:
        assert reason is not None
        assert reason.startswith(words)


def test_leaning_is_not_turning_away() -> None:
    quarter = torch.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64)
    assert not turned((face() - 200) @ quarter)
    assert turned((face(nose=17.0) - 200) @ quarter)


def test_the_part_inside() -> None:
    assert inside(Frame((50.0, 50.0), (50.0, 0.0)), (100, 100)) == 1
    assert inside(Frame((0.0, 50.0), (50.0, 0.0)), (100, 100)) == 0.5


def test_a_portrait_that_is_not_aligned_gets_a_hint() -> None:
    aligned = Frame((64.0, 64.0), (64.0, 0.0))
    assert hint([aligned], (128, 128)) is None
    assert "leaning 20°" in str(hint([Frame((64.0, 64.0), (60.0, 21.8))], (128, 128)))
    assert "off the middle" in str(hint([Frame((80.0, 64.0), (60.0, 0.0))], (128, 128)))
    assert hint([Frame((64.0, 64.0), (20.0, 0.0))], (128, 128)) is None  # a face in a photograph
    assert hint([], (128, 128)) is None
