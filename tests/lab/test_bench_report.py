"""Reports: the right marks, intervals that cover, the paper's rule for pictures, and files that agree with
the rows.
"""

from __future__ import annotations

import csv
import json
import math
import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from runs import planned, store
from typer.testing import CliRunner

from paseo.errors import BadInput
from paseo.lab.bench import aggregate
from paseo.lab.bench.aggregate import Bootstrapped, Summary, bootstrap, frechet
from paseo.lab.bench.cells import read_plan
from paseo.lab.bench.chart import Dot, front, label_rows, scatter, ticks
from paseo.lab.bench.grids import box, chosen_images
from paseo.lab.bench.report import write_report
from paseo.lab.bench.run import run
from paseo.lab.bench.scores import METRICS
from paseo.lab.bench.tables import Column, common_table, marked, method_title

ALL = [
    "psnr",
    "ssim",
    "lpips",
    "lpips_vgg",
    "consistency",
    "psnr_hole",
    "psnr_visible",
    "lpips_hole",
    "lpips_vgg_hole",
]


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory, tiny: Path, photos: Path) -> Path:
    """The smoke benchmark: three methods, every metric and VGG16's features, on two images (three for
    inpainting).
    """
    folder = planned(
        tmp_path_factory.mktemp("smoke") / "run",
        tiny,
        photos,
        metrics=ALL,
        features=True,
        tasks=["sr4", "inpaint"],
        data={"path": str(photos), "count": 3},
        methods=[
            {"name": "paseo", "settings": {"steps": 4}},
            {"name": "ding", "settings": {"steps": 4}, "tasks": ["inpaint"]},
            {"name": "silo", "settings": {"steps": 4}, "count": 2},
        ],
    )
    assert run(folder).failed == 0
    write_report(folder)
    return folder


def test_every_file_is_there(smoke: Path) -> None:
    names = {str(p.relative_to(smoke / "report")) for p in (smoke / "report").rglob("*") if p.is_file()}
    assert names == {
        "rows.csv",
        "quality.json",
        "cost.json",
        "report.md",
        "report.html",
        "grids/sr4.png",
        "grids/inpaint.png",
    }


def test_json_agrees_with_the_rows(smoke: Path) -> None:
    report = json.loads((smoke / "report/quality.json").read_text())
    rows = list(csv.DictReader((smoke / "report/rows.csv").open()))
    assert len(rows) == report["done"] == report["cells"] == 13
    for task, methods in report["tasks"].items():
        for method, entry in methods.items():
            values = [float(r["lpips"]) for r in rows if (r["task"], r["method"]) == (task, method)]
            assert entry["metrics"]["lpips"]["mean"] == pytest.approx(sum(values) / len(values), abs=1e-6)
            assert (
                entry["metrics"]["lpips"]["low"]
                <= entry["metrics"]["lpips"]["mean"]
                <= entry["metrics"]["lpips"]["high"]
            )
    assert {"psnr_hole", "lpips_vgg_hole"} <= report["tasks"]["inpaint"]["ding"]["metrics"].keys()
    assert "psnr_hole" not in report["tasks"]["sr4"]["paseo"]["metrics"]
    assert report["samplers"]["sr4"]["paseo"]["settings"]["steps"] == 4
    assert str(smoke) not in json.dumps(report)  # no folder of this machine


def test_paired_differences_use_common_images(smoke: Path) -> None:
    report = json.loads((smoke / "report/quality.json").read_text())
    rows = list(csv.DictReader((smoke / "report/rows.csv").open()))
    score = {(r["method"], r["image"]): float(r["lpips"]) for r in rows if r["task"] == "sr4"}
    images = [image for method, image in score if method == "silo"]
    entry = report["tasks"]["sr4"]["silo"]["against_reference"]
    assert entry["images"] == len(images) == 2
    assert entry["lpips"]["mean"] == pytest.approx(
        np.mean([score["silo", i] - score["paseo", i] for i in images]), abs=1e-6
    )


def test_distances_need_three_images(smoke: Path) -> None:
    report = json.loads((smoke / "report/quality.json").read_text())
    assert set(report["tasks"]["inpaint"]["paseo"]["distances"]) == {"kernel_vgg16", "kernel_vgg16_hole"}
    assert set(report["tasks"]["sr4"]["paseo"]["distances"]) == {"kernel_vgg16"}
    assert report["tasks"]["sr4"]["silo"]["distances"] == {}


def test_stored_features_are_those_of_the_stored_image(smoke: Path) -> None:
    import torch

    from paseo.images import read
    from paseo.lab.bench.features import read_features
    from paseo.metrics import vgg_features

    cell = read_plan(smoke)[0]
    stored = read_features(store(smoke).path(cell, ".safetensors"))["vgg16"]
    again = vgg_features(read(store(smoke).path(cell, ".png")).rgb[None])[0]
    torch.testing.assert_close(stored, again, rtol=1e-5, atol=1e-5)


