"""Damaged files of every kind: each is used as it is or refused with an error of ours, and nothing damaged
is accepted
that a sum, a shape or a value gives away. `PASEO_ATTACK=10000` makes as many cases of each kind.
"""

from __future__ import annotations

import io
import json
import math
import random
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from mutate import CASES, STRANGE, damage, damaged_bytes, damaged_json, damaged_value, replaced
from PIL import Image
from tiny_model import make_model, make_pictures

from paseo.errors import BadInput, PaseoError
from paseo.images import read
from paseo.models import ROOT, load_model
from paseo.record import load_record, sampler_from_record
from paseo.weights import header

HANG = 60  # seconds


@contextmanager
def no_hang() -> Iterator[None]:
    def late(number: int, frame: Any) -> None:
        raise AssertionError(f"longer than {HANG} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(HANG)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def attack(case: Callable[[random.Random], Any], count: int = CASES) -> int:
    """Run seeded cases; a PaseoError is a good answer, and so is none. Returns how many were refused."""
    refused = 0
    for seed in range(count):
        try:
            with no_hang():
                case(random.Random(seed))
        except PaseoError as error:
            refused += bool(str(error).strip())
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
    return refused


# ---- folders


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("model") / "tiny")


def test_model_folders(model: Path) -> None:
    files = [model / name for name in ("config.json", "codec.safetensors", "prior.safetensors")]

    def case(rng: random.Random) -> None:
        path = rng.choice(files)
        data = damage(path, rng)
        same = data == path.read_bytes()
        with replaced(path, data):
            load_model(model)
        assert path.suffix == ".json" or same, (
            "damaged weights were accepted although config.json has their sum"
        )

    assert attack(case) > CASES // 2


def test_model_folders_without_sums(model: Path) -> None:
    config = model / "config.json"
    values = json.loads(config.read_text())

    def case(rng: random.Random) -> None:
        path = model / rng.choice(("codec.safetensors", "prior.safetensors"))
        with (
            replaced(config, json.dumps({**values, "sha256": {}}).encode()),
            replaced(path, damage(path, rng)),
        ):
            loaded = load_model(model)
        for part in (loaded.prior, loaded.codec):
            assert isinstance(part, torch.nn.Module)
            assert all(torch.isfinite(v).all() for v in part.state_dict().values())

    assert attack(case) > CASES // 2


def test_operator_folders(model: Path) -> None:
    from paseo.operators.store import load_operator, operator_config

    folder = model / "operators" / "sr4"
    files = sorted(folder.iterdir())

    def case(rng: random.Random) -> None:
        path = rng.choice(files)
        data = damage(path, rng)
        if path.suffix == ".safetensors" and data is not None:
            with replaced(path, data), pytest.raises(PaseoError):
                load_operator(folder)
            return
        with replaced(path, data):
            operator_config(folder)
            load_operator(folder)

    attack(case)


def test_operator_weights_without_sums(model: Path) -> None:
    from paseo.operators.store import SUMS, WEIGHTS, load_operator

    folder = model / "operators" / "sr4"

    def case(rng: random.Random) -> None:
        with replaced(folder / SUMS, None), replaced(folder / WEIGHTS, damage(folder / WEIGHTS, rng)):
            net = load_operator(folder)
        assert all(torch.isfinite(v).all() for v in net.state_dict().values())

    attack(case)


def test_diffusers_folders(tiny_folder: Any, tmp_path: Path) -> None:
    import shutil

    from paseo.hub.pretrained import load_diffusers_model

    folder = tmp_path / "sd"
    shutil.copytree(tiny_folder("sd"), folder)
    small = [p for p in folder.rglob("*.json") if p.stat().st_size < 100_000]
    files = [*small, *folder.rglob("*.safetensors")]

    def case(rng: random.Random) -> None:
        path = rng.choice(files)
        with replaced(path, damage(path, rng)):
            loaded = load_diffusers_model(folder, device="cpu")
            prior: Any = loaded.prior
            if path.parent.name == "unet":
                assert all(torch.isfinite(v).all() for v in prior.parts.network.state_dict().values())
            elif path.parent.name in ("text_encoder", "tokenizer"):
                prior.parts.load(path.parent.name, torch.float32)

    attack(case)


