"""Damaged files and strange words through the whole command line: whatever comes, there is no traceback, no
picture without the record that names it, and nothing half-written.
"""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from mutate import CASES, STRANGE, damage, damaged_bytes, damaged_json, damaged_value, replaced
from PIL import Image, ImageCms
from tiny_model import make_model, make_pictures
from typer.testing import CliRunner

from paseo.apps.cli.main import app

FEW = max(10, CASES // 20)  # a command costs more than a function
STEPS = ("--set", "steps=3")
Case = Callable[[random.Random], None]


def command(*words: Any, good: tuple[int, ...] = (0, 1, 2)) -> int:
    """The exit code; anything but an exit is a defect."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code in good, result.output
    assert "Traceback" not in result.output
    return result.exit_code


def check(out: Path) -> None:
    """Every picture is named by a record, every record's pictures are there, nothing else is left."""
    records = [json.loads(path.read_text()) | {"at": path.parent} for path in out.rglob("*.json")]
    named = {record["at"] / entry["file"] for record in records for entry in record["outputs"]}
    found = {path for path in out.rglob("*") if path.suffix in (".png", ".jpg", ".webp", ".tif")}
    assert named == found
    assert not list(out.rglob(".*"))
    shutil.rmtree(out, ignore_errors=True)


def attack(case: Case, count: int = FEW) -> None:
    for seed in range(count):
        try:
            case(random.Random(seed))
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture(scope="module")
def picture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_pictures(tmp_path_factory.mktemp("in"), 2) / "000.png"


# ---- what is typed


NUMBERS = [str(v) for v in STRANGE if isinstance(v, int | float)]
NUMBERS += ["inf", "-inf", "nan", "1e400", "9" * 5000, "٣", "x", "", "1,2"]
TASKS = [f"{name}:{value}" for name in ("sr", "blur", "jpeg", "noise", "motion") for value in NUMBERS]
TASKS += ["sr4", "auto", "x", ":", ",,", "os:system", "motion:5@nan", "a" * 9999, ",".join(["blur:1"] * 50)]
WORDS = {
    "--task": TASKS,
    **dict.fromkeys(("--sigma", "--seed", "--samples", "--batch", "--guidance"), NUMBERS),
    "--shard": ["0/2", "1/2", "2/2", "-1/2", "0/0", "x", "0/" + "9" * 5000, "٣/٤"],
    "--operator": ["chain", "x", "/", "", "..", "os:system", "a@b@c/d", "~nobody/x"],
    "--model": ["x", "/", "", "..", "a/b@c", "~nobody/x", "~", "a" * 5000, "@", "org/na me"],
    "--preset": ["x", "ffhq/sd35", "/", "", "../x"],
    "--method": ["silo", "x", "", "os:system"],
    "--mask": ["/", "x", "", "/dev/null", "/dev/zero"],
    "--device": ["cpu", "x", "meta", "", "cpu:9"],
    "--dtype": ["bf16", "x", ""],
    "--replay": ["x", "/", "/dev/null"],
    "--json": ["-", "/", "/proc/x"],
    "--out": ["/proc/x", "/dev/null", "b" * 300, "o\nx", "x\0y"],
}


def test_words(model: Path, picture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def case(rng: random.Random) -> None:
        words: list[Any] = ["restore", picture, "-o", "out", "-m", model, "-t", "sr4", *STEPS]
        for _ in range(rng.choice((1, 1, 2, 3))):
            name = rng.choice(list(WORDS))
            words += [name, rng.choice(WORDS[name])]
        command(*words)
        check(tmp_path / "out")

    attack(case, 2 * FEW)


def test_settings(model: Path, picture: Path, tmp_path: Path) -> None:
    from paseo.samplers import METHODS

    def case(rng: random.Random) -> None:
        method = rng.choice(list(METHODS))
        names = list(METHODS[method].default.__dataclass_fields__)
        few = STEPS if "steps" in names else ()
        words = [
            "restore",
            picture,
            "-o",
            tmp_path / "out",
            "-m",
            model,
            "-t",
            rng.choice(("sr4", "inpaint")),
        ]
        value = rng.choice([*NUMBERS, "0", "1", "2", "0.1", "true", "none", "1e-30", "1e30"])
        command(*words, "--degrade", "--method", method, *few, "--set", f"{rng.choice(names)}={value}")
        check(tmp_path / "out")

    attack(case)


# ---- files


def pictures() -> list[bytes]:
    """Every mode and format, several frames, EXIF, colour profiles, odd sizes."""
    grey = Image.radial_gradient("L").resize((24, 24))
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB")).tobytes()
    exif = Image.Exif()
    exif[0x0112], exif[0x010E] = 6, "x" * 1000
    rgb, made = grey.convert("RGB"), []

    def add(image: Image.Image, kind: str, **options: Any) -> None:
        buffer = io.BytesIO()
        try:
            image.save(buffer, format=kind, **options)
        except (OSError, KeyError, ValueError):  # this format does not know this mode
            return
        made.append(buffer.getvalue())

    for kind in ("PNG", "JPEG", "WEBP", "TIFF", "BMP", "GIF", "PPM"):
        for mode in ("RGB", "L", "RGBA", "P", "CMYK", "1", "LA", "I;16", "F", "LAB"):
            add(grey.convert(mode), kind)
        add(rgb, kind, exif=exif)
        add(rgb, kind, icc_profile=profile)
        add(rgb, kind, save_all=True, append_images=[rgb.rotate(9)])
    for size in ((1, 1), (1, 24), (24, 1), (5, 7)):
        add(rgb.resize(size), "PNG")
    return made


def test_folders_of_pictures(model: Path, tmp_path: Path) -> None:
    """Twenty at a time, most of them damaged: all are accounted for, and none ends the run."""
    made, folder, told = pictures(), tmp_path / "in", tmp_path / "told.json"

    def case(rng: random.Random) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for i in range(20):
            data = rng.choice(made)
            name = f"{i}{rng.choice(('.png', '.jpg', '.tif', '.gif'))}"
            (folder / name).write_bytes(damaged_bytes(data, rng) if rng.random() < 0.8 else data)
        words = ["restore", folder, "-o", tmp_path / "out", "-m", model, *STEPS, "--json", told]
        words += rng.choice(
            (["-t", "sr4"], ["-t", "jpeg", "--batch", "auto"], ["-t", "auto"], ["-t", "sr4", "-n", 2])
        )
        command(*words, good=(0, 1))
        results = json.loads(told.read_text())["results"]
        assert len(results) == 20
        assert not [r for r in results if "Error:" in r.get("error", "")], "an error that is not ours"
        (tmp_path / "out" / "failures.jsonl").unlink(missing_ok=True)
        check(tmp_path / "out")

    attack(case, max(1, FEW // 10))


def test_strange_names(model: Path, picture: Path, tmp_path: Path) -> None:
    """Names that no record can hold, that are too long, or that two pictures would share fail at once."""
    folder, told = tmp_path / "in", tmp_path / "told.json"
    folder.mkdir()
    bad = ["b\udcff.png", "x" * 240 + ".png", "a_measurement.png"]
    good = ["a.png", "new\nline.png", "-o.png", "a?*[b].png", "ü→.png", "tab\t.png"]
    for name in (*bad, *good):
        shutil.copy(picture, os.fsencode(folder / name))
    (folder / "loop.png").symlink_to("loop.png")
    (folder / "nowhere.png").symlink_to(tmp_path / "absent")
    (folder / "self").symlink_to(folder)
    os.mkfifo(folder / "pipe.png")
    (folder / "folder.png").mkdir()
    words = ["restore", folder, "-o", tmp_path / "out", "-m", model, "-t", "sr4", "--degrade", *STEPS]
    assert command(*words, "--json", told) == 1
    results = {Path(r["input"]).name: r["status"] for r in json.loads(told.read_text())["results"]}
    assert results == dict.fromkeys(bad, "failed") | dict.fromkeys(good, "done")
    (tmp_path / "out" / "failures.jsonl").unlink()
    check(tmp_path / "out")
    assert command("restore", folder / "pipe.png", *words[2:]) == 1
    assert command("restore", "/dev/zero", *words[2:]) == 1


def test_lists_and_tars(model: Path, picture: Path, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        tar.add(picture, "a/b.png")
        tar.add(picture, "../c.png")
    made = {
        ".txt": f"{picture}\n".encode(),
        ".csv": f"path,x\n{picture},1\n".encode(),
        ".tar": buffer.getvalue(),
    }

    def case(rng: random.Random) -> None:
        ending = rng.choice(list(made))
        given = tmp_path / f"list{ending}"
        given.write_bytes(damaged_bytes(made[ending], rng))
        out = rng.choice((tmp_path / "out", tmp_path / "out.tar"))
        command("restore", given, "-o", out, "-m", model, "-t", "jpeg", *STEPS)
        (tmp_path / "out" / "failures.jsonl").unlink(missing_ok=True)
        check(tmp_path / "out")
        assert not (tmp_path / "c.png").exists()
        for part in tmp_path.glob("out*"):
            part.unlink()

    attack(case)


def test_replays_and_resumes(model: Path, picture: Path, tmp_path: Path) -> None:
    words = ["-m", model, "-t", "sr4", "--degrade", *STEPS]
    command("restore", picture, "-o", tmp_path / "first", *words, good=(0,))
    record = tmp_path / "first" / "000.json"

    def case(rng: random.Random) -> None:
        with replaced(record, damaged_json(record.read_bytes(), rng)):
            command("restore", "--replay", record, "-o", tmp_path / "again")
            shutil.copytree(record.parent, tmp_path / "resumed")
        check(tmp_path / "again")
        if command("restore", picture, "-o", tmp_path / "resumed", *words, "--skip-existing") == 0:
            check(tmp_path / "resumed")
        shutil.rmtree(tmp_path / "resumed", ignore_errors=True)

    attack(case)


def test_a_replay_asks_for_the_same_mask(model: Path, picture: Path, tmp_path: Path) -> None:
    mask, out = tmp_path / "mask.png", tmp_path / "first"
    hole = Image.new("L", (32, 32))
    hole.paste(255, (8, 8, 24, 14))
    hole.save(mask)
    command("restore", picture, "-o", out, "-m", model, "--mask", mask, *STEPS, good=(0,))
    command("restore", "--replay", out / "000.json", "-o", tmp_path / "again", good=(0,))
    hole.rotate(90).save(mask)
    command("restore", "--replay", out / "000.json", "-o", tmp_path / "other", good=(2,))
    assert not (tmp_path / "other").exists()


def test_model_and_operator_folders(model: Path, picture: Path, tmp_path: Path) -> None:
    files = [path for path in model.rglob("*") if path.is_file() and "operators/jpeg" not in str(path)]

    def case(rng: random.Random) -> None:
        path = rng.choice(files)
        operator = ["--operator", model / "operators" / "sr4"] if rng.random() < 0.5 else []
        data = damage(path, rng)
        with replaced(path, data):
            words = ["restore", picture, "-o", tmp_path / "out", "-m", model, "-t", "sr4", *operator]
            code = command(*words, "--degrade", *STEPS)
        assert code == 2 or path.suffix != ".safetensors" or "inpaint" in str(path), (
            "damaged weights accepted"
        )
        check(tmp_path / "out")

    attack(case)


BENCH: dict[str, Any] = {
    "tasks": ["sr4", "jpeg"],
    "methods": [{"name": "paseo", "settings": {"steps": 3}}, {"name": "silo", "budget": 9, "label": "s"}],
    "seeds": [0],
    "features": False,
    "metrics": ["psnr", "ssim"],
    "zoom": "detail",
}


def test_benchmarks(model: Path, picture: Path, tmp_path: Path) -> None:
    """A damaged file from the plan to the report; then every file of a finished run."""
    config, run = tmp_path / "bench.yaml", tmp_path / "run"
    values = BENCH | {"model": str(model), "data": {"path": str(picture.parent), "count": 1, "size": 32}}

    def planned(data: bytes) -> int:
        shutil.rmtree(run, ignore_errors=True)
        config.write_bytes(data)
        return command("bench", "plan", config, "-o", run)

    def case(rng: random.Random) -> None:
        data = json.dumps(damaged_value(values, rng)) if rng.random() < 0.7 else None
        raw = data.encode() if data else damaged_bytes(yaml.safe_dump(values).encode(), rng)
        if planned(raw) == 0 and len((run / "plan.jsonl").read_bytes().splitlines()) < 20:
            command("bench", "run", run)

    attack(case)
    assert planned(json.dumps(values).encode()) == 0
    command("bench", "run", run, good=(0,))
    command("bench", "report", run, good=(0,))
    files = [p for p in run.rglob("*") if p.suffix in (".json", ".jsonl", ".yaml", ".png", ".safetensors")]

    def torn(rng: random.Random) -> None:
        path = rng.choice([p for p in files if "report" not in p.parts])
        with replaced(path, damage(path, rng)):
            command("bench", "report", run)
            if rng.random() < 0.3:
                command("bench", "run", run)

    attack(torn)


def test_presets(model: Path, picture: Path, tmp_path: Path) -> None:
    from paseo.models import ROOT

    kept = json.loads((ROOT / "faces-128" / "presets.json").read_text())
    data = json.dumps({name: kept[name] for name in ("sr4", "jpeg")}).encode()

    def case(rng: random.Random) -> None:
        (tmp_path / "presets.json").write_bytes(damaged_json(data, rng))
        words = ["restore", picture, "-o", tmp_path / "out", "-m", model, "-t", "sr4", "--preset", tmp_path]
        command(*words, "--degrade", *STEPS)
        (tmp_path / "out" / "failures.jsonl").unlink(missing_ok=True)
        check(tmp_path / "out")

    attack(case)
