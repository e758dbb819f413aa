"""`--engine ray`: what travels to the workers, and, where Ray is installed, the bytes of a run without it."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from paseo.apps.cli.main import app
from paseo.apps.far import far_jobs
from paseo.apps.ray_folder import UNIT, units
from paseo.apps.sinks import Tars

FAST = ["-t", "sr4", "--set", "steps=3"]


def test_units_leave_the_open_sink_behind(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("".join(f"{i}.png\n" for i in range(UNIT + 1)))
    jobs = far_jobs([str(tmp_path / "list.txt")], "out.tar", Tars(str(tmp_path / "out.tar")))
    found = list(units(jobs))
    assert [len(unit) for unit in found] == [UNIT, 1]
    assert all("sink=None" in repr(job) for unit in found for job in unit)


def test_the_engine_must_be_known(tmp_path: Path) -> None:
    Image.new("RGB", (16, 16)).save(tmp_path / "a.png")
    base = ["restore", str(tmp_path / "a.png"), *FAST, "-o", str(tmp_path / "out")]
    result = CliRunner().invoke(app, [*base, "--engine", "steam"])
    assert result.exit_code == 2
    assert "steam" in result.stderr


@pytest.mark.slow
def test_the_bytes_are_those_of_one_machine(tmp_path: Path) -> None:
    pytest.importorskip("ray.data")
    for name in ("a.png", "x/a.png", "b.png"):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (16, 16), (len(name) * 20, 90, 30)).save(tmp_path / "in" / name)
    (tmp_path / "in" / "broken.png").write_bytes(b"no picture")
    for out, engine in (("here", "local"), ("there", "ray")):
        base = ["restore", str(tmp_path / "in"), *FAST, "-o", str(tmp_path / out), "--engine", engine]
        assert CliRunner().invoke(app, base).exit_code == 1  # the broken one
    for name in ("a.png", "x/a.png", "b.png"):
        assert (tmp_path / "here" / name).read_bytes() == (tmp_path / "there" / name).read_bytes()


@pytest.mark.slow
def test_a_worker_that_is_killed_costs_nothing(tmp_path: Path) -> None:
    """Two workers, one of them killed at work: all pictures are there, with the same bytes."""
    pytest.importorskip("ray.data")
    for i in range(40):
        path = tmp_path / "in" / f"{i % 3}" / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (16, 16), (6 * i, 90, 30)).save(path)
    base = ["restore", str(tmp_path / "in"), *FAST, "-o"]
    assert CliRunner().invoke(app, [*base, str(tmp_path / "here")]).exit_code == 0
    command = [sys.executable, "-m", "paseo", *base, str(tmp_path / "there"), "--engine", "ray"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as driver:
        killed = kill_a_worker(driver, tmp_path / "there")
        _, told = driver.communicate(timeout=1200)
    assert killed, told
    assert driver.returncode == 0, told
    assert "40 restored" in told
    pictures = {p.relative_to(tmp_path / "here"): p.read_bytes() for p in (tmp_path / "here").rglob("*.png")}
    assert len(pictures) == 40
    assert pictures == {
        p.relative_to(tmp_path / "there"): p.read_bytes() for p in (tmp_path / "there").rglob("*.png")
    }


def kill_a_worker(driver: subprocess.Popen[str], out: Path) -> bool:
    """Once the first pictures are there: kill -9 one of the processes below `driver` that restore."""
    import psutil

    while driver.poll() is None:
        if len(list(out.rglob("*.png"))) >= 2:
            below = psutil.Process(driver.pid).children(recursive=True)
            workers = [p for p in below if any("MapWorker" in word for word in p.cmdline())]
            if workers:
                workers[0].kill()
                return True
        time.sleep(0.05)
    return False
