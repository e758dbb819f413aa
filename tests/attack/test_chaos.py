"""Kill -9 at random moments: started again until it ends, every verb leaves the bytes of an unbroken run,
and nothing else.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest
from tiny_model import make_model, make_pictures

pytestmark = pytest.mark.slow
KILLS = int(os.environ.get("PASEO_KILLS", "8"))  # over all verbs
SPENT = {"seconds", "elapsed", "peak", "since"}  # what no two runs share


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_pictures(tmp_path_factory.mktemp("photos") / "in", 6)


def start(words: list[Any]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "paseo", *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def unbroken(words: list[Any]) -> float:
    """Run to the end; how long it took."""
    begun = time.monotonic()
    with start(words) as child:
        _, told = child.communicate()
    assert child.returncode == 0, told.decode()
    return time.monotonic() - begun


def broken(words: list[Any], seconds: float, kills: int, rng: random.Random) -> int:
    """Kill it that many times at random moments, then let it end; how many kills met it alive."""
    met = 0
    for _ in range(kills):
        with start(words) as child:
            try:
                child.communicate(timeout=rng.uniform(0.2, 1.0) * seconds)
            except subprocess.TimeoutExpired:
                child.kill()
                met += 1
    unbroken(words)
    return met


def contents(folder: Path) -> dict[str, Any]:
    """Every file of a folder, JSON without what no two runs share."""
    found: dict[str, Any] = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        name = str(path.relative_to(folder))
        if path.name.endswith((".cost.json", ".png.json")) or path.name in (
            "loss.png",
            "conditions.json",
            "log.jsonl",
        ):
            continue
        found[name] = without(json.loads(path.read_text())) if path.suffix == ".json" else path.read_bytes()
    return found


def without(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: without(v) for k, v in value.items() if k not in SPENT}
    return [without(v) for v in value] if isinstance(value, list) else value


def compare(tmp_path: Path, make: Any, seed: int, kills: int = max(1, KILLS // 4)) -> None:
    whole, torn = tmp_path / "whole" / "x", tmp_path / "torn" / "x"
    seconds = unbroken(make(whole))
    met = broken(make(torn), seconds, kills, random.Random(seed))
    assert contents(torn) == contents(whole), f"after {met} kills"
    assert not [p for p in torn.rglob("*") if ".tmp" in p.name or p.name.endswith(".lock")]


def test_restore(model: Path, photos: Path, tmp_path: Path) -> None:
    options = ["-m", model, "-t", "sr4", "--degrade", "--skip-existing", "--set", "steps=30"]
    compare(tmp_path, lambda out: ["restore", photos, "-o", out, *options], 1)


def test_restore_in_passes(model: Path, photos: Path, tmp_path: Path) -> None:
    """Pictures in company, ten kills: which ones share a pass does not depend on what is there already."""
    options = ["-m", model, "-t", "sr4", "--degrade", "--skip-existing", "--set", "steps=30", "--batch", "4"]
    compare(tmp_path, lambda out: ["restore", photos, "-o", out, *options], 5, kills=10)


def test_restore_into_tars(model: Path, photos: Path, tmp_path: Path) -> None:
    """After ten kills every picture lies in the tars once, with the bytes of an unbroken run."""
    words = ["restore", photos, "-m", model, "-t", "sr4", "--degrade", "--set", "steps=30", "-o"]
    seconds = unbroken([*words, tmp_path / "whole" / "out.tar"])
    broken([*words, tmp_path / "torn" / "out.tar"], seconds, 10, random.Random(6))
    whole, torn = packed(tmp_path / "whole"), packed(tmp_path / "torn")
    assert sorted(name for name, _ in torn) == sorted(name for name, _ in whole)  # none lost, none twice
    assert dict(torn) == dict(whole)


def packed(folder: Path) -> list[tuple[str, bytes]]:
    """The pictures of all tars of a folder."""
    found = []
    for path in sorted(folder.rglob("*.tar")):
        with tarfile.open(path) as tar:
            for member in tar:
                file = tar.extractfile(member)
                if file is not None and member.name.endswith(".png"):
                    found.append((member.name, file.read()))
    return found


def test_bench(model: Path, photos: Path, tmp_path: Path) -> None:
    config = tmp_path / "bench.yaml"
    config.write_text(
        f"model: {model}\ndata: {{path: {photos}}}\ntasks: [sr4, jpeg]\n"
        f"methods: [{{name: paseo, settings: {{steps: 30}}}}]\n"
        "features: false\nmetrics: [psnr]\n"
    )

    def make(out: Path) -> list[Any]:
        if not out.exists():
            unbroken(["bench", "plan", config, "-o", out])
        return ["bench", "run", out]

    compare(tmp_path, make, 2)


def test_train(model: Path, photos: Path, tmp_path: Path) -> None:
    options = ["--task", "sr4", "--data", photos, "--model", model, "--steps", "60", "--batch-size", "2"]
    options += ["--checkpoint-minutes", "0.01", "--device", "cpu", "--size", "32"]
    whole, torn = tmp_path / "whole" / "x", tmp_path / "torn" / "x"
    seconds = unbroken(["train", "operator", *options, "--out", whole])
    broken(["train", "operator", *options, "--out", torn], seconds, max(1, KILLS // 4), random.Random(3))
    weights = [next((out / "operator").glob("*.safetensors")).read_bytes() for out in (whole, torn)]
    assert weights[0] == weights[1]
    assert not [p for p in torn.rglob("*") if ".tmp" in p.name or p.name == ".lock"]


def test_tune(model: Path, photos: Path, tmp_path: Path) -> None:
    """Trials after a kill are others, but the start and the grid are tried, all of them, once each."""
    pytest.importorskip("optuna")
    study, out = tmp_path / "tune.db", tmp_path / "presets.json"
    words: list[Any] = [
        "tune",
        "--task",
        "sr4",
        "--data",
        photos,
        "--part",
        "all",
        "--images",
        "4",
        "--model",
        model,
    ]
    words += ["--metric", "psnr", "--only", "relaxation", "--grid", "relaxation=0.1,0.2,0.3", "--trials", "4"]
    words += ["--set", "steps=40", "--study", study, "-o", out, "--device", "cpu"]
    broken(words, 25.0, max(1, KILLS // 4), random.Random(4))
    import optuna

    (name,) = optuna.get_all_study_names(f"sqlite:///{study}")
    trials = optuna.load_study(study_name=name, storage=f"sqlite:///{study}").trials
    ended = [t for t in trials if t.state.name in ("COMPLETE", "PRUNED")]
    assert sum("start" in t.user_attrs for t in ended) == 1
    tried = [t.params["relaxation"] for t in ended]
    assert all(tried.count(value) >= 1 for value in (0.1, 0.2, 0.3))
    assert out.is_file()
