"""The command line with Stable Diffusion models: restore, replay, train, doctor."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from paseo.apps.cli.main import app
from paseo.models import load_model
from paseo.operators.config import OperatorConfig
from paseo.operators.net import OperatorNet
from paseo.operators.store import load_operator, save_operator


def paseo(*arguments: Any) -> Any:
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("in") / "small.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (17, 20, 3), dtype=np.uint8)).save(path)
    return path


@pytest.fixture(scope="module")
def operator(tiny_folder: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = load_model(tiny_folder("sd3"), device="cpu")
    folder = tmp_path_factory.mktemp("operator")
    save_operator(OperatorNet(OperatorConfig(16, "sd3", model.hashes["codec"], "sr4")), folder)
    return folder


def test_restore_and_replay(
    tiny_folder: Callable[[str], Path], small: Path, operator: Path, tmp_path: Path
) -> None:
    options = (
        "--operator",
        operator,
        "--prompt",
        "a cat",
        "--dtype",
        "fp32",
        "--no-t5",
        "--device",
        "cpu",
        "--set",
        "steps=4",
    )
    done = paseo(
        "restore", small, "-o", tmp_path / "out", "--task", "sr4", "--model", tiny_folder("sd3"), *options
    )
    assert done.exit_code == 0, done.output
    assert Image.open(tmp_path / "out" / "small.png").size == (80, 68)
    record = json.loads((tmp_path / "out" / "small.json").read_text())
    assert record["nfe"] == 5
    assert record["model"]["options"] == {
        "prompt": "a cat",
        "device": "cpu",
        "dtype": "fp32",
        "t5": False,
        "guidance": 1.0,
    }
    assert record["sampler"]["settings"]["eta"] == "sqrt"  # of the family's settings, the paper's COCO row
    again = paseo("restore", "--replay", tmp_path / "out" / "small.json", "-o", tmp_path / "again")
    assert again.exit_code == 0, again.output
    assert "identical to the recorded files" in again.output


def test_what_is_wrong_is_one_line(
    tiny_folder: Callable[[str], Path], small: Path, operator: Path, tmp_path: Path
) -> None:
    base = ("restore", small, "-o", tmp_path, "--task", "sr4", "--device", "cpu", "--model")
    strange = tmp_path / "strange"  # another scale is another latent space, for which nothing is shipped
    shutil.copytree(tiny_folder("sd3"), strange)
    config = json.loads((strange / "vae" / "config.json").read_text()) | {"scaling_factor": 0.7}
    (strange / "vae" / "config.json").write_text(json.dumps(config))
    none = paseo(*base, strange)
    assert none.exit_code == 2
    assert "without an operator for 'sr4'" in none.output
    other = paseo(*base, tiny_folder("sd"), "--operator", operator)
    assert other.exit_code == 2
    assert "another" in other.output or "not of" in other.output
    missing = paseo(*base, "nobody/no-such-model", "--operator", operator)
    assert missing.exit_code == 2
    assert "hf download" in missing.output
    assert not list(tmp_path.glob("*.png"))


def test_an_operator_for_a_diffusers_folder(tiny_folder: Callable[[str], Path], tmp_path: Path) -> None:
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    for i in range(12):
        Image.fromarray(np.random.default_rng(i).integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(
            pictures / f"{i}.png"
        )
    arguments = (
        "--data",
        pictures,
        "--task",
        "sr4",
        "--size",
        64,
        "--steps",
        2,
        "--batch-size",
        2,
        "--out",
        tmp_path / "run",
        "--quiet",
    )
    done = paseo(
        "train", "operator", "--model", tiny_folder("sd3"), "--split", "hash", "--device", "cpu", *arguments
    )
    assert done.exit_code == 0, done.output
    spec = load_operator(tmp_path / "run" / "operator").spec
    model = load_model(tiny_folder("sd3"), device="cpu")
    assert (spec.channels, spec.latent_space, spec.vae_hash) == (16, "sd3", model.hashes["codec"])


def test_the_doctor_on_a_broken_model(tiny_folder: Callable[[str], Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_folder("sd"), tmp_path / "model"))
    (folder / "vae" / "diffusion_pytorch_model.safetensors").unlink()
    found = paseo("doctor", folder, "--device", "cpu", "--json", tmp_path / "doctor.json")
    assert found.exit_code == 1
    checks = json.loads((tmp_path / "doctor.json").read_text())["checks"]
    assert any(c["status"] == "fault" and "vae has no safetensors weights" in c["detail"] for c in checks)
