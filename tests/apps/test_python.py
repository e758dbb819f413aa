"""`paseo.restore` in three words: every kind of input, every kind of task, the same bytes as elsewhere."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from typer.testing import CliRunner

import paseo
from paseo.apps.cli.main import app
from paseo.images import read, to_pil
from paseo.models import ROOT
from paseo.street import restore as street

FAST = {"steps": 3}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A face at a quarter of its size."""
    x = read(ROOT / "faces-128/samples/2000001.jpg").rgb
    path = tmp_path_factory.mktemp("python") / "small.png"
    to_pil(paseo.task("sr4").measure(x[None], seeds=0)[0]).save(path)
    return path


def test_the_bytes_are_those_of_the_command_line(small: Path, tmp_path: Path) -> None:
    result = paseo.restore(small, "sr4", samples=2, seed=1, settings=FAST)
    written = result.save(tmp_path / "py" / "small.png", record=True)
    arguments = ["restore", str(small), "-o", str(tmp_path / "cli"), "-t", "sr4", "-n", "2", "--seed", "1"]
    CliRunner().invoke(app, [*arguments, "--set", "steps=3"], catch_exceptions=False)
    assert [p.name for p in written] == ["small_s0.png", "small_s1.png", "small_mean.png", "small_std.png"]
    for path in written:
        assert path.read_bytes() == (tmp_path / "cli" / path.name).read_bytes()
    assert (tmp_path / "py" / "small.json").is_file()


def test_every_kind_of_image_gives_the_same(small: Path) -> None:
    x = read(small).rgb
    array = np.array(Image.open(small))
    first = paseo.restore(str(small), task="sr4", settings=FAST).images
    for image in (x, x[None], array, array / 255.0, Image.open(small), (x * 255).round().to(torch.uint8)):
        assert torch.allclose(paseo.restore(image, "sr4", settings=FAST).images, first, atol=1e-5)


def test_the_old_form_is_the_street(small: Path) -> None:
    model, task = paseo.load_model("faces-128"), paseo.task("sr4")
    sampler = paseo.PASEO(steps=3)
    y = read(small).rgb[None].expand(2, -1, -1, -1)
    parts = dict(model=model, degradation=task, operator=model.operator("sr4"), sampler=sampler)
    old = paseo.restore(y, **parts, sigma_y=0.01, seeds=[3, 4])
    assert torch.equal(old.images, street(y, **parts, seeds=[3, 4]).images)
    half = paseo.restore(y[:1], **{**parts, "model": None}, prior=model.prior, codec=model.codec, seeds=3)
    assert torch.allclose(half.images[0], old.images[0], atol=1e-5)


class Physics:
    """As deepinv has them."""

    def A(self, x: Tensor) -> Tensor:
        return torch.nn.functional.avg_pool2d(x, 2)

    def A_adjoint(self, y: Tensor) -> Tensor:
        return torch.nn.functional.interpolate(y, scale_factor=2.0) / 4


def test_functions_and_physics_need_no_training(small: Path) -> None:
    x = read(ROOT / "faces-128/samples/2000001.jpg").rgb[None]
    dim = paseo.restore(0.5 * x, lambda x: 0.5 * x, settings=FAST)
    assert dim.images.shape[-2:] == (128, 128)
    assert dim.record is not None
    assert dim.record["operator"]["name"] == "chain"
    halved = paseo.restore(Physics().A(x), Physics(), settings=FAST)
    assert halved.images.shape[-2:] == (128, 128)


def test_what_a_jpeg_says_of_itself_is_its_task(tmp_path: Path) -> None:
    with Image.open(ROOT / "faces-128/samples/2000001.jpg") as image:
        image.convert("RGB").save(tmp_path / "a.jpg", quality=35)
    result = paseo.restore(tmp_path / "a.jpg", settings=FAST)
    assert result.record is not None
    assert result.record["task"] == "jpeg:35"
    with pytest.raises(paseo.BadInput, match="Name a task"):
        paseo.restore(torch.rand(3, 64, 64))


def test_a_result_shows_itself(small: Path, tmp_path: Path) -> None:
    result = paseo.restore(small, "sr4", samples=2, settings=FAST)
    assert repr(result).startswith("<Restored 2 draws of 128×128, sr4, 3 denoiser calls")
    assert Image.open(io.BytesIO(result._repr_png_())).size == (256, 128)
    assert (result.pil.size, len(result.pils)) == ((128, 128), 2)
    assert result.mean.shape == (3, 128, 128)
    assert result.std.shape == (1, 128, 128)
    assert paseo.restore(small, "sr4", settings=FAST).save(tmp_path / "a.jpg") == [tmp_path / "a.jpg"]


def test_bad_wishes_say_what_was_expected(small: Path) -> None:
    for wish in ({"samples": 0}, {"task": "sr5"}, {"device": "abacus"}, {"model": "nowhere/at/all"}):
        with pytest.raises(paseo.PaseoError):
            paseo.restore(small, **{"task": "sr4", **wish})
    with pytest.raises(paseo.BadInput, match="also needs operator="):
        paseo.restore(small, "sr4", prior=paseo.load_model().prior)
    with pytest.raises(paseo.BadInput, match="an array"):
        paseo.restore(np.zeros((2, 3, 8, 8)), "sr4")
