"""One process, three shards, batches, Ray, or killed and resumed: the same rows and the same bytes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from runs import contents, planned, store

from paseo.errors import BadInput
from paseo.lab.bench.cells import read_plan
from paseo.lab.bench.run import Shard, run

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, tiny: Path, photos: Path) -> Path:
    """A run by one process; nobody may change it."""
    folder = planned(tmp_path_factory.mktemp("whole") / "run", tiny, photos)
    outcome = run(folder)
    assert (outcome.done, outcome.skipped, outcome.failed) == (10, 0, 0)
    return folder


def test_rows_say_what_was_done(whole: Path) -> None:
    for cell in read_plan(whole):
        row, cost = store(whole).row(cell), store(whole).cost(cell)
        assert row is not None
        assert (
            row["nfe"] == {"paseo": 5, "ding": 5, "ldps": 3}[cell.method]
        )  # 2n − 3, 2n − 3, n − 1 with n = 4
        assert set(row["metrics"]) == {"psnr", "ssim", "lpips"}
        assert "seconds" not in row
        assert cost["seconds"] > 0
        assert cost["peak_bytes"] >= cost["extra_bytes"] >= 0


def test_metrics_are_those_of_the_stored_image(whole: Path) -> None:
    from paseo.images import read
    from paseo.metrics import lpips, psnr

    cell = read_plan(whole)[0]
    image = read(store(whole).path(cell, ".png")).rgb[None]
    truth = read(store(whole).truth(cell.image, cell.image_sha256)).rgb[None]
    row = store(whole).row(cell)
    assert row is not None
    assert row["metrics"]["psnr"] == pytest.approx(
        float(psnr(image, truth)), abs=1e-5
    )  # rounded to six digits
    assert row["metrics"]["lpips"] == pytest.approx(float(lpips(image, truth)), abs=1e-5)


def test_a_second_run_has_nothing_to_do(whole: Path) -> None:
    before = {p: p.stat().st_mtime_ns for p in whole.rglob("*.png")}
    outcome = run(whole)
    assert (outcome.done, outcome.skipped) == (0, 10)
    assert before == {p: p.stat().st_mtime_ns for p in whole.rglob("*.png")}


def test_three_shards_give_the_same_bytes(tmp_path: Path, whole: Path, tiny: Path, photos: Path) -> None:
    folder = planned(tmp_path / "run", tiny, photos)
    outcomes = [run(folder, shard=Shard(i, 3)) for i in (2, 0, 1)]
    assert [o.done for o in outcomes] == [3, 4, 3]
    assert contents(folder) == contents(whole)


def test_methods_see_the_same_measurement(whole: Path) -> None:
    rows = [store(whole).row(cell) for cell in read_plan(whole)]
    seeds = {(row["image"], row["measurement_seed"], row["sample_seed"]) for row in rows if row is not None}
    assert len(seeds) == 2  # one per image, whatever the task and method


@pytest.mark.slow
def test_batches_do_not_depend_on_the_shard(tmp_path: Path, tiny: Path, photos: Path) -> None:
    """Rounding depends on what is computed together, so the plan fixes it."""
    changes = {"batch": 2, "tasks": ["sr4"], "data": {"path": str(photos), "count": 3}}
    one, two = (planned(tmp_path / name, tiny, photos, **changes) for name in ("one", "two"))
    run(one)
    for i in (1, 0):
        run(two, shard=Shard(i, 2))
    cell = read_plan(two)[1]
    store(two).path(cell, ".json").unlink()  # half of a unit is lost
    run(two)
    assert contents(one) == contents(two)


def test_the_same_settings_are_computed_once(tmp_path: Path, tiny: Path, photos: Path) -> None:
    methods = [{"name": "silo", "label": label, "settings": {"steps": 3}} for label in ("first", "second")]
    folder = planned(tmp_path / "run", tiny, photos, tasks=["sr4"], methods=methods)
    assert run(folder).done == 4
    cells = read_plan(folder)
    for one, two in zip(cells[:2], cells[2:], strict=True):
        assert one.key == two.key
        assert store(folder).path(one, ".png").read_bytes() == store(folder).path(two, ".png").read_bytes()
        assert store(folder).cost(one) == store(folder).cost(two)  # which no two computations share
        row, other = store(folder).row(one), store(folder).row(two)
        assert row is not None
        assert other == {**row, "method": "second"}
    alone = planned(tmp_path / "alone", tiny, photos, tasks=["sr4"], methods=methods[1:])
    run(alone)
    name = str(store(alone).path(cells[2], ".json").relative_to(alone))
    assert contents(alone)[name] == contents(folder)[name]


def killed(folder: Path, after: int) -> None:
    """Start a run in another process and kill it -9 once so many rows are there."""
    code = f"from pathlib import Path; from paseo.lab.bench.run import run; run(Path({str(folder)!r}))"
    process = subprocess.Popen([sys.executable, "-c", code], env=ENVIRONMENT, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 240
    while len(rows(folder)) < after:
        assert process.poll() is None, process.stderr.read().decode() if process.stderr else ""
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()


def rows(folder: Path) -> list[Path]:
    return [p for p in folder.glob("cells/*/*/*.json") if not p.name.endswith(".cost.json")]


def test_killed_and_resumed_gives_the_same_bytes_and_report(
    tmp_path: Path, whole: Path, tiny: Path, photos: Path
) -> None:
    from paseo.lab.bench.report import write_report

    folder = planned(tmp_path / "run", tiny, photos)
    for after in (1, 4):
        killed(folder, after)
        assert after <= len(rows(folder)) < 10
    known = len(rows(folder))
    outcome = run(folder)
    assert outcome.skipped == known  # what was finished is not lost
    assert outcome.done == 10 - known
    assert contents(folder) == contents(whole)
    write_report(folder, tmp_path / "resumed", cost=False)
    write_report(whole, tmp_path / "straight", cost=False)
    resumed, straight = (contents(tmp_path / name) for name in ("resumed", "straight"))
    assert {n: d for n, d in resumed.items() if not n.endswith(".json")} == {
        n: d for n, d in straight.items() if not n.endswith(".json")
    }
    assert resumed == straight


def test_a_failure_is_recorded_and_the_rest_goes_on(tmp_path: Path, tiny: Path, photos: Path) -> None:
    """A guidance of a million on squares leaves the range of floats; the other method does not care."""
    methods = [
        {"name": "ldps", "settings": {"steps": 12, "guidance": 1e6, "loss": "square"}},
        {"name": "silo", "settings": {"steps": 4}},
    ]
    folder = planned(
        tmp_path / "run", tiny, photos, methods=methods, tasks=["sr4"], data={"path": str(photos), "count": 1}
    )
    outcome = run(folder)
    assert (outcome.done, outcome.failed) == (1, 1)
    bad = read_plan(folder)[0]
    failure = store(folder).failed(bad)
    assert failure is not None
    assert failure["error"] == "NotFinite"
    assert "Traceback" in failure["traceback"]
    assert run(folder).failed == 1  # tried again, and still so


def test_a_failure_is_forgotten_once_it_succeeds(tmp_path: Path, tiny: Path, photos: Path) -> None:
    from paseo.files import write_json

    folder = planned(
        tmp_path / "run", tiny, photos, tasks=["sr4"], methods=[{"name": "silo", "settings": {"steps": 3}}]
    )
    cell = read_plan(folder)[0]
    write_json(
        store(folder).failure(cell),
        {"key": cell.key, "error": "OutOfMemory", "message": "another process", "traceback": ""},
    )
    run(folder)
    assert store(folder).failed(cell) is None


def test_changed_weights_are_refused(tmp_path: Path, tiny: Path, photos: Path) -> None:
    import shutil

    model = Path(shutil.copytree(tiny, tmp_path / "model"))
    folder = planned(
        tmp_path / "run", model, photos, tasks=["sr4"], methods=[{"name": "silo", "settings": {"steps": 3}}]
    )
    target = model / "operators" / "sr4"
    shutil.rmtree(target)
    shutil.copytree(tiny / "operators" / "jpeg", target)
    assert run(folder).failed == 2
    failure = store(folder).failed(read_plan(folder)[0])
    assert failure is not None
    assert "Plan again" in failure["message"]


def test_changed_images_are_refused(tmp_path: Path, tiny: Path, photos: Path) -> None:
    import shutil

    from tiny_model import make_pictures

    data = Path(shutil.copytree(photos, tmp_path / "photos"))
    folder = planned(tmp_path / "run", tiny, data, tasks=["sr4"])
    shutil.rmtree(data)
    make_pictures(data, 2, side=48)
    with pytest.raises(BadInput, match="Plan again"):
        run(folder)


@pytest.mark.parametrize(
    ("text", "environment", "expected"),
    [
        ("1/4", {}, Shard(1, 4)),
        ("1/4", {"RANK": "0", "WORLD_SIZE": "2"}, Shard(1, 4)),
        (None, {"RANK": "1", "WORLD_SIZE": "2"}, Shard(1, 2)),
        (
            None,
            {"SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_TASK_COUNT": "3", "SLURM_ARRAY_TASK_MIN": "1"},
            Shard(2, 3),
        ),
        (None, {}, Shard(0, 1)),
    ],
)
def test_shards_from_launchers(text: str | None, environment: dict[str, str], expected: Shard) -> None:
    assert Shard.parse(text, environment) == expected


@pytest.mark.parametrize("text", ["4/4", "1", "a/b", "-1/2"])
def test_shards_that_do_not_exist(text: str) -> None:
    with pytest.raises(BadInput):
        Shard.parse(text, {})
