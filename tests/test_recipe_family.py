"""Operators for a family, tasks that are read off a file, and detail that is carried over: decided once."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image, ImageFilter
from typer.testing import CliRunner

import paseo.models
from paseo.apps.cli.main import app
from paseo.apps.ui.form import Form, prepare
from paseo.apps.ui.handlers import PageState
from paseo.apps.ui.sliders import CHOICES, sentence
from paseo.apps.ui.wiring import ASKED, filled_in
from paseo.degrade import JPEG, Compose, GaussianBlur, KnownByExample, Mask, Task
from paseo.degrade.family import PARAMETERS, SUBCELLS
from paseo.errors import BadInput, PaseoError
from paseo.images import read
from paseo.models import load_model
from paseo.operators.config import OperatorConfig
from paseo.operators.family import ErrorAt, Family
from paseo.operators.net import OperatorNet
from paseo.operators.store import save_operator
from paseo.recipe import NOTHING, Recipe, Request, examine_file, read_off, resolve, settle
from paseo.recipe.family import BELIEVED, FAMILY, MASKS, USUALLY, believed
from paseo.recipe.load import load_operator_of
from paseo.samplers import PASEO
from paseo.settings.presets import preset
from paseo.street import restore
from paseo.train.draws import RANGES

ERROR = 0.4  # of the tiny family at quality 35, in every channel
SAMPLE = sorted((paseo.models.ROOT / "faces-128" / "samples").glob("*"))[0]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """faces-128 with a random operator for the family."""
    folder = tmp_path_factory.mktemp("models") / "faces"
    shutil.copytree(paseo.models.ROOT / "faces-128", folder)
    shutil.rmtree(folder / "operators" / MASKS, ignore_errors=True)
    channels = load_model(folder).latent_channels
    errors = (ErrorAt("jpeg:35", {"jpeg": 1.0, "coarseness": 4.0}, (ERROR,) * channels),)
    family = Family(PARAMETERS, RANGES, SUBCELLS, errors=errors)
    torch.manual_seed(0)
    net = OperatorNet(OperatorConfig(channels, degradation="family", noise_range=(0, 0.2), family=family))
    save_operator(net, folder / "operators" / "family")
    return folder


def saved(folder: Path, name: str, **options: Any) -> Path:
    path = folder / name
    Image.open(SAMPLE).convert("RGB").save(path, **options)
    return path


@pytest.mark.parametrize(
    ("task", "share"),
    [
        ("jpeg:35", 0.45),
        ("blur:1.3", 0.35),
        ("blur:3x1@60", 2.0),
        ("motion:9@20", 2.0),
        ("sr:3", 0.45),
        ("blur:1.5,sr:2,jpeg:60", USUALLY),
    ],
)
def test_the_family_serves_what_has_no_operator_of_its_own(model: Path, task: str, share: float) -> None:
    recipe = resolve(Request(model=str(model), task=task))
    assert (recipe.operator.kind, recipe.operator.name) == ("model", "family")
    assert any("family" in reason for reason in recipe.why)
    assert recipe.sampler.operator_noise == pytest.approx(share * ERROR, rel=1e-2)
    assert Recipe.from_record(recipe.to_record()) == recipe


def test_a_number_that_is_to_be_found_is_believed_less(model: Path) -> None:
    blind = Request(model=str(model), task="blur:1.3", settings=("blind=sigma",))
    assert resolve(blind).sampler.operator_noise == pytest.approx(USUALLY * ERROR, rel=1e-2)


def test_settings_are_those_of_the_kin(model: Path) -> None:
    for task, kin in (
        ("jpeg:35", "jpeg"),
        ("motion:9@20", "blur"),
        ("sr:7", "sr8"),
        ("blur:1.5,sr:2", "sr4"),
    ):
        kept = preset(str(model), kin).sampler
        found = resolve(Request(model=str(model), task=task)).sampler
        assert (found.steps, found.cg_budget, found.shift) == (kept.steps, kept.cg_budget, kept.shift)


@pytest.mark.parametrize(
    ("task", "own"), [("jpeg:10", "jpeg"), ("sr:4", "sr4"), ("sr:8", "sr8"), ("blur:3", "blur")]
)
def test_the_papers_settings_keep_their_operator(model: Path, task: str, own: str) -> None:
    typed, named = (resolve(Request(model=str(model), task=name)) for name in (task, own))
    assert (typed.operator.name, typed.carry, typed.sampler) == (f"{own}/lean", 0.0, named.sampler)
    kept = preset(str(model), own)
    assert (named.operator.name, named.carry, named.sampler) == (kept.operator, 0.0, kept.sampler)
    other = [
        resolve(Request(model=str(model), task=name, method="silo")).operator.name for name in (task, own)
    ]
    assert other == [own, ""]


@pytest.mark.parametrize("name", ["faces-128", "photos"])
def test_a_degradation_by_its_numbers_is_restored_as_by_its_name(name: str) -> None:
    """Through the family's operator, too: jpeg:10 has the settings kept for jpeg, jpeg:11 borrows them."""
    family = str(paseo.models.ROOT / name / "operators" / "family")

    def sampler(task: str, *settings: str) -> PASEO:
        found = resolve(Request(model=name, task=task, operator=family, settings=settings)).sampler
        assert isinstance(found, PASEO)
        return found

    for task, own in (("jpeg:10", "jpeg"), ("sr:4", "sr4"), ("sr:8", "sr8"), ("blur:3", "blur")):
        assert sampler(task) == sampler(own)
    assert sampler("jpeg:11") != sampler("jpeg:10")
    # what is to be found on the way is not known as anything yet
    assert sampler("blur:3", "blind=sigma").operator_noise > sampler("blur:3").operator_noise


