"""`--faces` on every door: a photograph with a face, the record, skipping, replay, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

import paseo
from paseo.apps.cli.main import app
from paseo.apps.retouch import FacesFound
from paseo.errors import BadInput, Unsupported
from paseo.faces import FaceReport, weights, weights_available
from paseo.images import fit_square, read, save_png, to_pil
from paseo.models import ROOT
from paseo.recipe import Recipe, Request, key_of, resolve
from paseo.recipe.faces import recipe_for_faces
from paseo.samplers import PASEO

needs_weights = pytest.mark.skipif(not weights_available(), reason=f"no MTCNN weights. {weights.INSTALL}")


def photograph() -> Tensor:
    """(3, 160, 192): a face of 112 px on a soft background."""
    picture = torch.linspace(0.2, 0.7, 192).expand(3, 160, 192).clone()
    picture[:, 24:136, 40:152] = fit_square(read(ROOT / "faces-128/samples/2000001.jpg").rgb, 112)
    return picture


def run(*arguments: object, code: int = 0) -> Any:
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == code, result.output + result.stderr
    return result


def test_the_recipe_says_which_model_has_the_faces() -> None:
    recipe = resolve(Request(task="sr4", faces=True, steps=5))
    assert recipe.faces == "faces-128"
    entries = recipe.to_record()
    assert Recipe.from_record(entries).faces == "faces-128"
    assert "faces" not in resolve(Request(task="sr4")).to_record()  # older records have no such entry
    assert key_of(entries) != key_of(resolve(Request(task="sr4", steps=5)).to_record())
    found = entries | {"faces": entries["faces"] | {"found": [[]]}}
    assert key_of(found) == key_of(entries)  # what was found does not make another run


@pytest.mark.parametrize("task", ["sr4", "jpeg:35", "inpaint"])
@pytest.mark.parametrize("model", ["faces-128", "photos"])
def test_faces_take_the_face_models_settings_through_the_chain(task: str, model: str) -> None:
    recipe = resolve(Request(model=model, task=task, faces=True, operator="chain"))
    found = recipe_for_faces(recipe, paseo.task(task).degradation)
    assert (found.model, found.operator.kind, found.sigma_y) == ("faces-128", "chain", recipe.sigma_y)
    assert isinstance(found.sampler, PASEO)
    assert found.sampler.weight == "ones"
    assert "faces-128" in found.rows


def test_a_degradation_known_by_example_cannot_have_faces() -> None:
    from paseo.degrade import KnownByExample

    with pytest.raises(Unsupported, match="known by example"):
        recipe_for_faces(resolve(Request(task="sr4", faces=True)), KnownByExample("scans", 1))


def test_one_line_says_what_became_of_the_faces() -> None:
    box = (0.0, 0.0, 9.0, 9.0)
    faces = (
        FaceReport(box, 90.0, True, ""),
        FaceReport(box, 30.0, False, "too small: 30 px, at least 40 are needed"),
        FaceReport(box, 31.0, False, "too small: 31 px, at least 40 are needed"),
    )
    words = FacesFound((faces,)).sentence()
    assert words == "faces: 1 restored by the face model; 2 left as they are: too small"
    assert FacesFound(((),)).sentence() == "faces: none found"


def test_missing_weights_are_said_before_anything_is_computed(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(weights, "_package_data", lambda: None)
    weights.load_cascade.cache_clear()
    save_png(tmp_path / "a.png", to_pil(photograph()))
    told = run("restore", tmp_path / "a.png", "-o", tmp_path / "out", "-t", "jpeg", "--faces", code=2)
    assert "facenet-pytorch" in told.stderr
    assert not list((tmp_path / "out").glob("*"))


def test_parts_of_ones_own_have_no_faces() -> None:
    model = paseo.load_model("faces-128")
    with pytest.raises(BadInput, match="by hand"):
        paseo.restore(
            photograph(),
            degradation=paseo.task("jpeg"),
            operator=model.operator("jpeg"),
            sampler=PASEO(steps=3),
            model=model,
            faces=True,
        )


@pytest.mark.slow
@needs_weights
@pytest.mark.weights
def test_a_face_is_found_restored_recorded_skipped_and_replayed(tmp_path: Path) -> None:
    save_png(tmp_path / "in" / "a.png", to_pil(photograph()))
    common = ["-t", "jpeg", "--degrade", "--set", "steps=9"]
    with_faces = [tmp_path / "in", "-o", tmp_path / "faces", *common, "--faces"]
    told = run("restore", *with_faces)
    assert "a.png: faces: " in told.stderr
    record = json.loads((tmp_path / "faces" / "a.json").read_text())
    (faces,) = record["faces"]["found"]
    (face,) = faces
    assert record["faces"]["model"] == "faces-128"
    assert face["size"] == pytest.approx(112, rel=0.15)
    assert face["judgement"] is not None
    assert "1 skipped" in run("restore", *with_faces, "--skip-existing").stderr
    run("restore", tmp_path / "in", "-o", tmp_path / "plain", *common)
    one, other = (read(tmp_path / name / "a.png").rgb for name in ("faces", "plain"))
    assert torch.equal(one[:, :, :24], other[:, :, :24])  # beside the face nothing changes
    assert torch.equal(one, other) is not face["restored"]
    again = run("restore", "--replay", tmp_path / "faces" / "a.json", "-o", tmp_path / "again")
    assert "identical to the recorded files" in again.stderr


@needs_weights
@pytest.mark.weights
def test_in_python_it_is_one_word() -> None:
    y = paseo.task("jpeg").measure(photograph()[None], seeds=0)[0].clamp(0, 1)
    result = paseo.restore(y, "jpeg", faces=True, steps=3)
    assert result.record is not None
    assert len(result.record["faces"]["found"]) == 1
