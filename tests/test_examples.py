"""Every example of the documentation runs, quickly, and does what it says."""

from __future__ import annotations

import importlib.util
import re
import runpy
from pathlib import Path
from types import ModuleType

import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from paseo.apps.cli.main import app

ROOT = Path(__file__).parents[1]
SAMPLES = ROOT / "paseo" / "models" / "faces-128" / "samples"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_quickstart(tmp_path: Path) -> None:
    result = example("quickstart").main(tmp_path, steps=4)
    assert result.images.shape == (3, 3, 128, 128)
    assert result.nfe == 5
    assert Image.open(tmp_path / "quickstart.png").width > 7 * 128


def test_own_degradation_gains_over_the_measurement(tmp_path: Path) -> None:
    scores = example("own_degradation").main(tmp_path, steps=6)
    assert scores["after"] > scores["before"]


def test_own_pairs_give_an_operator_that_loads(tmp_path: Path) -> None:
    result = example("own_pairs").main(tmp_path, train_steps=2, steps=3)
    assert {p.name for p in (tmp_path / "run" / "operator").iterdir()} >= {"config.json"}
    assert result.images.shape == (1, 3, 128, 128)
    worn, again = str(tmp_path / "pairs" / "degraded" / "2000001-0.png"), str(tmp_path / "again")
    options = ["--operator", str(tmp_path / "run" / "operator"), "--set", "steps=3"]
    done = CliRunner().invoke(
        app, ["restore", worn, "-o", str(tmp_path / "restored"), *options]
    )  # no task: it is the operator's
    assert done.exit_code == 0, done.output
    replay = CliRunner().invoke(
        app, ["restore", "--replay", str(tmp_path / "restored" / "2000001-0.json"), "-o", again]
    )
    assert "identical to the recorded files" in replay.output
    refused = CliRunner().invoke(app, ["restore", worn, "-o", again, *options, "--degrade"])
    assert refused.exit_code == 2, refused.output
    assert "known by example only" in refused.output


def test_own_prior(tmp_path: Path) -> None:
    result = example("own_prior").main(tmp_path, steps=5)
    assert result.nfe == 7
    assert bool(torch.isfinite(result.images).all())


def test_own_sampler(tmp_path: Path) -> None:
    assert example("own_sampler").main(tmp_path, steps=4).nfe == 3


def test_stable_diffusion_without_weights(tmp_path: Path) -> None:
    result = example("stable_diffusion").main(tmp_path, steps=4)
    assert result.images[0].size == (64, 64)


@pytest.mark.slow
def test_any_number_of_workers_gives_the_same_files(tmp_path: Path) -> None:
    few = tmp_path / "few"
    few.mkdir()
    for path in sorted(SAMPLES.iterdir())[:2]:
        (few / path.name).write_bytes(path.read_bytes())
    main = example("cluster").main
    for worker in range(2):
        main(few, tmp_path / "two", worker, 2, steps=3)
    made = {p: p.stat().st_mtime_ns for p in (tmp_path / "two").iterdir()}
    assert main(few, tmp_path / "two", 0, 2, steps=3) == 0
    assert made == {p: p.stat().st_mtime_ns for p in (tmp_path / "two").iterdir()}  # nothing is done twice
    main(few, tmp_path / "one", 0, 1, steps=3)
    names = sorted(p.name for p in (tmp_path / "one").glob("*.png"))
    assert len(names) == 2
    assert all((tmp_path / "one" / n).read_bytes() == (tmp_path / "two" / n).read_bytes() for n in names)


@pytest.mark.slow
def test_settings_change_the_picture_and_give_a_table(tmp_path: Path) -> None:
    module = example("settings")
    rows = module.main(tmp_path, steps=3)
    assert [row["setting"][0] for row in rows] == list(module.VALUES)
    assert len({row["base"].split(":")[1] for row in rows}) == 1  # one run
    table = (tmp_path / "settings.md").read_text(encoding="utf-8").splitlines()
    assert [line.count("|") for line in table] == [5] * (2 + len(rows))
    assert Image.open(tmp_path / "settings.png").height > 5 * 128


def test_uncertainty_compares_spread_and_error(tmp_path: Path) -> None:
    module = example("uncertainty")
    scores = module.main(tmp_path, draws=2, steps=3)
    assert tuple(scores) == module.TASKS
    assert (tmp_path / "uncertainty.md").read_text(encoding="utf-8").count("\n") == 2 + len(scores)
    std = torch.rand(1, 64, 64, generator=torch.Generator().manual_seed(0))
    same = module.compared(std, std * (1 + 1 / 8) ** 0.5, 8)  # as wrong as the draws differ
    assert abs(same["ratio"] - 1) < 1e-6
    assert abs(same["rank correlation"] - 1) < 1e-6


def test_an_operator_in_the_latent_space_of_stable_diffusion(tmp_path: Path) -> None:
    """With random weights in the files' real layout; tests/codecs trains with the real ones."""
    from safetensors.torch import save_file

    originals = runpy.run_path(str(ROOT / "tests" / "codecs" / "test_tiny.py"))
    for part in ("encoder", "decoder"):
        save_file(originals[f"original_{part}"](4).state_dict(), tmp_path / f"taesd_{part}.safetensors")
    module = example("train_taesd_operator")
    budget = {"steps": 2, "batch_size": 2, "size": 32, "images": 1, "quiet": True, "limit": 4}
    check = module.train_and_check(tmp_path, SAMPLES, tmp_path / "run", codec="taesd", **budget)
    assert (tmp_path / "run" / "operator" / "config.json").is_file()
    assert check.rows[0].mean.value_error > 0


NAMES = sorted(p.stem for p in (ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("name", NAMES)
def test_no_example_is_left_out(name: str) -> None:
    assert f'example("{name}")' in Path(__file__).read_text(encoding="utf-8")


def test_make_examples_runs_them_all() -> None:
    """All but the one that needs weights and data of others, which runs where these are named."""
    rule = re.search(r"^examples:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    assert rule is not None
    assert "$(wildcard examples/*.py)" in rule[1]
    assert (
        re.findall(r"examples/(\w+)\.py", rule[1].replace("PASEO_TAESD_DIR", "")).count(
            "train_taesd_operator"
        )
        >= 1
    )