def test_what_was_asked_for_stays(model: Path) -> None:
    asked = resolve(Request(model=str(model), task="jpeg:35", settings=("operator_noise=0.07",)))
    assert asked.sampler.operator_noise == 0.07
    mine = PASEO(steps=5, operator_noise=0.3)
    assert resolve(Request(model=str(model), task="jpeg:35", sampler=mine)).sampler == mine


def test_an_operator_for_any_mask_is_given_the_masks_weights(model: Path) -> None:
    """The kept weights of one are those of the dedicated operator, which knows what its box hides."""
    family = str(model / "operators" / "family")

    def weight(operator: str | None, **wishes: Any) -> str:
        sampler = resolve(Request(model=str(model), task="inpaint", operator=operator, **wishes)).sampler
        assert isinstance(sampler, PASEO)
        return sampler.weight

    assert weight(None) == "ones"
    assert weight(family) == "mask"
    assert weight(family, settings=["weight=ones"]) == "ones"  # as asked
    assert weight(family, label="paseo-paper") == "soft"  # finds the hole itself


def test_a_free_mask_goes_through_the_family(model: Path) -> None:
    observed = torch.ones(128, 128)
    observed[10:20, 30:90] = 0
    recipe = resolve(Request(model=str(model), mask=Mask(observed)))
    assert recipe.operator.name == "family"
    assert resolve(Request(mask=Mask(observed))).operator.kind in ("cells", "model")
    loaded = load_operator_of(recipe, load_model(model))
    assert isinstance(loaded.operator, OperatorNet)
    assert loaded.operator.serves_family
    given = resolve(Request(model=str(model), mask=Mask(observed), operator=loaded.operator))
    assert given.operator.kind == "given"
    assert settle(given, Mask(observed), loaded.operator.spec) == given


def test_the_share_that_is_carried() -> None:
    def share(task: Any) -> float:
        return resolve(Request(task=task)).carry

    assert share("jpeg:75") == 1
    assert share("jpeg:12") == 0
    assert 0 < share("jpeg:25") < 1
    assert all(share(task) == 0 for task in ("sr4", "sr8", "blur", "inpaint", "jpeg"))
    assert 0 < share("blur:0.7") < 0.5
    assert share(Compose(Mask(torch.ones(8, 8)), JPEG(90))) == 0
    recipe = resolve(Request(task="jpeg:40"))
    assert recipe.to_record()["recipe"]["carry"] == recipe.carry
    assert "carry" not in resolve(Request(task="jpeg")).to_record()["recipe"]