def test_the_page_needs_no_other_file(smoke: Path) -> None:
    page = (smoke / "report/report.html").read_text()
    assert page.count("data:image/png;base64,") == 2
    assert page.count("<svg ") == 2
    assert not re.search(r'(src|href)="(?!data:)', page)
    assert "PASEO" in page
    assert "<b>" in page
    assert "<u>" in page


def test_markdown_has_the_tables(smoke: Path) -> None:
    text = (smoke / "report/report.md").read_text()
    for part in (
        "### LPIPS (lower is better)",
        "### Centre inpainting",
        "KD-VGG",
        "LPIPS hole",
        "against PASEO",
        "CPU s",
        "grids/sr4.png",
    ):
        assert part in text


def test_without_cost_nothing_depends_on_the_clock(smoke: Path, tmp_path: Path) -> None:
    write_report(smoke, tmp_path, cost=False)
    assert not (tmp_path / "cost.json").exists()
    assert "CPU s" not in (tmp_path / "report.md").read_text()
    assert "<svg " not in (tmp_path / "report.html").read_text()


def test_failures_and_gaps_are_shown(tmp_path: Path, tiny: Path, photos: Path) -> None:
    methods = [
        {"name": "paseo", "settings": {"steps": 3}},
        {"name": "ldps", "settings": {"steps": 12, "guidance": 1e6, "loss": "square"}},
        "ding",
    ]
    folder = planned(
        tmp_path / "run", tiny, photos, methods=methods, tasks=["sr4"], data={"path": str(photos), "count": 1}
    )
    run(folder)
    text = write_report(folder)["markdown"].read_text()
    assert "DING: n/a" in text
    assert "NotFinite" in text
    assert json.loads((folder / "report/quality.json").read_text())["failures"][0]["error"] == "NotFinite"


def test_nothing_to_report_is_explained(tmp_path: Path, tiny: Path, photos: Path) -> None:
    with pytest.raises(BadInput, match="no results yet"):
        write_report(planned(tmp_path / "run", tiny, photos))


def test_best_bold_second_underlined_ties_share() -> None:
    """At the printed precision, as in the paper; the second is the next distinct value."""
    values = {"a": 0.1001, "b": 0.0999, "c": 0.2, "d": 0.3}
    summaries = [
        Summary("sr4", name, 1, 1, 0, 1, 1, metrics={"lpips": Bootstrapped(v, v, v)})
        for name, v in values.items()
    ]
    lower = marked("t", summaries, [Column("x", lambda s: s.metrics["lpips"].mean, 2)])
    assert [row[1].mark for row in lower.rows] == ["best", "best", "second", ""]
    higher = marked("t", summaries, [Column("x", lambda s: s.metrics["lpips"].mean, 2, higher=True)])
    assert [row[1].mark for row in higher.rows] == ["", "", "second", "best"]
    assert "**0.10**" in lower.markdown()
    assert "<u>0.20</u>" in lower.html()


def test_a_mean_over_fewer_images_is_not_marked() -> None:
    """The best value comes from two of three images: it cannot be set against the others, its time can."""
    summaries = [
        Summary("sr4", name, n, n, 0, n, 1, metrics={"lpips": Bootstrapped(v, v, v)})
        for name, v, n in (("a", 0.1, 2), ("b", 0.2, 3))
    ]
    for any_images, marks in ((False, ["", "best"]), (True, ["best", "second"])):
        table = marked(
            "t", summaries, [Column("x", lambda s: s.metrics["lpips"].mean, 2, any_images=any_images)]
        )
        assert [row[1].mark for row in table.rows] == marks


def test_bootstrap_intervals_cover() -> None:
    """95 % intervals of a Gaussian mean: coverage within four standard errors of what 30 values give (about
    93.5 %).
    """
    rng = np.random.default_rng(1)
    trials = 300
    hits = sum(
        i.low <= 0 <= i.high for i in (bootstrap(rng.standard_normal(30).tolist()) for _ in range(trials))
    )
    assert abs(hits / trials - 0.935) < 4 * math.sqrt(0.935 * 0.065 / trials)


def test_frechet_distance_of_gaussians() -> None:
    """Equal sets are at 0; a shift by v is at ‖v‖²."""
    import torch

    a = torch.randn(400, 6, generator=torch.Generator().manual_seed(0))
    assert frechet(a, a) == pytest.approx(0, abs=1e-8)
    assert frechet(a, a + 0.5) == pytest.approx(6 * 0.25, rel=1e-6)


def test_pictures_follow_the_rule(smoke: Path) -> None:
    """Lowest LPIPS of the reference method first."""
    bench = aggregate.load(smoke)
    values = bench.summaries["sr4", "paseo"].values["lpips"]
    common = set.intersection(
        *(set(s.values["lpips"]) for s in bench.of("sr4"))
    )  # two of three: SILO has no more
    assert len(common) == 2
    assert chosen_images(bench, "sr4") == sorted(common, key=lambda sha: values[sha])[:5]


