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
from paseo.lab.paper import PRIORS, TASKS, under
from paseo.lab.reproduce import affine, anchors, draws, inpaint, main, ofat, steps
from paseo.lab.reproduce.findings import PaperFinding, verdict

EXPERIMENTS = (
    *("main", "coco", "anchors", "ofat", "steps", "cg", "one-iteration", "draws", "inpaint", "jacobian"),
    *("high-nfe", "flow-dps"),
)


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


LONG = ("ofat", "high-nfe", "anchors", "inpaint")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n in LONG else n for n in EXPERIMENTS]
)
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
    assert any(word in json.dumps(document["rows"]) for word in ("paper", "sd35"))  # published figures too
    assert (
        verdict(
            [
                PaperFinding(**{k: f[k] for k in ("statement", "paper", "here", "holds")})
                for f in document["findings"]
            ]
        )
        in result.table()
    )
    assert {"versions", "processor"} <= document["conditions"].keys()


@pytest.mark.parametrize("name", ["observations", "affine", "ding", "bands", "lincheck-pictures"])
def test_experiments_without_a_benchmark(tmp_path: Path, tiny: Path, photos: Path, name: str) -> None:
    path = tmp_path / "result.json"
    data = {} if name == "bands" else {"model": str(tiny), "data": str(photos)}
    part = {} if name == "bands" else {"part": "all"}
    small = {
        "observations": {"images": 3, "tasks": "sr4"},
        "affine": {"images": 1, "fitted": 1, "tasks": "sr4", "kernel": 1},
        "ding": {"images": 1, "steps": 4},
        "bands": {"images": 1, "draws": 2, "channels": 1, "size": 16, "steps": 4},
        "lincheck-pictures": {"images": 1, "draws": 2, "steps": 3},
    }[name]
    result = reproduce.run(name, quick=True, json=path, out=tmp_path / "figures", **data, **part, **small)
    document = json.loads(path.read_text())
    assert document["rows"]
    assert {"versions", "processor"} <= document["conditions"].keys()
    assert result.table()
    if name == "lincheck-pictures":
        assert {f.name for f in (tmp_path / "figures").iterdir()} == {
            "lincheck-holes.png",
            "lincheck-blur.png",
        }


def test_every_experiment_is_listed_with_its_place_and_command() -> None:
    rows = reproduce.listing()
    assert [row["name"] for row in rows] == list(reproduce.EXPERIMENTS)
    assert all(row["command"].startswith("paseo reproduce ") for row in rows)
    assert all(row["label"] and row["what"] and row["needs"] for row in rows)
    for name in reproduce.EXPERIMENTS:
        assert reproduce.options(name)  # the module is there