def test_tables_of_contents(tmp_path: Path, model: Path) -> None:
    path = tmp_path / "x.safetensors"
    data = (model / "codec.safetensors").read_bytes()
    path.write_bytes(data)
    size = len(data)

    def case(rng: random.Random) -> None:
        path.write_bytes(damage_of(data, rng))
        for entry in header(path).values():
            assert 0 <= entry.start <= entry.end <= size + 1000

    def damage_of(data: bytes, rng: random.Random) -> bytes:
        head = 8 + int.from_bytes(data[:8], "little")
        if rng.random() < 0.5:
            raw = damaged_json(data[8:head], rng)
            return len(raw).to_bytes(8, "little") + raw + data[head:]
        return damaged_bytes(data, rng)

    attack(case)


# ---- records, settings, benchmark files


@pytest.fixture(scope="module")
def record(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from typer.testing import CliRunner

    from paseo.apps.cli.main import app

    folder = tmp_path_factory.mktemp("record")
    picture = sorted(make_pictures(folder / "in", 1).iterdir())[0]
    words = [
        "restore",
        picture,
        "-o",
        folder / "out",
        "-m",
        model,
        "-t",
        "sr4",
        "--degrade",
        "--set",
        "steps=3",
    ]
    result = CliRunner().invoke(app, [str(w) for w in words])
    assert result.exit_code == 0, result.output
    return folder / "out" / "000.json"


def test_records(record: Path, tmp_path: Path) -> None:
    from paseo.apps.cli.replay import recorded

    data = record.read_bytes()

    def case(rng: random.Random) -> None:
        with replaced(record, damaged_json(data, rng)):
            recorded(record, [], tmp_path)

    assert attack(case) > CASES // 2


def test_samplers_of_records(record: Path) -> None:
    from paseo.samplers import METHODS

    known = {m.cls.__name__: m.cls for m in METHODS.values()}
    entry = load_record(record)["sampler"]

    def case(rng: random.Random) -> None:
        changed = damaged_value(entry, rng)
        if isinstance(changed, dict):
            sampler_from_record(changed, known)

    attack(case)


def test_settings() -> None:
    from paseo.samplers import METHODS
    from paseo.settings.parse import with_settings

    texts = [str(v) for v in STRANGE] + [
        "inf",
        "-inf",
        "nan",
        "1e400",
        "1_000",
        "٣",
        "0x10",
        "1,2,3",
        ",",
        "none",
        "True",
    ]

    def case(rng: random.Random) -> None:
        sampler = rng.choice(list(METHODS.values())).default
        name = rng.choice([*sampler.__dataclass_fields__, "", "x", "__class__"])
        with_settings(sampler, [f"{name}={rng.choice(texts)}"])

    assert attack(case) > CASES // 2


BENCH = """
model: faces-128
data: {path: samples, part: all, count: 2}
tasks: [sr4, inpaint]
methods:
  - paseo
  - {name: silo, budget: 53, count: 2, settings: {scale: 1.0}}
  - {name: paseo, label: one, settings: {cg_budget: 1}, per_task: {sr4: {steps: 10}}}
seeds: [0, 1]
"""


def test_benchmark_files(tmp_path: Path) -> None:
    import yaml

    from paseo.lab.bench.config import load_config

    path, values = tmp_path / "bench.yaml", yaml.safe_load(BENCH)

    def case(rng: random.Random) -> None:
        if rng.random() < 0.6:
            data = json.dumps(damaged_value(values, rng)).encode()  # JSON is YAML
        else:
            data = damaged_bytes(BENCH.encode(), rng)
        path.write_bytes(data)
        config = load_config(path)
        config.to_yaml()

    assert attack(case) > CASES // 2


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]",
        "[" * 50_000,
        "a: " * 50_000,
        "? [a, b]\n: c",
        "? {a: b}\n: c",
        "2024-99-99: x",
        "tasks: 2024-13-45",
        "!!python/object/apply:os.system [x]",
        "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"),
        "a: .inf",
        "seeds: [1e400]",
        "seeds: [" + "9" * 5000 + "]",
    ],
)
def test_benchmark_files_of_malice(text: str, tmp_path: Path) -> None:
    from paseo.lab.bench.config import load_config

    path = tmp_path / "bench.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with no_hang(), pytest.raises(PaseoError):
        load_config(path)


