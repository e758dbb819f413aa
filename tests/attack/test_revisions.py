"""Hub ids with a revision: the record keeps the commit that was found, and a replay takes that one.

The cache is made as huggingface_hub makes it; nothing is downloaded.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_model import make_pictures
from typer.testing import CliRunner

from paseo.apps.cli.main import app

A, B = "a" * 40, "b" * 40  # two commits of one repository
UNET = "unet/diffusion_pytorch_model.safetensors"


@pytest.fixture
def branch(tiny_folder: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that says which commit `main` is; B has another network than A."""
    import huggingface_hub.constants
    from safetensors.torch import load_file, save_file

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    root = tmp_path / "hub" / "models--org--tiny"
    for commit in (A, B):
        shutil.copytree(tiny_folder("sd"), root / "snapshots" / commit)
    other = root / "snapshots" / B / UNET
    save_file({k: v + 0.01 * torch.ones_like(v) for k, v in load_file(other).items()}, other)
    (root / "refs").mkdir()
    (root / "refs" / "main").write_text(A)
    return root / "refs" / "main"


def command(*words: Any) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def test_a_record_pins_what_was_found(branch: Path, tmp_path: Path) -> None:
    picture = sorted(make_pictures(tmp_path / "in", 1, side=64).iterdir())[0]
    given = ["-t", "sr4", "--degrade", "--operator", "chain", "--set", "steps=3", "--device", "cpu"]

    def restored(model: str, out: str, *more: str) -> dict[str, Any]:
        code, told = command("restore", picture, "-o", tmp_path / out, "-m", model, *given, *more)
        assert code == 0, told
        return json.loads((tmp_path / out / "000.json").read_text())

    first = restored("org/tiny", "first")
    assert first["model"]["name"] == f"org/tiny@{A}"
    assert first["recipe"]["identity"]["revision"] == A
    branch.write_text(B)
    code, told = command(
        "restore",
        "--replay",
        tmp_path / "first" / "000.json",
        "-o",
        tmp_path / "again",
        "--json",
        tmp_path / "j",
    )
    assert code == 0, told
    assert json.loads((tmp_path / "j").read_text())["identical"]
    later = restored("org/tiny", "first", "--skip-existing")
    assert later["model"]["name"] == f"org/tiny@{B}"
    assert later["outputs"] != first["outputs"]
    pinned = restored(f"org/tiny@{A}", "pinned")
    assert pinned["outputs"] == first["outputs"]
    code, told = command("restore", picture, "-o", tmp_path / "x", "-m", "org/tiny@elsewhere", *given)
    assert code == 2
    assert "org/tiny" in told