def test_best_affine_operator_is_found() -> None:
    """Where the measurement is an affine convolution, the fit is exact."""
    z = torch.randn(3, 2, 8, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    kernel = torch.randn(2, 2, 3, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    y = torch.nn.functional.conv2d(z, kernel, torch.tensor([0.3, -0.2], dtype=torch.float64), padding=1)
    weight = affine.fit_affine([(z[:2], y[:2]), (z[2:], y[2:])], 3)
    torch.testing.assert_close(weight[:-1].mT.reshape(2, 2, 3, 3), kernel, rtol=0, atol=1e-3)
    torch.testing.assert_close(weight[-1], torch.tensor([0.3, -0.2], dtype=torch.float64), rtol=0, atol=1e-3)


@pytest.mark.slow
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
    rows = {task: dict(row) for task, row in under("anchors", "sd35").items()}
    assert all(f.holds for f in anchors.findings(rows))
    assert anchors.findings({}) == []


def test_anchor_findings_can_fall() -> None:
    rows = {"sr4": {"arc": 0.2, "denoiser": 0.3, "linear": 0.3, "noisy": 0.1, "fresh": 0.1}}
    assert [f.holds for f in anchors.findings(rows)] == [False, False, False, False, True]


@pytest.mark.parametrize("model", ["rv51", "sd35"])
def test_sensitivity_findings_hold_on_the_papers_figures(model: str) -> None:
    delta = {
        task: {label: row[task] for label, row in under("ofat", model).items() if label != "reference"}
        for task in TASKS
    }
    assert all(f.holds for f in ofat.findings(delta)), [f.line() for f in ofat.findings(delta) if not f.holds]
    assert set(delta["sr4"]) == set(ofat.variants())  # the same levels here and there


@pytest.mark.parametrize("model", ["rv51", "sd35"])
def test_step_findings_hold_on_the_papers_figures(model: str) -> None:
    labels = [f"K={k}" for k in steps.POINTS]
    table = {task: list(under("steps", model, task).values()) for task in TASKS}
    lpips, psnr = (
        {t: dict(zip(labels, (row[c] for row in rows), strict=True)) for t, rows in table.items()}
        for c in ("lpips", "psnr")
    )
    found = steps.findings(lpips, psnr, {t: [row["seconds"] for row in rows] for t, rows in table.items()})
    assert found[-1].paper == "112 take 3.9 to 4.8 times as long as 28"
    assert all(f.holds for f in found), [f.line() for f in found if not f.holds]


def test_draw_findings_hold_on_the_papers_figures() -> None:
    for prior in PRIORS:
        here = {task: dict(row) for task, row in under("draws", prior).items()}
        found = draws.findings(here)
        assert all(f.holds for f in found)
        assert [f.paper for f in found[1:3]] == ["2 to 9 % worse", "std 5 to 13 % of the mean"]


def test_inpainting_findings_hold_on_the_papers_figures() -> None:
    here = {label: (row["lpips"], row["lpips_hole"]) for label, row in under("inpaint", "rv51").items()}
    regions = {
        anchor: {r: under("inpaint", "region", r)[anchor]["kid"] for r in inpaint.REGIONS}
        for anchor in ("denoiser", "arc")
    }
    assert all(f.holds for f in inpaint.findings(here, regions))
    negative = {anchor: {**row, "hole only": -3.0} for anchor, row in regions.items()}
    assert not inpaint.findings(here, negative)[-1].holds, "a negative estimate of a distance is no distance"


def published_rows(task: str) -> dict[str, tuple[float, ...]]:
    """method → LPIPS, PSNR, KID, seconds, GiB with SD3.5."""
    rows = under("ffhq", "sd35", task)
    return {m: tuple(row[c] for c in ("lpips", "psnr", "kid", "seconds", "gib")) for m, row in rows.items()}


def test_main_findings_on_the_papers_figures() -> None:
    """SD3.5: first or second everywhere and first on four, faster, leaner (but DING), JPEG hardest."""
    from paseo.lab.bench.aggregate import Bench, Bootstrapped, Summary
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
            metrics={"psnr": Bootstrapped(p, p, p), "lpips": Bootstrapped(v, v, v)},
            cost={"cpu_seconds": s, "extra_bytes": g * 2**30},
        )
        for task in TASKS
        for method, (v, p, _, s, g) in published_rows(task).items()
    }
    bench = Bench(config, (), (), summaries, {}, (), {})
    assert main.ranks(bench, list(TASKS)) == {"sr4": 1, "sr8": 1, "blur": 1, "inpaint": 1, "jpeg": 2}
    assert all(f.holds for f in main.findings(bench, list(TASKS)))
    (ahead,) = [
        m
        for m, row in published_rows("jpeg").items()
        if row[0] < published_rows("jpeg")["paseo"][0] and m not in main.OURS
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
    here = [line for line in study.lines if line[2] == "here"]
    assert [line[1] for line in here] == ["paseo", "ldps"]
    paper = next(line for line in study.lines if line[1:3] == ["silo", "paper sd35"])
    assert paper[3:9] == [0.303, 29.28, 29.36, None, 20, 21.2], "every published column"
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
