"""Operators that come with the package for the latent spaces of others: found, said, used at every door."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import typer
from PIL import Image
from typer.testing import CliRunner

from paseo.apps.cli.main import app
from paseo.apps.cli.restore import requested, restore
from paseo.apps.pipeline import PaseoPipeline
from paseo.apps.ui.form import OWN, Form
from paseo.apps.ui.handlers import PageState
from paseo.apps.ui.results import ShownResult
from paseo.degrade.family import PARAMETERS, SUBCELLS
from paseo.errors import BadInput, MissingWeights
from paseo.files import read_json
from paseo.lab.bench.config import parse_config
from paseo.lab.bench.pictures import Truth
from paseo.lab.bench.plan import setup_of
from paseo.lab.reproduce.variants import Options, recipe_of, tasks_of
from paseo.models import load_model, shipped
from paseo.operators.config import OperatorConfig
from paseo.operators.family import ErrorAt, Family
from paseo.operators.net import OperatorNet
from paseo.operators.store import load_operator, save_operator
from paseo.recipe import Recipe, Request, resolve
from paseo.recipe.load import load_operator_of
from paseo.testing import tiny_pipeline
from paseo.train.start import starting_weights

SPACES = {"sd1": 4, "sdxl": 4, "sd3": 16, "flux1": 16}
SD3 = "stabilityai/stable-diffusion-3.5-medium"


def family(channels: int, space: str) -> OperatorNet:
    """Random weights in the form in which operators are shipped."""
    error = ErrorAt("sr:4", {"octaves": 2.0}, (0.1,) * channels)
    torch.manual_seed(channels)
    config = OperatorConfig(
        channels,
        latent_space=space,
        vae_hash="0" * 64,  # of the tiny codec
        degradation="family",
        noise_range=(0.0, 0.2),
        noise_unit="signed",
        training={"settings": {"model": f"tiny-{space}"}},
        family=Family(PARAMETERS, {}, SUBCELLS, False, (error,)),
        widths=(8, 8, 8),
    )
    return OperatorNet(config)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in the place of the package's."""
    for space, channels in SPACES.items():
        save_operator(family(channels, space), tmp_path / "shipped" / space / "family", half=True)
    monkeypatch.setattr(shipped, "root", lambda: tmp_path / "shipped")
    return tmp_path / "shipped"


@pytest.fixture
def sd3(tmp_path: Path) -> str:
    tiny_pipeline("sd3").save_pretrained(tmp_path / "sd3")
    return str(tmp_path / "sd3")


def test_it_is_found_by_latent_space_and_said(package: Path) -> None:
    for name, space in (("sd15", "sd1"), ("rv51", "sd1"), ("sdxl", "sdxl"), (SD3, "sd3")):
        recipe = resolve(Request(model=name, task="jpeg:35"))
        assert (recipe.operator.kind, recipe.operator.name) == ("model", "family")
        (said,) = [why for why in recipe.why if "latent space" in why]
        assert f"latent space {space}, which was trained through the tiny codec tiny-{space}" in said
        assert f"paseo check-operator --model {name}" in said
        assert "\n" not in said


def test_without_any_nothing_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sd3: str) -> None:
    monkeypatch.setattr(shipped, "root", lambda: tmp_path / "nothing")
    recipe = resolve(Request(model=sd3, task="sr4"))
    assert (recipe.operator.kind, recipe.operator.name) == ("model", "")
    with pytest.raises(MissingWeights, match="comes without an operator"):
        load_operator_of(recipe, load_model(sd3))


def test_another_scale_is_another_latent_space(package: Path, tmp_path: Path) -> None:
    pipe = tiny_pipeline("sd3")
    pipe.vae.register_to_config(scaling_factor=1.0)
    pipe.save_pretrained(tmp_path / "other")
    assert shipped.space_of_model(str(tmp_path / "other")) == ""
    assert resolve(Request(model=str(tmp_path / "other"), task="sr4")).operator.name == ""
    assert load_model(str(tmp_path / "other")).tasks == []


def test_an_operator_of_the_models_own_comes_first(package: Path, sd3: str) -> None:
    net = OperatorNet(OperatorConfig(16, "sd3", load_model(sd3).hashes["codec"], "sr4", widths=(8, 8, 8)))
    save_operator(net, Path(sd3) / "operators" / "sr4")
    assert resolve(Request(model=sd3, task="sr4")).operator.name == ""
    assert resolve(Request(model=sd3, task="sr8")).operator.name == "family"
    assert load_model(sd3).tasks == ["family", "sr4"]


def typed(model: str) -> Recipe:
    command = typer.Typer()
    command.command()(restore)
    words = ["a.png", "--task", "sr4", "--model", model]
    given: Any = typer.main.get_command(command).make_context("restore", words).params
    return resolve(requested(given))