def test_what_the_codec_cannot_hold_is_carried_over() -> None:
    """x̂ with a share a is x̂ without plus a (y − D(E(y))), up to clamping."""
    model = load_model()
    y = read(SAMPLE).rgb[None]
    runs = [
        restore(y, model=model, operator=lambda z: z, degradation=JPEG(75), sampler=PASEO(steps=3), carry=a)
        for a in (0.0, 1.0)
    ]
    with torch.no_grad():
        missing = y - (model.codec.decode(model.codec.encode(2 * y - 1)) + 1) / 2
    plain, carried = (run.images for run in runs)
    inside = (carried > 0) & (carried < 1) & (plain > 0) & (plain < 1)
    assert torch.equal(runs[0].latents, runs[1].latents)
    assert torch.allclose((carried - plain)[inside], missing[inside], atol=1e-5)


# ------------------------------------------------------------------------------------------------- auto


def test_auto_reads_the_quality_off_the_file(model: Path, tmp_path: Path) -> None:
    open_ = resolve(Request(model=str(model), task="auto"))
    assert not open_.settled
    assert open_.task == "auto"
    recipe = read_off(open_, saved(tmp_path, "a.jpg", quality=35))
    assert (recipe.task, recipe.operator.name) == ("jpeg:35", "family")
    assert recipe.found is not None
    assert recipe.found["jpeg"]["quality"] == 35
    assert recipe.to_record()["recipe"]["found"]["task"] == "jpeg:35"
    assert "quality 35" in recipe.why[0]
    with pytest.raises(BadInput, match="read off a file"):
        load_operator_of(open_, load_model(model))


def test_noise_adds_its_own_part_to_what_is_believed() -> None:
    """In proportion to that of the probe; none where the family knows of no noise, or at the paper's."""
    blur = ErrorAt("blur:2", {"width_xx": 2.0, "width_yy": 2.0}, (0.2,))
    noise = ErrorAt("noise:0.05", {}, (0.3,))
    family = Family(PARAMETERS, RANGES, SUBCELLS, errors=(blur, noise))

    def r(name: str, sigma_y: float, known: Family = family) -> float:
        sampler, _ = believed(PASEO(), known, paseo.task(name), sigma_y)
        assert isinstance(sampler, PASEO)
        return sampler.operator_noise

    assert r("noise:0.1", 0.1) == pytest.approx(0.6, rel=1e-2)  # nothing but noise
    share = BELIEVED[GaussianBlur]
    assert r("blur:2", 0.01) == pytest.approx(share * 0.2, rel=1e-2)
    assert r("blur:2", 0.05) == pytest.approx(math.hypot(share * 0.2, 0.3), rel=1e-2)
    silent = Family(PARAMETERS, RANGES, SUBCELLS, errors=(blur,))
    assert r("blur:2", 0.05, silent) == pytest.approx(share * 0.2, rel=1e-2)


@pytest.mark.parametrize(
    ("model", "own", "borrows", "differ"),
    [
        ("photos", "blur", "blur:1", {"cg_tolerance": (0.4, PASEO.cg_tolerance)}),
        ("faces-128", "blur", "blur:1", {"cg_tolerance": (0.4, PASEO.cg_tolerance)}),
        ("faces-128", "jpeg", "jpeg:20", {"inner_steps": (1, 2), "sketch": (True, False)}),
    ],
)
def test_what_holds_for_one_degradation_alone_is_not_lent(
    model: str, own: str, borrows: str, differ: dict[str, tuple[object, object]]
) -> None:
    """A milder degradation borrows the other settings: CG's early stop and a quick decoder cost it detail."""
    for name, values in differ.items():
        found = tuple(getattr(resolve(Request(model=model, task=t)).sampler, name) for t in (own, borrows))
        assert found == values


def test_what_a_blind_run_found_is_in_the_record_of_its_picture(tmp_path: Path) -> None:
    """Two files in one pass: each has its own width, and how far it may be off."""
    sample = Image.open(paseo.models.ROOT / "photos" / "samples" / "portrait.jpg").resize((64, 64))
    for width in (1, 3):
        sample.filter(ImageFilter.GaussianBlur(width)).save(tmp_path / f"{width}.png")
    words = ["restore", str(tmp_path), "-o", str(tmp_path / "out"), "--task", "blur:2", "--batch", "2"]
    done = CliRunner().invoke(app, [*words, "--set", "blind=sigma", "--set", "steps=3"])
    assert done.exit_code == 0, done.output
    found = [
        json.loads((tmp_path / "out" / f"{width}.json").read_text())["found"]["sigma"] for width in (1, 3)
    ]
    assert found[0]["mean"] < 1.6 < 2.2 < found[1]["mean"]
    assert all(entry["std"] > 0 and len(entry["draws"]) == 1 for entry in found)
    assert "sigma was found" in done.output


