"""Data does not execute code: a function named in a file is loaded only with --allow-code or if the user
typed its name.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

import paseo
from paseo.apps.cli.main import app
from paseo.degrade import task
from paseo.errors import BadInput
from paseo.lab.bench.config import load_config
from paseo.models import ROOT
from paseo.trust import allowing_code, for_this_command

TRAP = "from pathlib import Path\nPath(__file__).with_name('SPRUNG').touch()\ndef f(x):\n    return x\n"


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A Python file that leaves a mark when it is run."""
    path = tmp_path / "trap.py"
    path.write_text(TRAP)
    return path


def sprung(trap: Path) -> bool:
    return trap.with_name("SPRUNG").exists()


@pytest.fixture
def operator(tmp_path: Path, trap: Path) -> Path:
    """An operator whose config names the trap as its degradation."""
    folder = tmp_path / "operator"
    shutil.copytree(ROOT / "faces-128" / "operators" / "sr4", folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "degradation": f"{trap}:f"}))
    return folder


def command(*words: str | Path) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(w) for w in words])
    return result.exit_code, result.output


def picture() -> Path:
    return sorted((ROOT / "faces-128" / "samples").iterdir())[0]


def test_an_operator_folder_runs_nothing(operator: Path, trap: Path, tmp_path: Path) -> None:
    code, output = command("restore", picture(), "-o", tmp_path / "out", "--operator", operator)
    assert code == 2
    assert "--allow-code" in output
    assert not sprung(trap)
    assert not (tmp_path / "out").exists()


def test_allow_code_stands_anywhere_and_ends_with_the_command(
    operator: Path, trap: Path, tmp_path: Path
) -> None:
    words = [
        "restore",
        picture(),
        "-o",
        tmp_path / "out",
        "--operator",
        operator,
        "--set",
        "steps=3",
        "--degrade",
    ]
    command(*words, "--allow-code")
    assert sprung(trap)
    trap.with_name("SPRUNG").unlink()
    with pytest.raises(BadInput, match="--allow-code"):
        task(f"{trap}:f")
    assert not sprung(trap)


def test_a_record_runs_nothing(operator: Path, trap: Path, tmp_path: Path) -> None:
    words = ["restore", picture(), "-o", tmp_path / "out", "--degrade", "--set", "steps=3", "--task", "sr4"]
    assert command(*words)[0] == 0
    (sidecar,) = (tmp_path / "out").glob("*.json")
    record = json.loads(sidecar.read_text())
    for change in (
        {"task": f"{trap}:f"},
        {"operator": {**record["operator"], "name": str(operator), "given": True}},
        {"task": f"{trap}:f", "operator": {**record["operator"], "name": str(operator), "given": True}},
    ):
        sidecar.write_text(json.dumps(record | change))
        code, output = command("restore", "--replay", sidecar, "-o", tmp_path / "again")
        assert not sprung(trap), output
        assert code in (1, 2) or "task" not in change


def test_a_benchmark_file_runs_nothing(trap: Path, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(f"tasks: ['{trap}:f']\nmethods: [paseo]\n")
    code, output = command("bench", "plan", file, "-o", tmp_path / "run")
    assert code == 2
    assert "--allow-code" in output
    (tmp_path / "run").mkdir()
    shutil.copy(file, tmp_path / "run")
    (tmp_path / "run" / "plan.jsonl").write_text("")
    for verb in ("run", "report"):
        assert command("bench", verb, tmp_path / "run")[0] == 2
    assert not sprung(trap)
    with allowing_code():
        load_config(file)
    assert sprung(trap)


def test_what_is_typed_or_passed_is_loaded(trap: Path) -> None:
    for words in ([f"{trap}:f"], [f"--task={trap}:f"], ["--set", f"tasks=[sr4,{trap}:f]"]):
        with for_this_command(words):
            assert task(f"{trap}:f").name == f"{trap}:f"
        with pytest.raises(BadInput, match="--allow-code"):
            task(f"{trap}:f")
    assert paseo.task(f"{trap}:f").name == f"{trap}:f"


def test_modules_that_are_installed_are_code_too() -> None:
    with pytest.raises(BadInput, match="--allow-code"):
        task("os:system")