def benched(model: str) -> Recipe:
    config = parse_config({"model": model, "tasks": ["sr4"], "methods": [{"name": "paseo"}]})
    return setup_of(config, "sr4", config.methods[0]).recipe


DOORS: dict[str, Callable[[str], Recipe]] = {
    "page": lambda model: resolve(Form("a.png", model=model, task="sr4").request()),
    "pipeline": lambda model: PaseoPipeline.from_pretrained(model).recipe("sr4"),
    "bench": benched,
    "reproduce": lambda model: recipe_of(Options(model=model), "sr4"),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_door_decides_the_same(door: str, package: Path, sd3: str) -> None:
    first, other = typed(sd3), DOORS[door](sd3)
    assert first.operator.name == "family"
    for fact in ("task", "sampler", "sigma_y", "prompt", "guidance"):
        assert getattr(other, fact) == getattr(first, fact), fact
    assert (other.operator.kind, other.operator.name) == (first.operator.kind, first.operator.name)


def test_a_tiny_model_restores_with_it_at_every_door(package: Path, sd3: str, tmp_path: Path) -> None:
    picture = tmp_path / "small.png"
    Image.linear_gradient("L").resize((16, 16)).convert("RGB").save(picture)
    words = ["restore", str(picture), "-o", str(tmp_path / "out"), "--task", "sr4", "--model", sd3]
    result = CliRunner().invoke(app, [*words, "--set", "steps=3"])
    assert result.exit_code == 0, result.output
    assert "trained through the tiny codec tiny-sd3" in result.output
    record = read_json(tmp_path / "out" / "small.json")
    assert record["operator"]["name"] == "family"
    again = CliRunner().invoke(
        app, ["restore", "--replay", str(tmp_path / "out" / "small.json"), "-o", str(tmp_path / "again")]
    )
    assert again.exit_code == 0, again.output

    state = PageState(tmp_path / "page", (sd3,))
    assert "sr4" not in state.model(sd3).tasks
    form = Form(str(picture), way=OWN, model=sd3, task="sr:4", sigma=0.01, settings=("steps=3",))
    assert isinstance(list(state.restore(form, "one"))[-1], ShownResult)

    assert {"sr4", "inpaint", "jpeg:"} <= {name for _, name in state.task_choices(sd3)}

    config = parse_config(
        {"model": sd3, "tasks": ["sr4"], "methods": [{"name": "paseo", "settings": {"steps": 3}}]}
    )
    setup = setup_of(config, "sr4", config.methods[0])
    truth = Truth("a", np.asarray(Image.open(picture).resize((64, 64))))
    assert setup.draw(setup.recipe.sampler, [truth]).images.shape == (1, 3, 64, 64)
    assert tasks_of(Options(model=sd3, tasks="sr4,jpeg")) == ["sr4", "jpeg"]

    pipe = PaseoPipeline.from_pretrained(sd3)
    pipe.set_progress_bar_config(disable=True)
    shown = pipe(Image.open(picture), "sr4", num_inference_steps=3)
    assert shown.images[0].size == (64, 64)
    assert pipe.shipped_operator("family") is pipe.shipped_operator("family")


def test_bad_pairs_are_refused(package: Path, sd3: str) -> None:
    save_operator(family(4, "sd3"), package / "sd3" / "family")
    with pytest.raises(BadInput, match="4 channels"):
        load_operator_of(resolve(Request(model=sd3, task="sr4")), load_model(sd3))


def test_training_can_start_from_it(package: Path, sd3: str) -> None:
    weights = starting_weights(Path("shipped"), load_model(sd3).codec, "family")
    ours = load_operator(package / "sd3" / "family").state_dict()
    assert all(torch.equal(weights[name], value) for name, value in ours.items())
    with pytest.raises(MissingWeights, match="no operator comes with the package"):
        starting_weights(Path("shipped"), load_model("faces-128").codec, "family")


def test_check_operator_measures_it(package: Path, sd3: str) -> None:
    result = CliRunner().invoke(
        app, ["check-operator", "sr4", "--model", sd3, "--count", "1", "--directions", "1"]
    )
    assert result.exit_code == 0, result.output


def test_a_model_of_the_hub_is_looked_up_in_its_cache(
    package: Path, sd3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    monkeypatch.setattr(
        huggingface_hub, "try_to_load_from_cache", lambda repo, file, revision=None: f"{sd3}/{file}"
    )
    assert shipped.space_of_model("somebody/else@main") == "sd3"
    net = OperatorNet(OperatorConfig(16, "sd3", "", "sr4", widths=(8, 8, 8)))
    save_operator(net, Path(sd3) / "operators" / "sr4")
    assert shipped.operators_of_diffusers("somebody/else")["sr4"] == Path(sd3) / "operators" / "sr4"
