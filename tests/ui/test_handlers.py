"""What the page's buttons do, without a browser and without gradio."""

from __future__ import annotations

import threading
from dataclasses import fields
from pathlib import Path

import pytest
from PIL import Image

from paseo.errors import BadInput, Cancelled
from paseo.samplers import METHODS, PASEO
from paseo.ui.fields import KINDS, fields_of, most
from paseo.ui.form import MAX_PIXELS, OWN, SHOW, Form, command_line, painted, prepare, readable, safe_name
from paseo.ui.handlers import Desk
from paseo.ui.look import bar, note
from paseo.ui.results import Result
from paseo.ui.work import Progress

SAMPLE = Path(__file__).parents[2] / "paseo" / "models" / "faces-128" / "samples" / "2000001.jpg"
QUICK = ("steps=4",)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    return Desk(tmp_path_factory.mktemp("desk"))


@pytest.mark.parametrize("method", METHODS.values(), ids=lambda m: m.name)
def test_the_drawer_has_every_setting_once(method: object) -> None:
    shown = fields_of(method.cls)  # type: ignore[attr-defined]
    assert [f.name for f in shown] == [f.name for f in fields(method.cls)]  # type: ignore[attr-defined]
    assert all(sum(f.kind == kind for f in shown) <= most(kind) for kind in KINDS)


def test_symbols_come_from_the_comments_of_the_sampler() -> None:
    symbols = {f.name: f.symbol for f in fields_of(PASEO)}
    assert symbols["inner_steps"] == "P"
    assert (symbols["cg_budget"], symbols["relaxation"], symbols["damping"], symbols["operator_noise"]) == ("C", "ρ", "λ", "r")
    assert (symbols["anchor"], symbols["weight"], symbols["eta"]) == ("z_a", "W", "η_k")
    assert symbols["steps"] == ""  # "time points …" is no symbol


def test_only_what_was_changed_is_set(desk: Desk) -> None:
    filled = desk.drawer("faces-128", "sr4", "paseo")
    names = [f.name for kind in KINDS for f, _ in filled[kind]]
    values = [v for kind in KINDS for _, v in filled[kind]]
    assert desk.assignments("faces-128", "sr4", "paseo", names, values) == ()
    values[names.index("steps")] = "7"
    assert desk.assignments("faces-128", "sr4", "paseo", names, values) == ("steps=7",)
    assert desk.assignments("faces-128", "sr4", "silo", ["inner_steps"], ["9"]) == ()  # a box of another method


def test_methods_that_cannot_restore_a_task_are_not_offered(desk: Desk) -> None:
    jpeg, hole = ({name for _, name in desk.method_choices("faces-128", task)} for task in ("jpeg", "inpaint"))
    assert "paseo" in jpeg & hole
    assert "ding" in hole - jpeg
    assert "psld" in hole - jpeg


def test_a_run_gives_progress_and_then_the_result(desk: Desk) -> None:
    *steps, result = desk.restore(Form(str(SAMPLE), draws=2, settings=QUICK), "one")
    assert all(isinstance(p, Progress) for p in steps)
    assert isinstance(result, Result)
    assert [row.name for row in result.rows] == ["seed 0", "seed 1", "mean"]
    assert result.nfe == 5
    assert set(result.rows[0].scores) >= {"PSNR", "SSIM", "consistency"}
    assert all(desk.root in f.parents and f.is_file() for f in result.files)
    assert result.sidecar.suffix == ".json"


def test_cancel_reaches_a_run_that_waits_and_one_that_works(desk: Desk) -> None:
    desk.begin("two")
    desk.cancel("two")
    assert isinstance(list(desk.restore(Form(str(SAMPLE)), "two"))[-1], Cancelled)
    desk.begin("two")
    seen = []
    for news in desk.restore(Form(str(SAMPLE), settings=("steps=400",)), "two"):
        seen.append(news)
        desk.cancel("two")
    assert isinstance(seen[-1], Cancelled)
    assert not any(isinstance(n, Progress) and n.step > 30 for n in seen)
    assert not [t for t in threading.enumerate() if t.name == "paseo-ui" and t.is_alive()]


@pytest.mark.parametrize(
    ("form", "message"),
    [
        (Form(None), "no picture yet"),
        (Form(str(SAMPLE), draws=99), "99 draws"),
        (Form(str(SAMPLE), seed=-1), "seed -1"),
        (Form(str(SAMPLE), sigma=3.0), "noise 3"),
        (Form(str(SAMPLE), settings=("steps=2",)), "at least 3 time points"),
        (Form(str(SAMPLE), model="elsewhere"), "does not offer the model"),
    ],
)
def test_what_cannot_be_used_is_said(desk: Desk, form: Form, message: str) -> None:
    assert message in str(list(desk.restore(form, "three"))[-1])


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
    assert ready.command == "paseo restore 2000001.jpg -o restored --task sr4 --samples 2 --seed 5 --sigma 0.02 --degrade --set steps=4"
    base = ready.plan.sampler
    assert "--set" not in command_line(ready.plan, "a.png", "paseo", base, ("steps=4",))


def test_comparing_needs_two_methods_and_keeps_to_its_budget(desk: Desk) -> None:
    assert "two or more" in str(list(desk.compare(Form(str(SAMPLE)), ["paseo"], "four"))[-1][1])
    found = {m: n for m, n in desk.compare(Form(str(SAMPLE)), ["paseo", "flow-dps"], "four", budget=5) if isinstance(n, Result)}
    assert set(found) == {"paseo", "flow-dps"}
    assert all(r.nfe <= 5 for r in found.values())
    one, two = found.values()
    assert one.before.tobytes() == two.before.tobytes()  # the same measurement


def test_messages_cannot_carry_markup() -> None:
    assert "<b>" not in note("<b>bold</b>")
    assert 'aria-valuenow="50"' in bar(Progress(5, 10, 10, 20, 3.0, 3.0))
