"""Kill -9 at random moments: started again until it ends, every verb leaves the bytes of an unbroken run,
and nothing else. Ray's workers die in test_ray.py and in tests/lab/test_bench_ray.py.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from forker import Runner
from tiny_model import make_model, make_pictures

pytestmark = pytest.mark.slow
VERBS = 8  # tests below
KILLS = max(1, int(os.environ.get("PASEO_KILLS", "8")) // VERBS + 1)  # of each
SPENT = {"seconds", "elapsed", "peak", "since"}  # what no two runs share


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_pictures(tmp_path_factory.mktemp("photos") / "in", 4)


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    made = Runner(tmp_path_factory.mktemp("told") / "stderr")
    yield made
    made.close()


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


def nothing_left(folder: Path) -> None:
    assert not [p for p in folder.rglob("*") if ".tmp" in p.name or p.name.endswith(".lock")]


def compare(runner: Runner, tmp_path: Path, make: Callable[[Path], list[Any]], seed: int) -> None:
    whole, torn = tmp_path / "whole" / "x", tmp_path / "torn" / "x"
    seconds = runner.unbroken(make(whole))

    def at_end() -> None:
        assert contents(torn) == contents(whole)
        nothing_left(torn)
        shutil.rmtree(torn)

    runner.broken(lambda: make(torn), seconds, KILLS, random.Random(seed), at_end)


def test_restore(runner: Runner, model: Path, photos: Path, tmp_path: Path) -> None:
    options = ["-m", model, "-t", "sr4", "--degrade", "--skip-existing", "--set", "steps=16"]
    compare(runner, tmp_path, lambda out: ["restore", photos, "-o", out, *options], 1)


def test_restore_in_passes(runner: Runner, model: Path, photos: Path, tmp_path: Path) -> None:
    """Which pictures share a pass does not depend on what is there already."""
    options = ["-m", model, "-t", "sr4", "--degrade", "--skip-existing", "--set", "steps=16", "--batch", "4"]
    compare(runner, tmp_path, lambda out: ["restore", photos, "-o", out, *options], 8)


def test_restore_into_tars(runner: Runner, model: Path, photos: Path, tmp_path: Path) -> None:
    """Every picture lies in the tars once, with the bytes of an unbroken run."""
    words = ["restore", photos, "-m", model, "-t", "sr4", "--degrade", "--set", "steps=16", "-o"]
    whole, torn = tmp_path / "whole", tmp_path / "torn"
    seconds = runner.unbroken([*words, whole / "out.tar"])

    def at_end() -> None:
        assert sorted(name for name, _ in packed(torn)) == sorted(name for name, _ in packed(whole))
        assert dict(packed(torn)) == dict(packed(whole))  # none lost, none twice
        shutil.rmtree(torn)

    runner.broken(lambda: [*words, torn / "out.tar"], seconds, KILLS, random.Random(9), at_end)


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


def test_degrade(runner: Runner, photos: Path, tmp_path: Path) -> None:
    compare(
        runner, tmp_path, lambda out: ["degrade", photos, "-o", out, "-t", "jpeg:30", "--skip-existing"], 5
    )


def planned(runner: Runner, model: Path, photos: Path, out: Path) -> Path:
    config = out.parent / "bench.yaml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(
        f"model: {model}\ndata: {{path: {photos}}}\ntasks: [sr4, jpeg]\n"
        f"methods: [{{name: paseo, settings: {{steps: 16}}}}]\n"
        "features: false\nmetrics: [psnr]\n"
    )
    if not out.exists():
        runner.unbroken(["bench", "plan", config, "-o", out])
    return out


def test_bench(runner: Runner, model: Path, photos: Path, tmp_path: Path) -> None:
    compare(runner, tmp_path, lambda out: ["bench", "run", planned(runner, model, photos, out)], 2)


def test_bench_in_shards(runner: Runner, model: Path, photos: Path, tmp_path: Path) -> None:
    """One shard is killed again and again while the other one works."""
    whole, torn = (planned(runner, model, photos, tmp_path / n / "x") for n in ("whole", "torn"))
    seconds = runner.unbroken(["bench", "run", whole])
    other = Runner(tmp_path / "stderr")

    def words() -> list[Any]:
        if not torn.exists():
            planned(runner, model, photos, torn)
            other.start(["bench", "run", torn, "--shard", "1/2"])
        return ["bench", "run", torn, "--shard", "0/2"]

    def at_end() -> None:
        assert other.ended() == 0, other.told.read_text()
        assert contents(torn) == contents(whole)
        nothing_left(torn)
        shutil.rmtree(torn)

    shutil.rmtree(torn)
    runner.broken(words, seconds / 2, KILLS, random.Random(6), at_end)
    other.close()


SIZES = ["--batch-size", 2, "--checkpoint-minutes", 0.005, "--device", "cpu", "--size", 32, "--quiet"]


@pytest.mark.parametrize(
    ("what", "options"),
    [
        ("operator", ["--task", "sr4", "--steps", 40]),
        ("prior", ["--steps", 40, "--widths", "32,32", "--blocks", 1]),
        ("codec", ["--steps", 12, "--lpips-weight", 0, "--channels", 4]),
    ],
)
def test_train(
    what: str, options: list[Any], runner: Runner, model: Path, photos: Path, tmp_path: Path
) -> None:
    given = ["train", what, *options, *SIZES, "--data", photos, "--split", "train=0-2,validation=3-3"]
    given += [] if what == "codec" else ["--model", model]
    whole, torn = tmp_path / "whole" / "x", tmp_path / "torn" / "x"
    seconds = runner.unbroken([*given, "--out", whole])

    def at_end() -> None:
        exported = [{p.name: p.read_bytes() for p in out.glob("*/*.safetensors")} for out in (whole, torn)]
        assert exported[0]
        assert exported[0] == exported[1]
        nothing_left(torn)
        shutil.rmtree(torn)

    runner.broken(lambda: [*given, "--out", torn], seconds, KILLS, random.Random(3), at_end)


def test_tune(runner: Runner, model: Path, photos: Path, tmp_path: Path) -> None:
    """Trials after a kill are others, but the start and the grid are tried, all of them, once each."""
    optuna = pytest.importorskip("optuna")
    study, out = tmp_path / "tune.db", tmp_path / "presets.json"
    words: list[Any] = ["tune", "--task", "sr4", "--data", photos, "--part", "all", "--images", 2]
    words += ["--model", model, "--metric", "psnr", "--only", "relaxation", "--trials", 4, "--device", "cpu"]
    words += ["--grid", "relaxation=0.2,0.3,0.4", "--set", "steps=16", "--study", study, "-o", out]
    seconds = runner.unbroken([*words[:-3], tmp_path / "other.db", "-o", tmp_path / "other.json"])

    def at_end() -> None:
        (name,) = optuna.get_all_study_names(f"sqlite:///{study}")
        trials = optuna.load_study(study_name=name, storage=f"sqlite:///{study}").trials
        ended = [t for t in trials if t.state.name in ("COMPLETE", "PRUNED")]
        assert sum("start" in t.user_attrs for t in ended) == 1
        tried = [t.params["relaxation"] for t in ended]
        assert [tried.count(value) for value in (0.2, 0.3, 0.4)] == [1, 1, 1]
        assert out.is_file()
        nothing_left(tmp_path)
        study.unlink()
        out.unlink()

    runner.broken(lambda: words, seconds, KILLS, random.Random(4), at_end)
