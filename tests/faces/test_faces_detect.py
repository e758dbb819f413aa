"""MTCNN: suppression, pyramid, errors; and, where the weights are, the faces that come with the model."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from paseo.errors import BadInput, MissingWeights
from paseo.faces import detect, frame_of, weights, weights_available
from paseo.faces.detect import CELL, _crops, pyramid, suppress
from paseo.faces.nets import ONet, PNet, RNet
from paseo.faces.weights import load_cascade
from paseo.images import read
from paseo.models import ROOT

SAMPLES = sorted((ROOT / "faces-128" / "samples").glob("*.jpg"))
needs_weights = pytest.mark.skipif(not weights_available(), reason=f"no MTCNN weights. {weights.INSTALL}")


def boxes(*rows: tuple[float, float, float, float]) -> Tensor:
    return torch.tensor(rows)


def test_of_two_boxes_that_overlap_the_surer_stays() -> None:
    pair = boxes((0, 0, 10, 10), (1, 1, 11, 11), (20, 20, 30, 30))  # 81 of 119 shared: 0.68
    scores = torch.tensor([0.8, 0.9, 0.7])
    assert suppress(pair, scores, 0.5).tolist() == [1, 2]
    assert suppress(pair, scores, 0.7).tolist() == [1, 0, 2]


def test_a_box_in_a_box_is_found_by_the_smaller_area() -> None:
    nested = boxes((0, 0, 30, 30), (10, 10, 20, 20))
    scores = torch.tensor([0.9, 0.8])
    assert suppress(nested, scores, 0.7).tolist() == [0, 1]
    assert suppress(nested, scores, 0.7, by="smaller").tolist() == [0]


def test_what_a_removed_box_overlaps_is_not_removed_with_it() -> None:
    chain = boxes((0, 0, 10, 10), (4, 0, 14, 10), (8, 0, 18, 10))  # neighbours share 0.43, the ends 0.11
    assert suppress(chain, torch.tensor([0.9, 0.8, 0.7]), 0.4).tolist() == [0, 2]


def test_nothing_is_suppressed_to_nothing() -> None:
    assert suppress(torch.zeros(0, 4), torch.zeros(0), 0.5).tolist() == []


def test_the_pyramid_reaches_from_the_smallest_face_to_the_whole_picture() -> None:
    scales = pyramid((300, 200), 20)
    assert scales[0] == CELL / 20
    assert CELL / scales[-1] <= 200 < CELL / (scales[-1] * 0.709)
    assert pyramid((10, 10), 20) == []


def test_crops_are_black_beyond_the_picture() -> None:
    crop = _crops(torch.ones(1, 3, 24, 24), boxes((-24, 0, 24, 48), (100, 100, 148, 148)), 48)
    assert crop[0, :, :24, 24:].eq(1).all()
    assert crop[0, :, :, :24].eq(-1).all()
    assert crop[0, :, 24:].eq(-1).all()
    assert crop[1].eq(-1).all()


def test_the_networks_have_the_published_shapes() -> None:
    score, move = PNet()(torch.zeros(1, 3, 12, 32))
    assert (score.shape, move.shape) == ((1, 1, 11), (1, 4, 1, 11))
    score, move = RNet()(torch.zeros(2, 3, 24, 24))
    assert (score.shape, move.shape) == ((2,), (2, 4))
    score, move, points = ONet()(torch.zeros(2, 3, 48, 48))
    assert (score.shape, move.shape, points.shape) == ((2,), (2, 4), (2, 5, 2))


def test_a_picture_of_another_shape_is_refused() -> None:
    with pytest.raises(BadInput, match=r"\(3,H,W\)"):
        detect(torch.zeros(1, 3, 64, 64))
    with pytest.raises(BadInput, match="12 pixels"):
        detect(torch.zeros(3, 64, 64), smallest=8)


def test_without_the_weights_the_error_says_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "_package_data", lambda: None)
    load_cascade.cache_clear()
    assert not weights_available()
    with pytest.raises(MissingWeights, match=r"pip install --no-deps facenet-pytorch==2\.5\.3"):
        detect(torch.zeros(3, 64, 64))


def test_a_file_that_is_not_the_published_one_is_never_unpickled(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    torch.save({"conv1.weight": torch.zeros(1)}, tmp_path / "pnet.pt")
    monkeypatch.setattr(weights, "_package_data", lambda: tmp_path)
    monkeypatch.setattr(weights.torch, "load", lambda *a, **k: pytest.fail("it was opened"))
    load_cascade.cache_clear()
    with pytest.raises(MissingWeights, match=r"pnet\.pt is missing or not that of"):
        load_cascade()


@pytest.mark.weights
@needs_weights
@pytest.mark.parametrize("path", SAMPLES, ids=lambda p: p.stem)
def test_the_models_own_samples_are_found_and_framed(path: Path) -> None:
    """They are framed by construction: the frame is the picture, to 3 standard deviations."""
    (face,) = detect(read(path).rgb)
    frame = frame_of(face.landmarks)
    assert face.score > 0.95
    assert frame.size == pytest.approx(128, rel=0.1)
    assert frame.centre == pytest.approx((64, 64), abs=3)
    assert abs(frame.degrees) < 4


@pytest.mark.weights
@needs_weights
def test_a_mirrored_face_has_mirrored_landmarks() -> None:
    picture = read(SAMPLES[0]).rgb
    (face,), (mirrored,) = detect(picture), detect(picture.flip(-1))
    back = mirrored.landmarks[[1, 0, 2, 4, 3]]
    back[:, 0] = 128 - back[:, 0]
    assert float((back - face.landmarks).abs().mean()) < 1.5  # pixels


@pytest.mark.weights
@needs_weights
def test_several_faces_and_none() -> None:
    a, b = (read(path).rgb for path in SAMPLES[:2])
    assert len(detect(torch.cat([a, b], 2))) == 2
    assert detect(torch.full((3, 128, 128), 0.5)) == []
    assert detect(torch.zeros(3, 5, 5)) == []
