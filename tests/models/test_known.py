"""Pictures that a model does not know: flagged before anything is computed, on every door."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image, ImageDraw
from torch import Tensor
from typer.testing import CliRunner

import paseo
from paseo.apps.cli.main import app
from paseo.degrade import task
from paseo.images import read, to_tensor
from paseo.models import ROOT, load_model
from paseo.models.known import known_pictures, look_of, looks_drawn, unknown_picture
from paseo.units import to_signed, to_unit

SAMPLES = sorted((ROOT / "faces-128" / "samples").glob("*.jpg"))
MODELS = ("faces-128", "photos")
LOOK = {name: json.loads((ROOT / name / "known.json").read_text())["look"] for name in MODELS}


def page(side: int = 128) -> Image.Image:
    """A page of text, as Pillow's own font writes it."""
    image = Image.new("RGB", (side, side), "white")
    draw = ImageDraw.Draw(image)
    for line in range(6, side - 8, 26):
        draw.text((6, line), "the quick brown fox jumps", fill="black")
    return image


def drawing(side: int = 128) -> Image.Image:
    image = Image.new("RGB", (side, side), (240, 240, 235))
    draw = ImageDraw.Draw(image)
    draw.ellipse((20, 20, 100, 100), fill=(200, 60, 40), outline="black", width=2)
    draw.line((10, 118, 118, 90), fill=(20, 60, 160), width=4)
    return image


def seen(x: Tensor, name: str) -> Tensor:
    """A picture as it is when its warning is looked for: measured and lifted."""
    y = task(name).measure(x[None], seeds=0).clamp(0, 1)
    size = (int(x.shape[-2]), int(x.shape[-1]))
    return to_unit(task(name).degradation.lift(to_signed(y), size))[0].clamp(0, 1)


@pytest.mark.parametrize("model", LOOK)
@pytest.mark.parametrize("name", ["sr4", "blur"])
def test_a_face_passes_and_a_drawing_does_not_however_they_were_measured(model: str, name: str) -> None:
    for path in SAMPLES[:4]:
        assert looks_drawn(seen(read(path).rgb, name), LOOK[model]) < 0
    for image in (page(), drawing()):
        assert looks_drawn(seen(to_tensor(image), name), LOOK[model]) > 0


def test_one_colour_and_noise_have_a_look() -> None:
    for x in (torch.zeros(3, 16, 16), torch.ones(3, 16, 16), torch.rand(3, 16, 16)):
        assert all(abs(value) < 100 for value in look_of(x).values())


def test_the_face_model_finds_a_photograph_without_a_face_strange() -> None:
    model, x = load_model("faces-128"), read(SAMPLES[0]).rgb
    assert unknown_picture(model, x) is None
    mixed = x.unflatten(-1, (8, 16)).flip(-2).flatten(-2).flip(-2)  # the same pixels, no face
    assert "unlike what faces-128 knows" in (unknown_picture(model, mixed) or "")
    assert "faces" in known_pictures(model)


def test_the_command_line_the_record_and_python_say_it(tmp_path: Path, recwarn: Any) -> None:
    page(32).save(tmp_path / "page.png")
    arguments = ["restore", str(tmp_path / "page.png"), "-o", str(tmp_path / "out"), "-t", "sr4", "--set"]
    told = CliRunner().invoke(app, [*arguments, "steps=3"])
    assert told.exit_code == 0
    assert "page.png: it looks like a drawing" in told.stderr
    record = json.loads((tmp_path / "out" / "page.json").read_text())
    (text,) = record["warnings"]
    assert text.startswith("it looks like a drawing or a page of text")
    paseo.restore(tmp_path / "page.png", "sr4", steps=3)
    assert any("a page of text" in str(w.message) for w in recwarn)
