"""Plans: one line per cell, the same every time, and another key whenever a result could change."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from runs import config_file, planned

from paseo.errors import BadInput
from paseo.lab.bench.cells import CellStore, read_plan, units
from paseo.lab.bench.config import load_config
from paseo.lab.bench.plan import make_plan


def keys(plan: Any) -> list[str]:
    return [cell.key for cell in plan.cells]


def test_a_plan_has_one_cell_per_image_task_method_and_seed(tmp_path: Path, tiny: Path, photos: Path) -> None:
    plan = make_plan(load_config(config_file(tmp_path, tiny, photos, seeds=[0, 5])))
    assert len(plan.cells) == 2 * 2 * (
        2 + 3
    )  # images × seeds × (PASEO and LDPS for sr4; all three for inpainting)
    assert len(set(keys(plan))) == len(plan.cells)
    assert "mask" in plan.unsupported["sr4"]["ding"]
    assert list(plan.unsupported) == ["sr4"]


def test_a_plan_is_the_same_every_time(tmp_path: Path, tiny: Path, photos: Path) -> None:
    first, second = (planned(tmp_path / name, tiny, photos) for name in ("a", "b"))
    assert (first / "plan.jsonl").read_bytes() == (second / "plan.jsonl").read_bytes()
    assert read_plan(first) == list(
        make_plan(load_config(first / "config.yaml")).cells
    )  # what was written says it all


def test_names_and_places_do_not_matter(tmp_path: Path, tiny: Path, photos: Path) -> None:
    """The same model and images elsewhere, and the same settings under another label, have the same keys."""
    plan = make_plan(load_config(config_file(tmp_path, tiny, photos)))
    shutil.copytree(tiny, tmp_path / "moved")
    methods = [{"name": n, "label": f"my-{n}", "settings": {"steps": 4}} for n in ("paseo", "ding", "ldps")]
    moved = make_plan(load_config(config_file(tmp_path, tmp_path / "moved", photos, methods=methods)))
    assert keys(moved) == keys(plan)


@pytest.mark.parametrize(
    "change",
    [
        {"sigma_y": 0.02},
        {"noise_seed": 1},
        {"seeds": [1]},
        {"batch": 2},
        {"metrics": ["psnr"]},
        {"features": True},
        {"methods": [{"name": n, "settings": {"steps": 5}} for n in ("paseo", "ding", "ldps")]},
        {"data.size": 40},
    ],
    ids=str,
)
def test_whatever_changes_results_changes_every_key(
    tmp_path: Path, tiny: Path, photos: Path, change: dict[str, Any]
) -> None:
    before = make_plan(load_config(config_file(tmp_path, tiny, photos)))
    if "data.size" in change:
        change = {"data": {"path": str(photos), "count": 2, "size": change["data.size"]}}
    after = make_plan(load_config(config_file(tmp_path, tiny, photos, **change)))
    assert not set(keys(before)) & set(keys(after))


def test_other_weights_change_the_keys_they_concern(tmp_path: Path, tiny: Path, photos: Path) -> None:
    from tiny_model import make_model

    copy = Path(shutil.copytree(tiny, tmp_path / "copy"))
    other = make_model(tmp_path / "other", seed=1)
    shutil.rmtree(copy / "operators" / "sr4")
    shutil.copytree(
        tiny / "operators" / "inpaint", copy / "operators" / "sr4"
    )  # another network for sr4 alone
    before = make_plan(load_config(config_file(tmp_path, tiny, photos)))
    one = make_plan(load_config(config_file(tmp_path, copy, photos)))
    all_new = make_plan(load_config(config_file(tmp_path, other, photos)))
    same = [c.task for c in one.cells if c.key in keys(before)]
    assert set(same) == {"inpaint"}
    assert len(same) == 6
    assert not set(keys(all_new)) & set(keys(before))


def test_a_subset_keeps_its_keys(tmp_path: Path, tiny: Path, photos: Path) -> None:
    """More images, tasks or methods leave the cells that were there as they are."""
    small = make_plan(load_config(config_file(tmp_path, tiny, photos, tasks=["sr4"])))
    large = make_plan(
        load_config(config_file(tmp_path, tiny, photos, data={"path": str(photos), "count": 4}, seeds=[0, 1]))
    )
    assert set(keys(small)) < set(keys(large))


def test_units_are_the_images_computed_together(tmp_path: Path, tiny: Path, photos: Path) -> None:
    data = {"path": str(photos), "count": 5}
    plan = make_plan(load_config(config_file(tmp_path, tiny, photos, data=data, batch=2, tasks=["sr4"])))
    sizes = [len(unit) for unit in units(plan.cells)]
    assert sizes == [2, 2, 1] * 2
    assert all(
        cell.company == tuple(c.image_sha256 for c in unit) for unit in units(plan.cells) for cell in unit
    )


def test_settings_from_the_command_line(tmp_path: Path, tiny: Path, photos: Path) -> None:
    path = config_file(tmp_path, tiny, photos)
    config = load_config(path, ["data.count=1", "methods.0.settings.steps=6", "tasks=[inpaint]", "seeds=[3]"])
    assert (config.data.count, config.methods[0].settings["steps"], config.tasks, config.seeds) == (
        1,
        6,
        ("inpaint",),
        (3,),
    )


def test_a_budget_limits_the_denoiser_calls(tmp_path: Path, tiny: Path, photos: Path) -> None:
    methods = [
        {"name": "paseo", "budget": 9},
        {"name": "ldps", "budget": 9},
        {"name": "silo", "settings": {"steps": 3}, "budget": 9},
    ]
    plan = make_plan(load_config(config_file(tmp_path, tiny, photos, methods=methods, tasks=["sr4"])))
    steps = {cell.method: cell.sampler["settings"]["steps"] for cell in plan.cells}
    assert steps == {
        "paseo": 6,
        "ldps": 10,
        "silo": 3,
    }  # 2·6 − 3 = 9 and 10 − 1 = 9; what is below stays as it is


@pytest.mark.parametrize(
    ("changes", "assignments", "told"),
    [
        ({"methods": ["nonesuch"]}, [], "nonesuch"),
        ({"methods": ["paseo", "paseo"]}, [], "label"),
        ({"tasks": ["sr3"]}, [], "sr3"),
        ({"colour": "red"}, [], "colour"),
        ({"batch": 0}, [], "batch"),
        ({"metrics": ["beauty"]}, [], "beauty"),
        ({"methods": [{"name": "paseo", "settings": {"stride": 2}}]}, [], "stride"),
        ({"methods": [{"name": "paseo", "settings": {"relaxation": 2.0}}]}, [], "relaxation"),
        ({}, ["data.count"], "field=value, such as data.count=10"),
        ({}, ["methods.7.budget=5"], "7"),
        ({}, ["data.count=100"], "100 images"),
    ],
)
def test_what_cannot_be_planned_is_explained(
    tmp_path: Path, tiny: Path, photos: Path, changes: dict[str, Any], assignments: list[str], told: str
) -> None:
    with pytest.raises(BadInput, match=told):
        make_plan(load_config(config_file(tmp_path, tiny, photos, **changes), assignments))


def test_the_main_benchmark_has_every_method_at_the_papers_budgets() -> None:
    from paseo.samplers import METHODS

    config = load_config(Path(__file__).parents[2] / "benchmarks" / "faces-128.yaml")
    assert {m.name for m in config.methods} == set(METHODS)
    assert {m.label: m.budget for m in config.methods} == {
        m.label: 53 if m.name == "paseo" else 79 for m in config.methods
    }
    assert config.tasks == ("sr4", "sr8", "blur", "inpaint", "jpeg")


def test_planning_again_keeps_results(tmp_path: Path, tiny: Path, photos: Path) -> None:
    from paseo.lab.bench.run import run

    folder = planned(
        tmp_path / "run", tiny, photos, tasks=["sr4"], methods=[{"name": "paseo", "settings": {"steps": 3}}]
    )
    run(folder)
    planned(
        folder,
        tiny,
        photos,
        tasks=["sr4"],
        methods=[{"name": n, "settings": {"steps": 3}} for n in ("paseo", "silo")],
    )
    store = CellStore(folder)
    assert [store.done(cell) for cell in read_plan(folder)] == [True, True, False, False]
