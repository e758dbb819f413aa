"""The benchmarks of the paper's tables: complete, at its settings, with the expected table beside each."""

from __future__ import annotations

import json
import runpy
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from paseo.errors import BadInput
from paseo.lab.bench.aggregate import Bench, Summary
from paseo.lab.bench.cells import Cell
from paseo.lab.bench.config import BenchConfig, MethodSpec, load_config, parse_config
from paseo.lab.bench.tables import common_table, overview_table, quality_table
from paseo.lab.paper import TASKS, under
from paseo.settings.presets import PHOTO, preset
from paseo.train.splits import split

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
PAPER = {"ffhq-rv51": ("ffhq", "rv51"), "ffhq-sd35": ("ffhq", "sd35"), "coco-sd35": ("coco", "full")}


def config(name: str) -> BenchConfig:
    return load_config(BENCHMARKS / f"{name}.yaml")


def methods_of(found: BenchConfig, task: str) -> dict[str, MethodSpec]:
    return {m.label: m for m in found.methods if m.tasks is None or task in m.tasks}


@pytest.mark.parametrize("name", PAPER)
def test_every_method_of_the_table_is_there(name: str) -> None:
    found = config(name)
    assert (found.device, found.data.count, found.data.size, found.tasks) == ("auto", 1000, 512, TASKS)
    for task in TASKS:
        labels = {label for label in methods_of(found, task) if not label.endswith("-matched")}
        assert labels == set(under(*PAPER[name], task)), task
    if name == "coco-sd35":
        matched = {
            label.removesuffix("-matched") for label in methods_of(found, "sr4") if "-matched" in label
        }
        assert matched == set(under("coco", "matched", "sr4")) - {"paseo", "paseo-dagger"}


@pytest.mark.parametrize("name", PAPER)
def test_prompt_and_guidance_are_the_presets(name: str) -> None:
    found = config(name)
    assert found.preset_table is not None
    for task in TASKS:
        row, options = preset(found.preset_table, task), found.options_of(task)
        assert options["guidance"] == row.guidance
        assert found.captioned(task) == (row.prompt is None)
        assert options.get("prompt") == row.prompt


@pytest.mark.parametrize("name", PAPER)
def test_expected_table_is_the_published_one(name: str) -> None:
    script = runpy.run_path(str(BENCHMARKS / "expected.py"))
    assert (BENCHMARKS / f"{name}.md").read_text(encoding="utf-8") == script["markdown"](name)


def test_split_of_ffhq() -> None:
    parts = split([f"{i:05d}.png" for i in range(70_000)], "ffhq")
    assert {part: len(positions) for part, positions in parts.items()} == {
        "train": 68_000,
        "validation": 1_000,
        "test": 1_000,
    }
    assert np.array_equal(parts["test"], np.arange(1_000))
    with pytest.raises(BadInput, match="no train images"):
        split(["a.png", "b.png"], "ffhq")


def test_captions_of_coco(tmp_path: Path) -> None:
    document = {
        "images": [{"id": 7, "file_name": "000000000007.jpg"}],
        "annotations": [
            {"id": 2, "image_id": 7, "caption": "A second."},
            {"id": 1, "image_id": 7, "caption": "A dog \n runs."},
        ],
    }
    (tmp_path / "captions.json").write_text(json.dumps(document))
    script = runpy.run_path(str(BENCHMARKS / "captions.py"))
    assert script["first_captions"](tmp_path / "captions.json") == {"000000000007": "A dog runs."}


def values(**more: Any) -> dict[str, Any]:
    return {"methods": ["paseo"], "tasks": ["sr4", "sr8"], **more}


