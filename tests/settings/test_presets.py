"""The paper's settings: the rules its text states, the † rows, scores, and presets stored beside a model."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from paseo.errors import BadInput
from paseo.samplers import PASEO
from paseo.settings.presets import PHOTO, Preset, known_models, preset, presets

FACE = "A high quality photo of a face"
TABLES = ("ffhq/rv51", "ffhq/sd35", "coco/sd35")
TASKS = ("sr4", "sr8", "blur", "inpaint", "jpeg")
ALL = [(model, task) for model in TABLES for task in TASKS]


@pytest.mark.parametrize(("model", "task"), ALL)
def test_what_the_text_says_of_all_rows(model: str, task: str) -> None:
    row = preset(model, task)
    s: PASEO = row.sampler
    assert (s.anchor, s.cg_tolerance, s.perturb_prior, s.perturb_measurement) == ("arc", 1e-5, True, True)
    assert s.nfe == (53 if model.startswith("ffhq") else 197 if task in ("sr8", "inpaint") else 97)
    assert row.guidance == (
        4
        if model.endswith("sd35") and (task in ("blur", "jpeg") or (model, task) == ("ffhq/sd35", "sr4"))
        else 1
    )
    assert s.weight == ("soft" if task == "inpaint" else "ones")
    assert s.start == ("mean" if (model, task) == ("coco/sd35", "sr4") else "proxy")
    assert row.prompt == (FACE if model.startswith("ffhq") else None if task == "sr8" else PHOTO)
    assert set(row.score) == {"psnr", "lpips", "kid", "seconds", "gib"}


@pytest.mark.parametrize(("model", "task"), ALL)
def test_eta_rules(model: str, task: str) -> None:
    expected = {"ffhq/rv51": "ddpm", "ffhq/sd35": "square"}.get(model) or {
        "sr4": "sqrt",
        "inpaint": "square",
    }.get(task, "ddpm")
    assert preset(model, task).sampler.eta == expected


@pytest.mark.parametrize(("model", "task"), ALL)
def test_dagger_keeps_the_original_anchor_and_the_budget(model: str, task: str) -> None:
    arc, dagger = preset(model, task), preset(model, task, "paseo-dagger")
    assert dagger.sampler.anchor == "fresh"
    assert dagger.sampler.nfe == arc.sampler.nfe
    assert (dagger.prompt, dagger.guidance) == (arc.prompt, arc.guidance)
    assert dagger.score != arc.score
    assert dagger.sampler.weight == ("fixed" if task == "inpaint" else "ones")
    assert preset(model, task, "PASEO†") == dagger


def test_rows_of_the_tables() -> None:
    """Three of them written out, so that a slip in the shared helpers is seen."""
    assert preset("ffhq/rv51", "inpaint").sampler == PASEO(
        steps=28,
        inner_steps=3,
        cg_budget=12,
        relaxation=0.6,
        damping=0.005,
        operator_noise=0.05,
        weight="soft",
        eta="ddpm",
    )
    assert preset("ffhq/sd35", "jpeg").sampler == PASEO(
        steps=28, inner_steps=3, cg_budget=3, relaxation=0.3, damping=0.0, operator_noise=0.02, eta="square"
    )
    assert preset("coco/sd35", "blur", "paseo-dagger").sampler == PASEO(
        steps=50,
        inner_steps=1,
        cg_budget=4,
        relaxation=0.6,
        damping=0.0,
        operator_noise=0.02,
        anchor="fresh",
        eta="ddpm",
    )
    assert preset("coco/sd35", "sr4", "paseo-dagger").sampler == replace(
        preset("coco/sd35", "sr4").sampler, anchor="fresh"
    )


def test_names_that_people_use() -> None:
    assert preset("rv51", "sr4") == preset("ffhq/rv51", "sr4")
    assert preset("stabilityai/stable-diffusion-3.5-medium", "blur") == preset("coco/sd35", "blur")
    assert set(TABLES) <= set(known_models())
    assert set(presets("sd35")) == set(TASKS)
    with pytest.raises(BadInput, match=r"no settings for the model 'gpt'.*ffhq/rv51"):
        preset("gpt", "sr4")
    with pytest.raises(BadInput, match=r"task 'sr2'.*sr4, sr8"):
        preset("rv51", "sr2")
    with pytest.raises(BadInput, match=r"'silo'.*paseo-dagger"):
        preset("rv51", "sr4", "silo")


def test_presets_stored_beside_a_model(tmp_path: Path) -> None:
    entry = {
        "class": "PASEO",
        "settings": {"steps": 12, "relaxation": 0.5},
        "score": {"lpips": 0.1},
        "source": "here",
        "guidance": 2,
    }
    (tmp_path / "presets.json").write_text(json.dumps({"sr4": {"paseo": entry}}))
    found = preset(str(tmp_path), "sr4")
    assert found == Preset(PASEO(steps=12, relaxation=0.5), None, 2.0, {"lpips": 0.1}, "here")
    (tmp_path / "presets.json").write_text(json.dumps({"sr4": {"paseo": entry | {"class": "Magic"}}}))
    with pytest.raises(BadInput, match="'Magic' is no sampler"):
        preset(str(tmp_path), "sr4")
    (tmp_path / "presets.json").write_text(json.dumps({"sr4": {"paseo": entry | {"lent": {"steps": 20}}}}))
    assert preset(str(tmp_path), "sr4").borrowed().sampler == PASEO(steps=20, relaxation=0.5)
    for wrong in ({"colour": 1}, {"steps": -1}, [1]):
        (tmp_path / "presets.json").write_text(json.dumps({"sr4": {"paseo": entry | {"lent": wrong}}}))
        with pytest.raises(BadInput):
            preset(str(tmp_path), "sr4")
    (tmp_path / "presets.json").write_text("[]")
    with pytest.raises(BadInput, match="does not hold presets"):
        preset(str(tmp_path), "sr4")


def test_a_preset_can_be_called_as_its_sampler() -> None:
    row: Any = Preset(cast(Any, lambda *arguments: arguments))
    assert row("prior", "problem", "noise", watch="watch") == ("prior", "problem", "noise", "watch")