def test_a_soft_picture_is_told_but_left_alone(tmp_path: Path) -> None:
    from skimage import data

    cat = Image.fromarray(data.chelsea()).resize((225, 150), Image.Resampling.LANCZOS)
    cat.filter(ImageFilter.GaussianBlur(2)).save(tmp_path / "soft.png")
    cat.save(tmp_path / "sharp.png")
    soft, sharp = examine_file(tmp_path / "soft.png"), examine_file(tmp_path / "sharp.png")
    assert soft.blur == pytest.approx(2, rel=0.2)  # and its own softness
    assert soft.fine
    assert f"--task blur:{soft.blur:.1f}" in soft.sentence
    assert soft.to_record()["blur"] == round(soft.blur or 0, 2)
    assert sharp.blur is None


def test_a_picture_that_is_fine_has_nothing_to_restore(tmp_path: Path) -> None:
    found = examine_file(saved(tmp_path, "a.jpg", quality=96))
    assert found.fine
    assert found.task == NOTHING
    assert "nothing to restore" in found.sentence
    assert resolve(Request(task=found.task)).idle


def test_auto_gives_way_to_a_mask_and_to_an_operator_that_knows_its_task() -> None:
    assert resolve(Request(task="auto", mask=True)).task == "inpaint"
    folder = str(paseo.models.ROOT / "faces-128" / "operators" / "blur")
    assert resolve(Request(task="auto", operator=folder)).task == "blur"


def test_a_task_that_contradicts_its_file_is_said(tmp_path: Path) -> None:
    photo = saved(tmp_path, "a.jpg", quality=60)
    warned = read_off(resolve(Request(task="jpeg")), photo)
    assert "quality 10" in warned.why[-1]
    assert "jpeg:60" in warned.why[-1]
    assert read_off(resolve(Request(task="sr4")), photo).found is None
    fits = resolve(Request(task="jpeg:62"))
    assert read_off(fits, photo) is fits


