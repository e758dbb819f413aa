"""Tuning: finds a known optimum's side, goes on where it stopped, writes presets that load."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from paseo.errors import BadInput
from paseo.lab.bench.pictures import load_pictures
from paseo.lab.bench.setup import Setup
from paseo.lab.tune.spaces import Axis, declared_space, read_axis, read_grid, space_of
from paseo.lab.tune.tune import Tuning, tune, write_preset
from paseo.samplers import METHODS
from paseo.settings.presets import preset

FIXED = {
    "steps": 3,
    "inner_steps": 1,
    "damping": 0.0,
    "anchor": "arc",
    "start": "proxy",
    "eta": "ddpm",
    "shift": None,
    "operator_noise": 0.02,
}


def tuning(tmp_path: Path, model: Path, photos: Path, **changes: Any) -> Tuning:
    values: dict[str, Any] = {"trials": 3, "fixed": FIXED, "study": tmp_path / "t.db", "batch": 1}
    return Tuning(
        Setup(str(model), "sr4"), "paseo", load_pictures(photos, count=2, size=32), **{**values, **changes}
    )


def test_every_method_has_a_space_within_its_fields() -> None:
    for name, method in METHODS.items():
        space = declared_space(name)
        assert space, name
        for field, axis in space.items():
            for value in axis.ends:
                replace(method.default, **{field: value})  # the class itself accepts both ends


@pytest.mark.parametrize("change", ["relaxation=0.1:2", "steps=3:100000", "anchor=arc,arch", "shift=none,0"])
def test_a_search_outside_of_what_is_allowed_is_refused_before_it_starts(change: str) -> None:
    with pytest.raises(BadInput, match=f"--space {change}"):
        space_of("paseo", masks=False, changes=[change])


def test_axes_are_read_from_text() -> None:
    assert read_axis("relaxation=0.1:1:log") == ("relaxation", Axis(0.1, 1, log=True))
    assert read_axis("inner-steps=1:4") == ("inner_steps", Axis(1, 4))
    assert read_axis("anchor=arc,fresh") == ("anchor", Axis(choices=("arc", "fresh")))
    assert read_axis("shift=none,0.5") == ("shift", Axis(choices=(None, 0.5)))
    for bad in ("relaxation", "relaxation=1:0", "relaxation=0:1:log", "relaxation=a:b", "relaxation=1:2:3"):
        with pytest.raises(BadInput):
            read_axis(bad)


def test_masked_axes_and_fixed_fields() -> None:
    assert "weight" in space_of("paseo", masks=True)
    assert "weight" not in space_of("paseo", masks=False)
    assert "anchor" not in space_of("paseo", masks=False, fixed={"anchor": "fresh"})
    with pytest.raises(BadInput, match="Nothing is left"):
        space_of("ldps", masks=False, fixed={"guidance": 1.0, "eta": 0.0})


def test_grids_are_products_within_the_bounds() -> None:
    space = space_of("psld", masks=False)
    points = read_grid(space, ["guidance=1,10", "eta=0.0,1.0"])
    assert points == [{"guidance": g, "eta": e} for g in (1, 10) for e in (0.0, 1.0)]
    for bad in ("guidance=1e9", "guidance=1:10", "nothing=1", "guidance"):
        with pytest.raises(BadInput):
            read_grid(space, [bad])


def test_the_grid_is_tried_after_what_is_used_now(tmp_path: Path, tiny: Path, photos: Path) -> None:
    grid = [{"relaxation": 0.2}, {"relaxation": 0.9}]
    told: list[str] = []
    tuned = tune(tuning(tmp_path, tiny, photos, fixed={**FIXED, "cg_budget": 1}, grid=grid), told.append)
    assert [line.split("relaxation=")[1] for line in told] == ["1", "0.2", "0.9"]
    assert [entry["settings"]["relaxation"] for entry in tuned.history] == [1.0, 0.2, 0.9]
    assert (
        tuned.sampler.relaxation
        == min(tuned.history, key=lambda entry: entry["lpips"])["settings"]["relaxation"]
    )
    assert tuned.as_json()["history"] == list(tuned.history)
    more = [{"relaxation": 0.9}, {"relaxation": 0.4}]  # a grid that is new to the study, as far as it is new
    again = tune(tuning(tmp_path, tiny, photos, fixed={**FIXED, "cg_budget": 1}, grid=more, trials=4))
    assert [entry["settings"]["relaxation"] for entry in again.history] == [1.0, 0.2, 0.9, 0.4]


def test_a_trial_far_from_the_best_is_given_up_after_the_first_images(
    tmp_path: Path, tiny: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With two images no rank test can tell; the distance can. A fixed share of the best error stands for the
    real one.
    """
    changes = {"fixed": {**FIXED, "cg_budget": 1}, "grid": [{"relaxation": 0.2}], "trials": 2}
    monkeypatch.setattr("paseo.lab.tune.tune.HOPELESS", 0.01)  # every later trial is hopeless
    tuned = tune(tuning(tmp_path, tiny, photos, **changes))
    assert [entry["lpips"] is None for entry in tuned.history] == [False, True]
    assert tuned.pruned == 1
    kept = tune(tuning(tmp_path / "all", tiny, photos, **changes, prune=False))
    assert kept.pruned == 0


