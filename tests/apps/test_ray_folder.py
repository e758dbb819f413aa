"""`--engine ray`: what travels to the workers, and, where Ray is installed, the bytes of a run without it."""

from __future__ import annotations

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
