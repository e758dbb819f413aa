"""What the page's buttons do, without a browser and without gradio."""

from __future__ import annotations

import asyncio
import shutil
import socket
import threading
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from paseo.apps.ui import handlers, look
from paseo.apps.ui.estimate import has_face
from paseo.apps.ui.fields import KINDS, fields_of, most
from paseo.apps.ui.form import (
    MAX_PIXELS,
    OWN,
    SHOW,
    Form,
    command_line,
    painted,
    prepare,
    readable,
    safe_name,
)
from paseo.apps.ui.handlers import PageState
from paseo.apps.ui.look import bar, note
from paseo.apps.ui.results import ShownResult
from paseo.apps.ui.server import usable_port
from paseo.apps.ui.wiring import samples_of, uploads_only
from paseo.apps.ui.work import RunProgress
from paseo.errors import BadInput, Cancelled
from paseo.faces import weights, weights_available
from paseo.images import read
from paseo.samplers import METHODS, PASEO
from paseo.settings.presets import fitting, preset

SAMPLE = Path(__file__).parents[3] / "paseo" / "models" / "faces-128" / "samples" / "2000001.jpg"
QUICK = ("steps=4",)


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> PageState:
    return PageState(tmp_path_factory.mktemp("state"))


@pytest.mark.parametrize("method", METHODS.values(), ids=lambda m: m.name)
def test_the_drawer_has_every_setting_once(method: object) -> None:
    shown = fields_of(method.cls)  # type: ignore[attr-defined]
    assert [f.name for f in shown] == [f.name for f in fields(method.cls)]  # type: ignore[attr-defined]
    assert all(sum(f.kind == kind for f in shown) <= most(kind) for kind in KINDS)


def test_a_box_says_symbol_words_and_range() -> None:
    boxes = {f.name: f for f in fields_of(PASEO)}
    assert boxes["relaxation"].label == "relaxation  ρ"
    assert boxes["relaxation"].note == "fraction of each correction taken: a number in (0, 1]"
    assert [boxes[name].kind for name in ("steps", "anchor", "perturb_prior")] == list(KINDS)
    assert boxes["anchor"].choices == ("arc", "fresh", "denoiser", "linear", "noisy")


def test_only_what_was_changed_is_set(state: PageState) -> None:
    filled = state.drawer("faces-128", "sr4", "paseo")
    names = [f.name for kind in KINDS for f, _ in filled[kind]]
    values = [v for kind in KINDS for _, v in filled[kind]]
    assert state.assignments("faces-128", "sr4", "paseo", names, values) == ()
    values[names.index("steps")] = "7"
    assert state.assignments("faces-128", "sr4", "paseo", names, values) == ("steps=7",)
    assert (
        state.assignments("faces-128", "sr4", "silo", ["inner_steps"], ["9"]) == ()
    )  # a box of another method


def test_settings_of_others_can_be_chosen(state: PageState) -> None:
    offered = [name for _, name in state.preset_choices("faces-128")]
    assert offered[0] == ""
    assert {"ffhq/sd35", "coco/sd35"} <= set(offered)
    assert "faces-128" not in offered  # "" stands for it
    own, theirs = (handlers.settings_of("faces-128", "sr4", "paseo", name) for name in ("", "ffhq/sd35"))
    assert own != theirs
    assert theirs["steps"] == preset("ffhq/sd35", "sr4").sampler.steps
    filled = state.drawer("faces-128", "sr4", "paseo", "ffhq/sd35")
    names = [f.name for kind in KINDS for f, _ in filled[kind]]
    values = [v for kind in KINDS for _, v in filled[kind]]
    assert state.assignments("faces-128", "sr4", "paseo", names, values, "ffhq/sd35") == ()
    assert "paseo-dagger" in [name for _, name in state.method_choices("faces-128", "sr4", "ffhq/sd35")]