def test_presets(tmp_path: Path) -> None:
    from paseo.settings.presets import presets

    data = (ROOT / "faces-128" / "presets.json").read_bytes()
    small = json.dumps({"sr4": json.loads(data)["sr4"]}).encode()
    path = tmp_path / "presets.json"

    def case(rng: random.Random) -> None:
        path.write_bytes(damaged_json(small, rng))
        presets(str(tmp_path))

    attack(case)


# ---- checkpoints and studies


def test_checkpoints(tmp_path: Path) -> None:
    from toy_training import settings as loop_settings
    from toy_training import train

    from paseo.train.state import CHECKPOINT, load_checkpoint

    train(tmp_path, 4)
    del loop_settings
    path = tmp_path / CHECKPOINT

    def case(rng: random.Random) -> None:
        from toy_training import Toy

        from paseo.train.state import Ema

        net = Toy().net
        ema, optimizer = Ema(net, 0.9), torch.optim.AdamW(net.parameters())
        before = {k: v.clone() for k, v in net.state_dict().items()}
        try:
            with replaced(path, damage(path, rng)):
                meta = load_checkpoint(tmp_path, net, ema, optimizer)
        except PaseoError:
            assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items()), "half-loaded"
            raise
        assert math.isfinite(meta["elapsed"])
        assert all(
            torch.isfinite(v).all() for v in (*net.state_dict().values(), *ema.net.state_dict().values())
        )

    assert attack(case) > CASES // 3


def test_studies(tmp_path: Path) -> None:
    optuna = pytest.importorskip("optuna")
    from paseo.lab.tune.study import open_storage

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    path = tmp_path / "study.db"
    study = optuna.create_study(storage=open_storage(path), study_name="s")
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=2)
    data = path.read_bytes()

    def case(rng: random.Random) -> None:
        path.write_bytes(damaged_bytes(data, rng))
        for extra in tmp_path.glob("study.db-*"):
            extra.unlink()
        open_storage(path)

    assert attack(case) > 0
    path.write_bytes(b"not a database" * 100)
    with pytest.raises(BadInput, match="study"):
        open_storage(path)


def test_a_study_whose_writer_was_killed_is_rolled_back(tmp_path: Path) -> None:
    """kill -9 in the middle of a transaction: pages of it are in the file, the old ones in the journal."""
    optuna = pytest.importorskip("optuna")
    from paseo.lab.tune.study import open_storage

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    path, left = tmp_path / "study.db", tmp_path / "left.db"
    optuna.create_study(storage=open_storage(path), study_name="s")
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("pragma cache_size = 1")  # so that pages reach the file before the end
    writer.execute("begin")
    writer.execute("update studies set study_name = 'half'")
    writer.execute("create table more (text)")
    for _ in range(200):
        writer.execute("insert into more values (hex(randomblob(1000)))")
    left.write_bytes(path.read_bytes())
    (tmp_path / "left.db-journal").write_bytes((tmp_path / "study.db-journal").read_bytes())
    writer.close()
    assert [study.study_name for study in open_storage(left).get_all_studies()] == ["s"]
    path.unlink()
    sqlite3.connect(path).execute("create table studies (x)").connection.commit()
    with pytest.raises(BadInput, match="study"):
        open_storage(path)


# ---- images


def test_images(tmp_path: Path) -> None:
    image = Image.radial_gradient("L").resize((24, 24)).convert("RGB")
    made: list[bytes] = []
    for kind in ("PNG", "JPEG", "WEBP", "TIFF", "BMP", "GIF"):
        buffer = io.BytesIO()
        image.save(buffer, format=kind)
        made.append(buffer.getvalue())
    path = tmp_path / "a.png"

    def case(rng: random.Random) -> None:
        path.write_bytes(damaged_bytes(rng.choice(made), rng))
        picture = read(path)
        assert torch.isfinite(picture.rgb).all()

    assert attack(case) > CASES // 4


@settings(max_examples=CASES)
@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text() | st.integers(),
        lambda x: st.lists(x) | st.dictionaries(st.text(), x),
    )
)
def test_json_of_any_kind(value: Any) -> None:
    """What `bounded_json` gives back can be written and read again; everything else is a ValueError."""
    from paseo.files import bounded_json

    try:
        found = bounded_json(json.dumps(value).encode())
    except ValueError:
        return
    assert bounded_json(
        json.dumps(found, ensure_ascii=False, allow_nan=True).encode()
    ) == found or "Infinity" in json.dumps(found)
