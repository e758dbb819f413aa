"""Experiments on learned operators: each runs on a tiny model, and its findings hold on the paper's own
figures.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from runs import planned

from paseo import reproduce
from paseo.errors import BadInput
from paseo.lab.bench.run import run as compute
from paseo.lab.reproduce import anchors, draws, inpaint, main, ofat, steps
from paseo.lab.reproduce.findings import Finding, verdict
from paseo.lab.reproduce.main_paper import PAPER as MAIN
from paseo.lab.reproduce.ofat_paper import PAPER as OFAT
from paseo.lab.reproduce.ofat_paper import TASKS

EXPERIMENTS = ("main", "anchors", "ofat", "steps", "cg", "draws", "inpaint", "jacobian")


def options(tmp_path: Path, tiny: Path, photos: Path, **more: Any) -> dict[str, Any]:
    return {
        "model": str(tiny),
        "data": str(photos),
        "part": "all",
        "work": str(tmp_path / "work"),
        "tasks": "sr4,inpaint",
        "steps": 3,
        **more,
    }


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_runs_and_explains_itself(
    tmp_path: Path, tiny: Path, photos: Path, name: str
) -> None:
    images = 3 if name == "inpaint" else 1  # distances need three
    tasks = "sr4" if name == "ofat" else "sr4,inpaint"
    path = tmp_path / "result.json"
    settings = options(tmp_path, tiny, photos, images=images, tasks=tasks)
    result = reproduce.run(name, quick=True, json=path, out=tmp_path / "figures", **settings)
    document = json.loads(path.read_text())
    assert document["rows"]
    assert "sd35" in json.dumps(document["rows"])  # the paper's figures beside ours
    assert (
        verdict(
            [
                Finding(**{k: f[k] for k in ("statement", "paper", "here", "holds")})
                for f in document["findings"]
            ]
        )
        in result.table()
    )
    assert {"versions", "processor"} <= document["conditions"].keys()


def test_a_stopped_experiment_goes_on(tmp_path: Path, tiny: Path, photos: Path) -> None:
    """Two halves by two shards give what one run gives; the first half says that something is missing."""
    halves = [options(tmp_path, tiny, photos, images=2, batch=1, tasks="sr4", shard=f"{i}/2") for i in (0, 1)]
    assert "not done yet" in reproduce.run("anchors", quick=True, **halves[0]).table()
    both = reproduce.run("anchors", quick=True, **halves[1])
    whole = reproduce.run(
        "anchors",
        quick=True,
        **options(tmp_path, tiny, photos, images=2, batch=1, tasks="sr4", work=str(tmp_path / "other")),
    )
    assert both.rows() == whole.rows()


def test_anchor_findings_hold_on_the_papers_figures() -> None:
    rows = {
        task: dict(zip(anchors.ANCHORS, values, strict=True))
        for task, values in anchors.PAPER["sd35"].items()
    }
    assert all(f.holds for f in anchors.findings(rows))
    assert anchors.findings({}) == []


def test_anchor_findings_can_fall() -> None:
    rows = {"sr4": {"arc": 0.2, "denoiser": 0.3, "linear": 0.3, "noisy": 0.1, "fresh": 0.1}}
    assert [f.holds for f in anchors.findings(rows)] == [False, False, False, False, True]


@pytest.mark.parametrize("model", ["rv51", "sd35"])
def test_sensitivity_findings_hold_on_the_papers_figures(model: str) -> None:
    delta = {
        task: {label: row[task] for label, row in OFAT[model].items() if label != "reference"}
        for task in TASKS
    }
    assert all(f.holds for f in ofat.findings(delta)), [f.line() for f in ofat.findings(delta) if not f.holds]
    assert set(delta["sr4"]) == set(ofat.variants())  # the same levels here and there


@pytest.mark.parametrize("model", ["rv51", "sd35"])
def test_step_findings_hold_on_the_papers_figures(model: str) -> None:
    labels = [f"K={k}" for k in steps.POINTS]
    table = steps.PAPER[model]
    lpips, psnr = (
        {t: dict(zip(labels, (v[i] for v in row), strict=True)) for t, row in table.items()} for i in (0, 1)
    )
    found = steps.findings(lpips, psnr, {t: [v[2] for v in row] for t, row in table.items()})
    assert all(f.holds for f in found), [f.line() for f in found if not f.holds]


def test_draw_findings_hold_on_the_papers_figures() -> None:
    for rows in draws.PAPER.values():
        here = {
            t: {c: v for c, v in zip(draws.COLUMNS, values, strict=True) if v is not None}
            for t, values in rows.items()
        }
        assert all(f.holds for f in draws.findings(here))


def test_inpainting_findings_hold_on_the_papers_figures() -> None:
    here = {label: (row[1], row[2]) for label, row in inpaint.PAPER["rv51"].items()}
    regions = {
        "denoiser": dict(zip(inpaint.REGIONS, (3.50, 12.06, -0.23, 2.89), strict=True)),
        "arc": dict(zip(inpaint.REGIONS, (16.26, 27.30, -0.05, 17.31), strict=True)),
    }
    assert all(f.holds for f in inpaint.findings(here, regions))


def test_main_findings_on_the_papers_figures() -> None:
    """SD3.5: first or second everywhere and first on four, faster and leaner than all but DING, JPEG hardest."""
    from paseo.lab.bench.aggregate import Bench, Interval, Summary
    from paseo.lab.bench.config import parse_config

    config = parse_config(
        {
            "model": "nowhere",
            "methods": [
                *main.METHODS,
                {"name": "paseo", "label": "paseo-dagger", "settings": {"anchor": "fresh"}},
            ],
        }
    )
    summaries = {
        (task, method): Summary(
            *(task, method, 1, 1, 0, 1, 53),
            values={"lpips": {"an image": v}, "psnr": {"an image": p}},
            metrics={"psnr": Interval(p, p, p), "lpips": Interval(v, v, v)},
            cost={"cpu_seconds": s, "extra_bytes": g * 2**30},
        )
        for task, methods in MAIN["sd35"].items()
        for method, (p, v, _, s, g) in methods.items()
    }
    bench = Bench(config, (), (), summaries, {}, (), {})
    assert main.ranks(bench, list(TASKS)) == {"sr4": 1, "sr8": 1, "blur": 1, "inpaint": 1, "jpeg": 2}
    assert all(f.holds for f in main.findings(bench, list(TASKS)))
    (ahead,) = [
        m
        for m, row in MAIN["sd35"]["jpeg"].items()
        if row[1] < MAIN["sd35"]["jpeg"]["paseo"][1] and m not in main.OURS
    ]
    again = config.model_copy(
        update={
            "methods": (
                *config.methods,
                config.methods[0].model_copy(update={"name": ahead, "label": "again"}),
            )
        }
    )
    twice = {**summaries, ("jpeg", "again"): replace(summaries["jpeg", ahead], method="again")}
    assert main.ranks(Bench(again, (), (), twice, {}, (), {}), ["jpeg"]) == {"jpeg": 2}, (
        "a method with two settings is one method"
    )


def test_main_reads_a_benchmark_and_ranks_on_common_images(tmp_path: Path, tiny: Path, photos: Path) -> None:
    """LDPS has one image, PASEO two: the places are those on the one, whatever the means over all say."""
    methods = [
        {"name": "paseo", "settings": {"steps": 4}},
        {"name": "ldps", "settings": {"steps": 4}, "count": 1},
    ]
    folder = planned(tmp_path / "run", tiny, photos, tasks=["sr4"], methods=methods)
    assert compute(folder).failed == 0
    study = main.run(main.Options(model=str(tiny), run=str(folder)))
    assert [line[1] for line in study.lines] == ["paseo", "ldps"]
    first = {s.method: next(iter(s.values["lpips"].values())) for s in study.bench.of("sr4")}
    assert main.ranks(study.bench, ["sr4"]) == {"sr4": 1 + (first["ldps"] < first["paseo"])}
    with pytest.raises(BadInput, match=r"config\.yaml"):
        main.run(main.Options(run=str(tmp_path / "nowhere")))


def test_pairwise_distance() -> None:
    """Three images at 0, 1 and 3: distances 1, 3 and 2, on average 2."""
    x = torch.tensor([0.0, 1.0, 3.0]).view(3, 1, 1, 1).expand(3, 3, 4, 4)
    assert draws.pairwise_rms(x) == pytest.approx(2.0)


def test_tasks_the_model_cannot_do(tmp_path: Path, tiny: Path, photos: Path) -> None:
    with pytest.raises(BadInput, match="has operators for"):
        reproduce.run("anchors", quick=True, **options(tmp_path, tiny, photos, tasks="blur"))


def test_lincheck_on_a_learned_prior(tmp_path: Path, tiny: Path, photos: Path) -> None:
    settings = {"model": str(tiny), "data": str(photos), "part": "all", "images": 1, "draws": 2, "steps": 3}
    result: Any = reproduce.run("lincheck-faces", out=tmp_path, quick=True, **settings)
    at = {row.key: row for row in result.found}
    assert (
        len(at) == len(result.found) == 2 * (4 + 3 * 7)
    )  # truths × (mask: DING, three anchors; blur: three anchors × seven budgets)
    assert all(row.lpips > 0 for row in result.found)
    # With a mask the solve is exact, so all anchors draw the seen cells alike; DING has the same law by
    # another stream.

    assert at["mask", "arc", "1", "prior"].evidence.spread()[0] > 0
    assert "olds here" in result.table()
    assert (tmp_path / "lincheck-faces.png").is_file()
    with pytest.raises(BadInput, match="draws"):
        reproduce.run("lincheck-faces", draws=1)