def test_the_box_is_placed_by_the_truth_alone() -> None:
    truth = np.zeros((64, 64, 3), np.uint8)
    truth[40:50, 30:60] = np.random.default_rng(0).integers(0, 255, (10, 30, 3))
    assert box(truth, "eyes") == (16, 22, 48, 38)
    assert box(truth, "hole") == (16, 24, 48, 40)
    left, top, right, bottom = box(truth, "detail")
    assert (right - left, bottom - top) == (32, 16)
    assert left <= 30
    assert right >= 60
    assert top <= 40
    assert bottom >= 50


def test_chart_shows_every_method_and_the_front() -> None:
    dots = [Dot("fast", 1.0, 0.2), Dot("slow", 10.0, 0.1), Dot("beaten", 12.0, 0.3)]
    assert [d.label for d in front(dots, higher=False)] == ["fast", "slow"]
    assert [d.label for d in front(dots, higher=True)] == ["fast", "beaten"]
    svg = scatter("A < B", dots, "LPIPS", higher=False)
    assert all(d.label in svg for d in dots)
    assert "A &lt; B" in svg
    assert ticks(0.1, 0.3) == [0.1, 0.15, 0.2, 0.25, 0.3]
    assert "<circle" in scatter("one", [Dot("only", 1.0, 0.2)], "LPIPS", higher=False)


def test_command_line(tmp_path: Path, tiny: Path, photos: Path) -> None:
    """plan, run and report from end to end; a failed cell is exit code 1."""
    from runs import config_file

    from paseo.apps.cli.main import app

    runner, out = CliRunner(), str(tmp_path / "run")
    config = str(config_file(tmp_path, tiny, photos, tasks=["sr4"]))
    planned_ = runner.invoke(
        app, ["bench", "plan", config, "-o", out, "--set", "data.count=1", "--json", "-"]
    )
    assert json.loads(planned_.stdout)["cells"] == 2
    assert runner.invoke(app, ["bench", "run", out, "--shard", "0/1"]).exit_code == 0
    shown = runner.invoke(app, ["bench", "report", out])
    assert "PASEO" in shown.stdout
    assert runner.invoke(app, ["bench", "run", out, "--engine", "magic"]).exit_code == 2
    bad = runner.invoke(
        app,
        [
            "bench",
            "plan",
            config,
            "-o",
            out,
            "--set",
            "methods=[{name: ldps, settings: {guidance: 1.0e+6, loss: square, steps: 12}}]",
        ],
    )
    assert bad.exit_code == 0
    assert runner.invoke(app, ["bench", "run", out]).exit_code == 1


def test_methods_with_fewer_images_are_compared_on_common_ones(smoke: Path) -> None:
    """SILO has two images, PASEO three: in the second table both means are over SILO's two."""
    bench = aggregate.load(smoke)
    table = common_table(bench)
    assert table is not None
    assert "2 images" in table.title
    common = {row["image"] for row in bench.rows if row["method"] == "silo" and row["task"] == "sr4"}
    values = [
        row["metrics"]["lpips"]
        for row in bench.rows
        if (row["method"], row["task"]) == ("paseo", "sr4") and row["image"] in common
    ]
    assert (
        next(row for row in table.rows if row[0].text == "PASEO")[1].text
        == f"{np.mean(values):.{METRICS['lpips'].digits}f}"
    )
    assert table.title in (smoke / "report/report.md").read_text()


def test_equal_images_need_no_second_table(tmp_path: Path, tiny: Path, photos: Path) -> None:
    folder = planned(tmp_path / "equal", tiny, photos, tasks=["sr4"])
    assert run(folder).failed == 0
    assert common_table(aggregate.load(folder)) is None


def test_labels_of_a_chart_do_not_cover_each_other() -> None:
    where = [(100.0, 150.0), (104.0, 151.0), (108.0, 149.0), (110.0, 160.0), (300.0, 150.0)]
    labels = ["PASEO", "PASEO†", "SILO", "DING", "FlowChef"]
    rows = label_rows(where, labels)
    assert rows[0] != 150.0, "a dot lies where its label would be"
    assert rows[4] == 150.0, "nothing is near"
    for i, j in combinations(range(4), 2):
        assert abs(rows[i] - rows[j]) >= 12
    assert label_rows(where[:1], labels[:1]) == [150.0]


def test_labels_are_printed_by_the_method_s_name() -> None:
    expected = {
        "silo": "SILO",
        "silo-53": "SILO (53)",
        "paseo-dagger": "PASEO†",
        "my-own": "my-own",
        "gml-dps": "GML-DPS",
        "silo-": "silo-",
    }
    assert {label: method_title(label) for label in expected} == expected
