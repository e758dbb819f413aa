"""Every example of the documentation runs, quickly, and does what it says."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch
from PIL import Image

ROOT = Path(__file__).parents[1]
ELSEWHERE = {"train_taesd_operator"}  # tests/codecs; it needs weights


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
    folder = example("own_pairs").main(tmp_path, train_steps=2)
    assert {p.name for p in folder.iterdir()} >= {"config.json"}


def test_own_prior(tmp_path: Path) -> None:
    result = example("own_prior").main(tmp_path, steps=5)
    assert result.nfe == 7
    assert bool(torch.isfinite(result.images).all())


def test_own_sampler(tmp_path: Path) -> None:
    assert example("own_sampler").main(tmp_path, steps=4).nfe == 3


def test_stable_diffusion_without_weights(tmp_path: Path) -> None:
    result = example("stable_diffusion").main(tmp_path, steps=4)
    assert result.images[0].size == (64, 64)


def test_any_number_of_workers_gives_the_same_files(tmp_path: Path) -> None:
    samples = ROOT / "paseo" / "models" / "faces-128" / "samples"
    few = tmp_path / "few"
    few.mkdir()
    for path in sorted(samples.iterdir())[:2]:
        (few / path.name).write_bytes(path.read_bytes())
    main = example("cluster").main
    for worker in range(2):
        main(few, tmp_path / "two", worker, 2, steps=3)
    assert main(few, tmp_path / "two", 0, 2, steps=3) == []  # nothing is done twice
    main(few, tmp_path / "one", 0, 1, steps=3)
    names = sorted(p.name for p in (tmp_path / "one").iterdir())
    assert len(names) == 2
    assert all((tmp_path / "one" / n).read_bytes() == (tmp_path / "two" / n).read_bytes() for n in names)


@pytest.mark.parametrize("name", sorted(p.stem for p in (ROOT / "examples").glob("*.py")))
def test_no_example_is_left_out(name: str) -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    assert name in ELSEWHERE or f'example("{name}")' in source