def test_a_diffusers_model_is_offered_the_rows_of_its_family() -> None:
    assert fitting("sd3") == ["ffhq/sd35", "coco/sd35"]
    assert fitting("sd") == fitting("sdxl") == ["ffhq/rv51"]


def test_methods_that_cannot_restore_a_task_are_not_offered(state: PageState) -> None:
    jpeg, hole = (
        {name for _, name in state.method_choices("faces-128", task)} for task in ("jpeg", "inpaint")
    )
    assert "paseo" in jpeg & hole
    assert "ding" in hole - jpeg
    assert "psld" in hole - jpeg


def test_a_run_gives_progress_and_then_the_result(state: PageState) -> None:
    *steps, result = state.restore(Form(str(SAMPLE), draws=2, settings=QUICK), "one")
    assert all(isinstance(p, RunProgress) for p in steps)
    assert isinstance(result, ShownResult)
    assert [row.name for row in result.rows] == ["seed 0", "seed 1", "mean"]
    assert result.nfe == 5
    assert not [f for f in result.files if f.parent.name == "input"]  # the upload itself was taken
    assert set(result.rows[0].scores) >= {"PSNR", "SSIM", "misfit"}
    assert all(state.root in f.parents and f.is_file() for f in result.files)
    assert result.sidecar.suffix == ".json"


def test_cancel_reaches_a_run_that_waits_and_one_that_works(state: PageState) -> None:
    state.begin("two")
    state.cancel("two")
    assert isinstance(list(state.restore(Form(str(SAMPLE)), "two"))[-1], Cancelled)
    state.begin("two")
    seen = []
    for news in state.restore(Form(str(SAMPLE), settings=("steps=400",)), "two"):
        seen.append(news)
        state.cancel("two")
    assert isinstance(seen[-1], Cancelled)
    assert not any(isinstance(n, RunProgress) and n.step > 30 for n in seen)
    assert not [t for t in threading.enumerate() if t.name == "paseo-ui" and t.is_alive()]


@pytest.mark.parametrize(
    ("form", "message"),
    [
        (Form(None), "no picture yet"),
        (Form(str(SAMPLE), draws=99), "99 draws"),
        (Form(str(SAMPLE), seed=-1), "seed -1"),
        (Form(str(SAMPLE), sigma=3.0), "noise 3"),
        (Form(str(SAMPLE), settings=("steps=2",)), "a whole number in [3, 10000]"),
        (Form(str(SAMPLE), model="elsewhere"), "does not offer the model"),
    ],
)
def test_what_cannot_be_used_is_said(state: PageState, form: Form, message: str) -> None:
    assert message in str(list(state.restore(form, "three"))[-1])


def test_large_results_are_refused_before_they_are_computed(tmp_path: Path) -> None:
    large = tmp_path / "large.png"
    Image.new("RGB", (400, 300)).save(large)
    with pytest.raises(BadInput, match="1600×1200"):
        prepare(Form(str(large), OWN, task="sr4"), tmp_path / "runs", 128)
    fitted = prepare(Form(str(large), SHOW, task="sr4"), tmp_path / "runs", 128)
    assert fitted.picture.size == (128, 128)


