"""`paseo train` from the command line, alone and under torchrun."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from paseo.apps.cli.main import app
from paseo.codecs.embedded import EmbeddedCodec
from paseo.operators.store import load_operator
from paseo.setting import settings_of
from paseo.train.codec import CodecTraining
from paseo.train.config import LoopConfig
from paseo.train.export import half, write_model_config, write_weights
from paseo.train.operator import OperatorTraining
from paseo.train.prior import PriorTraining
from paseo.train.state import read_log

ROOT = Path(__file__).parents[2]


@pytest.fixture
def model(tmp_path: Path, codec: EmbeddedCodec) -> Path:
    folder = tmp_path / "tiny"
    digest = write_weights(half(codec.net), folder / "codec.safetensors")
    write_model_config(
        folder,
        {"name": "tiny", "latent_space": "tiny", "size": 32},
        "codec",
        dict(codec.net.config),
        {},
        {"codec": digest},
    )
    return folder


@pytest.mark.parametrize(
    ("verb", "kind"), [("codec", CodecTraining), ("prior", PriorTraining), ("operator", OperatorTraining)]
)
def test_every_setting_is_an_option_with_help(verb: str, kind: type[LoopConfig]) -> None:
    result = CliRunner().invoke(app, ["train", verb, "--help"])
    assert result.exit_code == 0, result.output
    words = " ".join(result.output.split())
    for declared in settings_of(kind):
        assert "--" + declared.name.replace("_", "-") in words
        assert " ".join(declared.words.split()[:3]) in words


def test_operator_from_the_command_line(photos: Path, tmp_path: Path, model: Path) -> None:
    line = f"train operator --data {photos} --model {model} --task sr8 --size 32 --steps 4 --batch-size 4"
    line += " --device cpu --quiet --json -"
    result = CliRunner().invoke(app, [*line.split(), "--out", str(tmp_path / "run")])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["steps"] == 4
    assert load_operator(tmp_path / "run" / "operator").spec.degradation == "sr8"


def test_a_wrong_setting_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        app,
        ["train", "operator", "--data", str(tmp_path), "--out", str(tmp_path), "--task", "sr4", "--lr", "-1"],
    )
    assert result.exit_code == 2
    assert "lr=-1.0 cannot be used: expected a number in (0, 1000]" in result.output
    assert "Traceback" not in result.output


@pytest.mark.slow
def test_operator_under_torchrun(photos: Path, tmp_path: Path, model: Path) -> None:
    line = f"train operator --data {photos} --model {model} --task sr8 --size 32 --steps 6 --batch-size 4"
    line += " --log-every 2 --device cpu --json -"
    launch = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        "-m",
        "paseo",
        *line.split(),
    ]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*launch, "--out", str(tmp_path / "run")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout)["steps"] == 6  # one process speaks
    assert [row["step"] for row in read_log(tmp_path / "run") if "loss" in row] == [2, 4, 6]
    assert load_operator(tmp_path / "run" / "operator").spec.training["images"] == 19