def test_text_per_task_reaches_the_model(tmp_path: Path) -> None:
    captions = tmp_path / "captions.json"
    captions.write_text(json.dumps({"one": "a cat"}))
    text = {
        "sr4": {"prompt": PHOTO, "guidance": 4, "negative_prompt": "blurry"},
        "sr8": {"captions": str(captions)},
    }
    found = parse_config(values(model_options={"dtype": "float16"}, text=text))
    assert found.options_of("sr4", "one") == {
        "dtype": "float16",
        "prompt": PHOTO,
        "guidance": 4,
        "negative_prompt": "blurry",
    }
    assert found.options_of("sr8", "one") == {"dtype": "float16", "prompt": "a cat"}
    assert (found.captioned("sr4"), found.captioned("sr8")) == (False, True)
    assert found.public()["text"]["sr8"]["captions"] == "captions.json"
    assert parse_config(yaml.safe_load(found.to_yaml())) == found
    with pytest.raises(BadInput, match="no caption for the image 'two'"):
        found.options_of("sr8", "two")
    with pytest.raises(BadInput, match="text names the task 'blur'"):
        parse_config(values(text={"blur": {"prompt": "x"}}))
    (tmp_path / "list.json").write_text("[1]")
    broken = parse_config(values(text={"sr4": {"captions": str(tmp_path / "list.json")}}))
    with pytest.raises(BadInput, match="does not hold captions"):
        broken.options_of("sr4", "three")


def test_a_run_beside_kept_rows_gives_the_page_s_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of nothing but the images, with everything else from benchmarks/results, is BENCHMARKS.md."""
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    with_earlier = runpy.run_path(str(BENCHMARKS / "earlier.py"))["with_earlier"]
    page = (BENCHMARKS.parent / "BENCHMARKS.md").read_text(encoding="utf-8")
    found = config("faces-128")
    blank = Cell("", {}, 0.01, 0, "new", {}, "", "", 0, "", {}, {}, 1, (), ())
    images = [f"{k:05d}" for k in range(100)]
    cells = tuple(replace(blank, task=t, image=i, image_sha256=i) for t in found.tasks for i in images)
    new = {("sr4", "new"): Summary("sr4", "new", 0, 0, 0, 0, 0, values={"lpips": dict.fromkeys(images, 1.0)})}
    bench = with_earlier(Bench(found, cells, (), new, {}, (), {}), BENCHMARKS / "results" / "main", found)
    shown = [overview_table(bench), common_table(bench), quality_table(bench, "inpaint")]
    for table in shown:
        assert table is not None
        assert table.markdown() in page, table.title
    kept = json.loads((BENCHMARKS / "results/main/quality.json").read_text(encoding="utf-8"))["tasks"]["sr8"]
    for method in ("paseo-dagger", "silo", "psld"):
        mean = bench.summaries["sr8", method].against["lpips"].mean
        assert mean == pytest.approx(kept[method]["against_reference"]["lpips"]["mean"], abs=2e-6)
    assert not bench.summaries["sr8", "paseo"].against
    reference = bench.summaries["sr4", "paseo"].metrics["lpips"].mean  # the new method's, though kept
    assert bench.summaries["sr4", "new"].against["lpips"].mean == pytest.approx(1 - reference)
    assert not with_earlier(replace(bench, rows=()), BENCHMARKS / "results" / "main", found).rows
    run = Bench(found, cells[:1], (), new, {}, (), {})  # of one task and image
    whole = with_earlier(run, BENCHMARKS / "results" / "main", found, cells)
    assert overview_table(whole).markdown() == shown[0].markdown()
    fewer = with_earlier(run, BENCHMARKS / "results" / "main", found)
    assert fewer.summaries["sr4", "silo"].images == 1
    # a run's own rows with the time that was kept, and only those with the table's number of calls
    again = replace(
        run, summaries={("sr8", "silo"): Summary("sr8", "silo", 1, 1, 0, 1, 79, cost={"seconds": 9.0})}
    )
    costs = json.loads((BENCHMARKS / "results/main/cost.json").read_text(encoding="utf-8"))["tasks"]["sr8"][
        "silo"
    ]
    folder = BENCHMARKS / "results" / "main"
    kept_cost = with_earlier(again, folder, found, cells, keep_cost=True).summaries["sr8", "silo"].cost
    assert kept_cost == {name: value for name, value in costs.items() if name != "nfe"}
    assert with_earlier(again, folder, found, cells).summaries["sr8", "silo"].cost == {"seconds": 9.0}
    same_budget = runpy.run_path(str(BENCHMARKS / "page.py"))["same_budget"]
    assert not same_budget(again, config("faces-128-equal")).summaries
    assert same_budget(again, found).summaries