def test_uploads_are_limited_and_named_without_their_folder(tmp_path: Path) -> None:
    wide = tmp_path / "wide.png"
    Image.new("1", (MAX_PIXELS // 1000 + 1, 1000)).save(wide)
    with pytest.raises(BadInput, match="more than the limit") as refused:
        readable(wide)
    assert str(tmp_path) not in str(refused.value)


@pytest.mark.parametrize(
    ("mode", "suffix", "options"),
    [
        ("P", "png", {}),
        ("P", "png", {"transparency": 3}),
        ("P", "gif", {}),
        ("I;16", "png", {}),
        ("CMYK", "jpg", {}),
        ("RGBA", "png", {}),
        ("LA", "png", {}),
        ("L", "webp", {}),
        ("1", "png", {}),
    ],
    ids=lambda value: str(value),
)
def test_odd_modes_are_restored(
    state: PageState, tmp_path: Path, mode: str, suffix: str, options: dict[str, int]
) -> None:
    source = tmp_path / f"odd.{suffix}"
    face = Image.open(SAMPLE).resize((48, 40))
    if mode == "I;16":
        Image.fromarray(np.asarray(face.convert("L")).astype(np.uint16) * 257).save(source)
    else:
        face.convert(mode).save(source, **options)
    *_, result = state.restore(Form(str(source), settings=("steps=3",)), "odd")
    assert isinstance(result, ShownResult), result
    assert Image.open(result.rows[0].file).size == (128, 128)
    given = next(
        f for f in result.files if f.parent.name == "input"
    )  # it was fitted: the command needs this file
    assert given.name in result.command.split()
    assert Image.open(given).size == (128, 128)


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9])
def test_truncated_uploads_are_refused(state: PageState, tmp_path: Path, keep: float) -> None:
    whole, cut = tmp_path / "whole.png", tmp_path / "cut.png"
    Image.open(SAMPLE).save(whole)
    cut.write_bytes(whole.read_bytes()[: round(whole.stat().st_size * keep)])
    before = set(state.root.iterdir())
    *_, refused = state.restore(Form(str(cut)), "cut")
    assert isinstance(refused, BadInput)
    assert "cut.png is damaged or cut short" in str(refused)
    assert set(state.root.iterdir()) == before  # nothing is left behind


def test_results_go_with_their_visitor_and_old_ones_before(
    state: PageState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handlers, "KEPT_RUNS", 2)
    folders = []
    for _ in range(3):
        *_, result = state.restore(Form(str(SAMPLE), settings=("steps=3",)), "five")
        assert isinstance(result, ShownResult)
        folders.append(result.sidecar.parent)
    assert [f.exists() for f in folders] == [False, True, True]
    state.leave("five")
    assert not any(f.exists() for f in folders)