def test_tuning_resumes_and_counts(tmp_path: Path, tiny: Path, photos: Path) -> None:
    told: list[str] = []
    first = tune(tuning(tmp_path, tiny, photos), told.append)
    assert first.trials == 3
    assert len(told) == 3
    again = tune(tuning(tmp_path, tiny, photos), told.append)
    assert len(told) == 3  # nothing was left to do
    assert again.entry() == first.entry()
    more = tune(tuning(tmp_path, tiny, photos, trials=5), told.append)
    assert more.trials == 5
    assert more.score["lpips"] <= first.score["lpips"]
    other = tune(tuning(tmp_path, tiny, photos, trials=1, seed=1))  # another question in the same file
    assert other.study != first.study
    assert other.trials == 1


def test_the_first_trial_is_what_is_used_now(tmp_path: Path, tiny: Path, photos: Path) -> None:
    t = tuning(tmp_path, tiny, photos, trials=1)
    tuned = tune(t)
    assert tuned.sampler == t.base()
    assert tuned.start_score == pytest.approx(tuned.score["lpips"], abs=1e-4)  # rounded to four digits


def test_scores_are_those_of_the_settings(tmp_path: Path, tiny: Path, photos: Path) -> None:
    t = tuning(tmp_path, tiny, photos, metric_name="psnr")
    tuned = tune(t)
    values = t.setup.scores(tuned.sampler, t.pictures, ["psnr"])["psnr"]
    assert tuned.score["psnr"] == pytest.approx(float(values.mean()), abs=2e-3)  # batches round differently
    assert tuned.start_score is not None
    assert tuned.score["psnr"] >= tuned.start_score - 2e-3  # higher is better here


def test_finalists_are_compared_on_their_own_images(tmp_path: Path, tiny: Path, photos: Path) -> None:
    t = tuning(
        tmp_path, tiny, photos, final_pictures=load_pictures(photos, first=2, count=1, size=32), finalists=2
    )
    told: list[str] = []
    tuned = tune(t, told.append)
    finals = [float(line.split()[2]) for line in told if line.startswith("final")]
    assert len(finals) == 2
    assert tuned.score["lpips"] == pytest.approx(min(finals), abs=1e-4)
    assert tuned.images == 1


def test_presets_load_and_leave_others_alone(tmp_path: Path, tiny: Path, photos: Path) -> None:
    file = tmp_path / "model" / "presets.json"
    one = tune(tuning(tmp_path, tiny, photos, trials=1))
    two = tune(
        tuning(
            tmp_path, tiny, photos, trials=1, fixed={**FIXED, "anchor": "fresh"}, preset_name="paseo-dagger"
        )
    )
    write_preset(file, one)
    write_preset(file, two)
    assert preset(str(file.parent), "sr4").sampler == one.sampler
    assert preset(str(file.parent), "sr4", "paseo-dagger").sampler.anchor == "fresh"
    assert preset(str(file.parent), "sr4").score["lpips"] == one.score["lpips"]


def test_a_budget_holds_for_every_trial(tmp_path: Path, tiny: Path, photos: Path) -> None:
    t = tuning(tmp_path, tiny, photos, budget=9, fixed={k: v for k, v in FIXED.items() if k != "steps"})
    assert t.base().nfe == 9
    assert t.sampler({"relaxation": 0.50049}).nfe == 9
    assert t.sampler({"relaxation": 0.50049}).relaxation == 0.5  # three digits


def test_what_cannot_be_tuned_is_explained(tmp_path: Path, tiny: Path, photos: Path) -> None:
    from dataclasses import replace

    with pytest.raises(BadInput, match="cannot run on sr4"):
        tune(replace(tuning(tmp_path, tiny, photos), method="ding", fixed={"steps": 3}))
    with pytest.raises(BadInput, match="hides none"):
        tune(tuning(tmp_path, tiny, photos, metric_name="lpips_hole"))


def test_command_line(tmp_path: Path, tiny: Path, photos: Path) -> None:
    from paseo.apps.cli.main import app

    arguments = [
        "tune",
        "--task",
        "inpaint",
        "--data",
        str(photos),
        "--part",
        "all",
        "--model",
        str(tiny),
        "--images",
        "1",
        "--trials",
        "1",
    ]
    arguments += [
        "--set",
        "steps=3",
        "--study",
        str(tmp_path / "t.db"),
        "-o",
        str(tmp_path / "p.json"),
        "--json",
        str(tmp_path / "r.json"),
    ]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.stdout
    assert json.loads((tmp_path / "p.json").read_text())["inpaint"]["paseo"]["settings"]["steps"] == 3
    assert json.loads((tmp_path / "r.json").read_text())["trials"] == 1
    assert "importance" in result.stdout


def test_command_line_searches_only_what_it_is_told(tmp_path: Path, tiny: Path, photos: Path) -> None:
    from paseo.apps.cli.main import app

    base = [
        "tune",
        "--task",
        "sr4",
        "--data",
        str(photos),
        "--part",
        "all",
        "--model",
        str(tiny),
        "--images",
        "1",
        "--method",
        "ldps",
    ]
    base += ["--set", "steps=3", "--study", str(tmp_path / "t.db"), "--json", str(tmp_path / "r.json")]
    result = CliRunner().invoke(
        app, [*base, "--trials", "3", "--only", "guidance", "--grid", "guidance=0.5,50"]
    )
    assert result.exit_code == 0, result.output
    history = json.loads((tmp_path / "r.json").read_text())["history"]
    assert [set(entry["settings"]) for entry in history] == [{"guidance"}] * 3
    assert [entry["settings"]["guidance"] for entry in history[1:]] == [0.5, 50]
    wrong = CliRunner().invoke(app, [*base, "--trials", "1", "--only", "gluing"])
    assert wrong.exit_code != 0