def test_the_command_line_examines_each_file(model: Path, tmp_path: Path) -> None:
    saved(tmp_path, "fine.jpg", quality=97)
    saved(tmp_path, "rough.jpg", quality=35)
    words = ["restore", str(tmp_path), "-o", str(tmp_path / "out"), "--model", str(model), "--set", "steps=3"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    fine, rough = (json.loads((tmp_path / "out" / f"{n}.json").read_text()) for n in ("fine", "rough"))
    assert (fine["task"], fine["nfe"], fine["operator"]["sha256"]) == (NOTHING, 0, None)
    same = read(tmp_path / "out" / "fine.png").rgb - read(tmp_path / "fine.jpg").rgb
    assert float(same.abs().max()) < 1 / 255
    assert rough["task"] == "jpeg:35"
    assert rough["nfe"] == 3
    assert rough["recipe"]["found"]["jpeg"]["quality"] == 35
    assert math.isclose(rough["recipe"]["carry"], resolve(Request(task="jpeg:35")).carry)
    for name in ("fine", "rough"):
        again = ["restore", "--replay", str(tmp_path / "out" / f"{name}.json"), "-o", str(tmp_path / "again")]
        done = CliRunner().invoke(app, again)
        assert done.exit_code == 0, done.output
        assert "; identical to the recorded files" in done.output
    left = CliRunner().invoke(app, [*words, "--skip-existing"])
    assert "2 skipped" in left.output
    degraded = CliRunner().invoke(app, ["restore", str(SAMPLE), "-o", str(tmp_path / "d"), "--degrade"])
    assert degraded.exit_code == 2
    assert "What happened" in degraded.output


# ------------------------------------------------------------------------------------------------- page


def test_the_page_offers_sliders_where_there_is_a_family(model: Path, tmp_path: Path) -> None:
    state = PageState(tmp_path, (str(model),))
    offered = [name for _, name in state.task_choices(str(model))]
    assert {*CHOICES, "auto", "sr4"} <= set(offered)
    plain = [name for _, name in PageState(tmp_path).task_choices("faces-128")]
    assert ("jpeg:" in plain) == ("auto" in plain)
    assert "paseo" in [name for _, name in state.method_choices(str(model), "jpeg:50")]
    base = {
        "picture": None,
        "way": "own",
        "model": str(model),
        "preset": "",
        "seed": 0,
        "faces": False,
        "sigma": 0.01,
        "fit": True,
    }

    def fill(task: str, first: float, second: float = 0) -> Form | PaseoError:
        values = base | {"task": task, "first": first, "second": second, "keep_known": False, "editor": None}
        return filled_in(state, {}, [values[name] for name in ASKED], ["paseo", 1, []])

    quality, movement = fill("jpeg:", 50), fill("motion:", 9, 30)
    assert isinstance(quality, Form)
    assert (quality.task, quality.sigma, quality.settings) == ("jpeg:50", None, ())
    assert isinstance(movement, Form)
    assert movement.task == "motion:9@30"
    for task, first in (("jpeg:", 0), ("sr:", 40), ("blur:", float("nan")), ("noise", 0.1)):
        assert isinstance(fill(task, first), BadInput)
    assert sentence("jpeg:", [50]) == "The picture was stored as a JPEG of quality 50."


def test_the_page_examines_an_upload(model: Path, tmp_path: Path) -> None:
    form = Form(str(saved(tmp_path, "a.jpg", quality=40)), way="own", model=str(model), task="auto")
    ready = prepare(form, tmp_path / "runs", 128)
    assert (ready.plan.recipe.task, ready.plan.recipe.sigma_y) == ("jpeg:40", 0.0)
    assert "--task jpeg:40" in ready.command
    with pytest.raises(BadInput, match="sharp picture"):
        prepare(replace(form, way="show"), tmp_path / "runs", 128)


def test_an_operator_for_masks_alone_serves_them_and_nothing_else(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "faces"
    shutil.copytree(model, folder)
    hole = torch.zeros(128, 128)
    hole[20:30, 5:100] = 1
    free = Request(model=str(folder), mask=Mask.from_hole(hole))
    assert resolve(free).operator.name == FAMILY
    shutil.copytree(model / "operators" / FAMILY, folder / "operators" / MASKS)
    chosen = resolve(free)
    assert (chosen.operator.kind, chosen.operator.name, chosen.sampler.weight) == ("model", MASKS, "mask")
    assert load_operator_of(chosen, load_model(folder)).operator.serves_family
    assert resolve(Request(model=str(folder), task="jpeg:35")).operator.name == FAMILY
    assert resolve(Request(model=str(folder), task="inpaint")).operator.name == "inpaint/lean"
    assert "masks" not in load_model(folder).tasks


def test_settings_that_cannot_be_read_are_an_error_and_not_defaults(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "faces"
    shutil.copytree(model, folder)
    file = folder / "presets.json"
    file.write_text(file.read_text().replace('"recall_limit"', '"recal_limit"', 1))
    with pytest.raises(BadInput, match="does not hold presets"):
        resolve(Request(model=str(folder), task="sr4"))
    file.unlink()
    assert resolve(Request(model=str(folder), task="sr4")).sampler == PASEO()


def test_no_correction_in_pixels_that_hold_noise_or_cannot_be_made(model: Path) -> None:
    def share(task: Any, **wishes: Any) -> float:
        sampler = resolve(Request(model=str(model), task=task, **wishes)).sampler
        assert isinstance(sampler, PASEO)
        return sampler.finish

    kept = preset(str(model), "sr4").sampler
    assert isinstance(kept, PASEO)
    assert share("sr4") == share("sr:3") == kept.finish > 0
    assert share("sr4", sigma_y=0.05) == share("noise:0.05") == 0
    assert share("sr:2,jpeg:60") > 0
    assert share("sr:2,noise:0.02,jpeg:60") == 0
    assert share(Task("scans", "scans", lambda: KnownByExample("scans", 1))) == 0
    assert share("sr4", sigma_y=0.05, settings=["finish=0.5"]) == 0.5  # as asked