def test_a_model_without_operators_is_said_at_once(tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    shutil.copytree(SAMPLE.parents[1], bare, ignore=shutil.ignore_patterns("operators", "samples"))
    with pytest.raises(BadInput, match="has no operators"):
        PageState(tmp_path, (str(bare),)).model(str(bare))


def test_pictures_are_not_fetched_for_a_visitor() -> None:
    class Component:
        async def async_move_resource_to_block_cache(self, place: str) -> str:
            return place

    component = Component()
    uploads_only(component)
    assert asyncio.run(component.async_move_resource_to_block_cache("/some/upload.png")) == "/some/upload.png"
    with pytest.raises(BadInput, match="not fetched"):
        asyncio.run(component.async_move_resource_to_block_cache("https://example.com/a.png"))


def test_a_taken_port_and_a_strange_address_are_said() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        with pytest.raises(BadInput, match=f"Port {taken} is taken"):
            usable_port("127.0.0.1", taken)
    assert usable_port("127.0.0.1", taken) == taken
    assert usable_port("127.0.0.1", 0) > 0
    with pytest.raises(BadInput, match=r"Cannot listen on 192\.0\.2\.1"):
        usable_port("192.0.2.1", 0)


@pytest.mark.parametrize("name", ["../../etc/passwd", "a b;$(x).png", "…", "x" * 300 + ".png", ".hidden.jpg"])
def test_names_of_uploads_are_harmless(name: str) -> None:
    safe = safe_name(name)
    assert Path(safe).name == safe
    assert 0 < len(safe) < 80
    assert not set(safe) & set(" /\\;$()")


def test_a_painted_layer_becomes_a_hole() -> None:
    layer = Image.new("RGBA", (64, 64), (0, 0, 0, 0))
    assert painted({"layers": [layer]}) is None
    assert painted(None) is None
    layer.paste((255, 255, 255, 255), (8, 8, 24, 40))
    hole = painted({"layers": [layer]})
    assert hole is not None
    assert hole.getbbox() == (8, 8, 24, 40)


def test_the_command_line_names_what_differs(tmp_path: Path) -> None:
    form = Form(str(SAMPLE), draws=2, seed=5, sigma=0.02, settings=("steps=4",))
    ready = prepare(form, tmp_path, 128)
    assert (
        ready.command
        == "paseo restore 2000001.jpg -o restored --task sr4 --samples 2 --seed 5 --sigma 0.02 --degrade "
        "--set steps=4"
    )
    as_kept = replace(form, settings=("steps=28",))
    assert "--set" not in command_line(as_kept, prepare(as_kept, tmp_path, 128).plan, "a.png")


def test_comparing_needs_two_methods_and_keeps_to_its_budget(state: PageState) -> None:
    assert "two or more" in str(list(state.compare(Form(str(SAMPLE)), ["paseo"], "four"))[-1][1])
    found = {
        m: n
        for m, n in state.compare(Form(str(SAMPLE)), ["paseo", "flow-dps"], "four", budget=5)
        if isinstance(n, ShownResult)
    }
    assert set(found) == {"paseo", "flow-dps"}
    assert all(r.nfe <= 5 for r in found.values())
    one, two = found.values()
    assert one.before.read_bytes() == two.before.read_bytes()  # the same measurement


def test_messages_cannot_carry_markup() -> None:
    assert "<b>" not in note("<b>bold</b>")
    assert 'aria-valuenow="50"' in bar(RunProgress(5, 10, 10, 20, 3.0, 3.0))


def test_a_run_says_beforehand_how_long_it_takes_and_learns_from_it(state: PageState) -> None:
    form = Form(str(SAMPLE), model="faces-128", draws=1)
    once, twice = state.seconds(form), state.seconds(replace(form, draws=2))
    assert once is not None
    assert once > 0
    assert twice == pytest.approx(2 * once)
    small = state.seconds(replace(form, way="own", task="jpeg", fit=False))
    large = state.seconds(replace(form, way="own", task="sr4", fit=False))
    assert large == pytest.approx(16 * (small or 0), rel=0.01)  # four times as high and as wide
    state.pace.learn("faces-128", 53.0, 53, 1, (128, 128))
    assert state.seconds(form) == pytest.approx(53.0)
    assert state.seconds(replace(form, picture="nowhere.png")) is None


def test_faces_are_sought_where_they_can_be_helped() -> None:
    if not weights_available():
        pytest.skip(weights.INSTALL)
    face = read(SAMPLE).rgb
    assert not has_face(face, "faces-128")  # the model restores it anyway
    assert has_face(face, "photos")
    wide = torch.full((3, 160, 260), 0.5)
    wide[:, 20:148, 20:148] = face
    assert has_face(wide, "faces-128")
    assert not has_face(torch.rand(3, 64, 64), "photos")


def test_the_form_asks_for_faces_and_the_command_line_says_so(state: PageState) -> None:
    prepared = prepare(Form(str(SAMPLE), faces=True), state.root, 128)
    assert prepared.plan.recipe.faces == "faces-128"
    assert "--faces" in prepared.command
    assert "--faces" not in prepare(Form(str(SAMPLE)), state.root, 128).command


def test_restore_hands_nothing_of_the_browser_to_gradio() -> None:
    assert look.TO_STATUS.startswith("() => {")  # what a script returns is taken for the inputs of the run
    assert look.TO_STATUS.endswith(";}")


def test_the_samples_of_the_default_model_come_first() -> None:
    shown = [Path(p).parent.parent.name for p in samples_of(("photos", "faces-128"))]
    assert shown[0] == "photos"
    assert shown == sorted(shown, key=lambda name: name != "photos")


def test_a_warning_stands_beside_the_misfit() -> None:
    html = look.scores([("seed 0", {"misfit": 0.01})], 0.01, warnings=["it looks like a drawing"])
    assert html.index("explains the measurement") < html.index("it looks like a drawing")
