"""The command line, on a tiny model with random weights: files in, files out, and what happens when something
is wrong.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from paseo.apps.cli.main import app
from paseo.errors import BadInput
from paseo.recipe import FEATHER

TASKS = ("sr4", "blur", "inpaint")


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder of the embedded kind: real networks, random weights, 32-pixel images."""
    from paseo.codecs.net import AutoencoderNet
    from paseo.files import write_json
    from paseo.operators.config import OperatorConfig
    from paseo.operators.net import OperatorNet
    from paseo.operators.store import save_operator
    from paseo.priors.net import FlowUNet
    from paseo.train.export import write_weights

    folder = tmp_path_factory.mktemp("models") / "tiny"
    torch.manual_seed(0)
    codec = AutoencoderNet(channels=4, widths=(8, 8, 16), encoder_blocks=(1, 1, 1), decoder_blocks=(1, 1, 1))
    prior = FlowUNet(channels=4, widths=(32, 32), blocks=1)
    write_weights(codec, folder / "codec.safetensors")
    write_weights(prior, folder / "prior.safetensors")
    config = {
        "name": "tiny",
        "latent_space": "tiny",
        "size": 32,
        "codec": codec.config,
        "prior": {"net": prior.config},
    }
    write_json(folder / "config.json", config)
    for task in TASKS:
        save_operator(OperatorNet(OperatorConfig(channels=4, degradation=task)), folder / "operators" / task)
    settings = {"steps": 4, "inner_steps": 1, "cg_budget": 1, "operator_noise": 0.3}
    write_json(
        folder / "presets.json", {task: {"paseo": {"class": "PASEO", "settings": settings}} for task in TASKS}
    )
    pictures(folder / "samples", "a.png", "b.png")
    return folder


def pictures(folder: Path, *names: str, size: tuple[int, int] = (32, 32)) -> Path:
    for i, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.random.default_rng(i).integers(0, 256, (*size, 3), dtype=np.uint8)).save(path)
    return folder


def run(*arguments: object, code: int = 0) -> Any:
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return result


def stored(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())


# ---- restore


def test_restore_writes_an_image_and_its_record(model: Path, tmp_path: Path) -> None:
    source = pictures(tmp_path, "small.png", size=(6, 9)) / "small.png"
    result = run("restore", source, "-o", tmp_path / "out", "--task", "sr4", "--model", model, "--seed", 7)
    with Image.open(tmp_path / "out" / "small.png") as image:
        assert image.size == (36, 24)
        assert json.loads(image.info["paseo"])["seed"] == 7
    assert result.stdout == f"{tmp_path / 'out' / 'small.png'}\n"
    assert "1 restored" in result.stderr
    record = stored(tmp_path / "out" / "small.json")
    assert record["nfe"] == 5
    assert record["seeds"] == [7]
    assert record["noise_unit"] == "unit"
    assert record["sampler"]["settings"]["steps"] == 4
    assert set(record["model"]["hashes"]) == {"codec", "prior"}
    assert len(record["operator"]["sha256"]) == 64
    assert record["versions"]["torch"].startswith("2.")


def test_several_draws_give_mean_and_spread(model: Path, tmp_path: Path) -> None:
    source = pictures(tmp_path, "x.png") / "x.png"
    run("restore", source, "-o", tmp_path / "out", "-t", "blur", "-m", model, "-n", 3, "--batch", 2)
    names = {p.name for p in (tmp_path / "out").iterdir()}
    assert names == {"x_s0.png", "x_s1.png", "x_s2.png", "x_mean.png", "x_std.png", "x.json"}
    draws = [np.array(Image.open(tmp_path / "out" / f"x_s{k}.png")).astype(float) for k in range(3)]
    mean = np.array(Image.open(tmp_path / "out" / "x_mean.png")).astype(float)
    assert np.abs(np.mean(draws, axis=0) - mean).max() <= 1  # each draw and the mean are rounded
    run("restore", source, "-o", tmp_path / "one", "-t", "blur", "-m", model, "--seed", 2)
    assert (
        np.abs(np.array(Image.open(tmp_path / "one" / "x.png")).astype(float) - draws[2]).max() <= 1
    )  # draw k has seed + k


def test_alone_or_in_a_folder_the_bytes_are_the_same(model: Path, tmp_path: Path) -> None:
    folder = pictures(tmp_path / "in", "a.png", "deep/b.png", "c.png")
    pictures(tmp_path / "in", "odd.png", size=(13, 21))
    run("restore", folder, "-o", tmp_path / "all", "-t", "blur", "-m", model)
    for name in ("a.png", "deep/b.png", "c.png", "odd.png"):
        run("restore", folder / name, "-o", tmp_path / "alone" / Path(name).parent, "-t", "blur", "-m", model)
        assert (tmp_path / "all" / name).read_bytes() == (tmp_path / "alone" / name).read_bytes()


def test_a_bad_file_is_reported_and_the_rest_go_on(model: Path, tmp_path: Path) -> None:
    folder = pictures(tmp_path / "in", "a.png", "z.png")
    (folder / "broken.png").write_bytes(b"no image")
    result = run("restore", folder, "-o", tmp_path / "out", "-t", "blur", "-m", model, "--json", "-", code=1)
    report = json.loads(result.stdout)
    assert report["summary"] == {"done": 2, "skipped": 0, "failed": 1}
    assert [r["status"] for r in report["results"]] == ["done", "failed", "done"]
    assert "broken.png: " in result.stderr
    assert "2 restored, 1 failed" in result.stderr
    assert not list((tmp_path / "out").glob("broken*"))


def test_skip_existing_goes_on_where_it_stopped(model: Path, tmp_path: Path) -> None:
    folder = pictures(tmp_path / "in", "a.png", "b.png")
    arguments = (
        "restore",
        folder,
        "-o",
        tmp_path / "out",
        "-t",
        "blur",
        "-m",
        model,
        "--skip-existing",
        "--json",
        tmp_path / "r.json",
    )
    run(*arguments)
    (tmp_path / "out" / "b.png").unlink()  # an incomplete result is made again
    run(*arguments)
    assert stored(tmp_path / "r.json")["summary"] == {"done": 1, "skipped": 1, "failed": 0}
    assert (tmp_path / "out" / "b.png").is_file()


def test_replay_gives_the_same_bytes(model: Path, tmp_path: Path) -> None:
    source = pictures(tmp_path, "x.png") / "x.png"
    run(
        "restore",
        source,
        "-o",
        tmp_path / "out",
        "-t",
        "sr4",
        "-m",
        model,
        "--degrade",
        "-n",
        2,
        "--seed",
        3,
        "--set",
        "steps=5",
    )
    result = run("restore", "--replay", tmp_path / "out" / "x.json", "-o", tmp_path / "again", "--json", "-")
    assert json.loads(result.stdout)["identical"] is True
    for name in ("x_s0.png", "x_s1.png", "x_measurement.png"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    assert stored(tmp_path / "again" / "x.json")["sampler"]["settings"]["steps"] == 5


def test_windows_are_typed_recorded_and_replayed(model: Path, tmp_path: Path) -> None:
    pictures(tmp_path, "x.png")
    source = tmp_path / "x.png"
    Image.open(source).resize((160, 96)).save(source)
    wanted = ["restore", source, "-t", "blur", "-m", model, "--windows", "12,2,1"]
    run(*wanted, "-o", tmp_path / "out")
    assert stored(tmp_path / "out" / "x.json")["windows"] == {"side": 12, "halo": 2, "blend": 1, "batch": 1}
    result = run("restore", "--replay", tmp_path / "out" / "x.json", "-o", tmp_path / "again", "--json", "-")
    assert json.loads(result.stdout)["identical"] is True
    run(*wanted[:-1], "off", "-o", tmp_path / "whole")
    assert stored(tmp_path / "whole" / "x.json")["windows"] is None
    for wrong in ("some", "8,8,8", "1,2,3,4,5", "-3"):
        assert "window" in run(*wanted[:-1], wrong, "-o", tmp_path / "no", code=2).stderr.lower()
    assert not (tmp_path / "no").exists()


def test_replay_refuses_another_image_and_other_weights(model: Path, tmp_path: Path) -> None:
    source = pictures(tmp_path, "x.png", "y.png") / "x.png"
    run("restore", source, "-o", tmp_path / "out", "-t", "blur", "-m", model)
    sidecar = tmp_path / "out" / "x.json"
    assert (
        "SHA-256 differs"
        in run("restore", tmp_path / "y.png", "--replay", sidecar, "-o", tmp_path / "z", code=2).stderr
    )
    record = stored(sidecar)
    record["model"]["hashes"]["prior"] = "0" * 64
    sidecar.write_text(json.dumps(record))
    assert "other weights" in run("restore", "--replay", sidecar, "-o", tmp_path / "z", code=2).stderr
    for bad in ("[]", "{}", "no json", json.dumps({**record, "schema_version": 99})):
        sidecar.write_text(bad)
        run("restore", "--replay", sidecar, "-o", tmp_path / "z", code=2)
    assert not (tmp_path / "z").exists()


def test_degrade_first_keeps_odd_sizes(model: Path, tmp_path: Path) -> None:
    source = pictures(tmp_path, "odd.png", size=(13, 21)) / "odd.png"
    run("restore", source, "-o", tmp_path / "out", "-t", "sr4", "-m", model, "--degrade")
    assert Image.open(tmp_path / "out" / "odd.png").size == (21, 13)
    assert Image.open(tmp_path / "out" / "odd_measurement.png").size == (6, 4)


def test_a_free_mask_and_known_pixels(model: Path, tmp_path: Path) -> None:
    source = pictures(tmp_path, "x.png") / "x.png"
    hole = Image.new("L", (32, 32))
    hole.paste(255, (8, 8, 20, 24))
    hole.save(tmp_path / "hole.png")
    run("restore", source, "-o", tmp_path / "out", "--mask", tmp_path / "hole.png", "-m", model)
    before, after = np.array(Image.open(source)), np.array(Image.open(tmp_path / "out" / "x.png"))
    near = Image.new("L", (32, 32))
    near.paste(255, (8 - FEATHER, 8 - FEATHER, 20 + FEATHER, 24 + FEATHER))
    seen = np.array(near) == 0  # further from the hole than what is blended
    assert np.array_equal(before[seen], after[seen])
    assert not np.array_equal(before[~seen], after[~seen])
    record = stored(tmp_path / "out" / "x.json")
    assert (record["task"], record["keep_known"]) == ("inpaint", True)
    assert record["sampler"]["settings"]["weight"] == "mask"
    assert record["operator"]["name"] == "identity on the seen cells"
    bare = ["-m", model, "--no-keep-known"]
    run("restore", source, "-o", tmp_path / "bare", "--mask", tmp_path / "hole.png", *bare)
    assert not np.array_equal(before[seen], np.array(Image.open(tmp_path / "bare" / "x.png"))[seen])
    box = Image.new("L", (32, 32))
    box.paste(255, (8, 8, 24, 24))
    box.save(tmp_path / "box.png")
    run("restore", source, "-o", tmp_path / "box", "--mask", tmp_path / "box.png", "-m", model)
    assert (
        stored(tmp_path / "box" / "x.json")["operator"]["name"] == "inpaint"
    )  # the learned one knows this box
    hole.resize((30, 32)).save(tmp_path / "small.png")
    assert (
        "Bring the mask"
        in run(
            "restore", source, "-o", tmp_path / "o2", "--mask", tmp_path / "small.png", "-m", model, code=1
        ).stderr
    )


def test_masks_by_name(model: Path, tmp_path: Path) -> None:
    folder = pictures(tmp_path / "in", "a.png", "sub/b.png")
    Image.new("L", (32, 32), 255).save(tmp_path / "all.png")
    (tmp_path / "masks" / "sub").mkdir(parents=True)
    Image.new("L", (32, 32), 0).save(tmp_path / "masks" / "sub" / "b.gif")
    result = run(
        "degrade", folder, "-o", tmp_path / "out", "--mask", tmp_path / "masks", "--sigma", 0, code=1
    )
    assert "a.png: there is no mask for it" in result.stderr
    assert np.array_equal(
        np.array(Image.open(tmp_path / "out" / "sub" / "b.png")),
        np.array(Image.open(folder / "sub" / "b.png")),
    )


def test_nothing_is_overwritten(model: Path, tmp_path: Path) -> None:
    folder = pictures(tmp_path / "in", "a.png", "b.png", "b.bmp")
    before = (folder / "a.png").read_bytes()
    result = run("restore", folder, "-o", folder, "-t", "blur", "-m", model, code=1)
    assert "would overwrite an input" in result.stderr
    assert (folder / "a.png").read_bytes() == before
    assert (
        "would both become b.png"
        in run("restore", folder, "-o", tmp_path / "out", "-t", "blur", "-m", model, code=1).stderr
    )
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "a.json").write_text('{"mine": 1}')
    assert (
        "no record of ours"
        in run("restore", folder / "a.png", "-o", tmp_path / "own", "-t", "blur", "-m", model, code=1).stderr
    )
    assert (tmp_path / "own" / "a.json").read_text() == '{"mine": 1}'


def test_output_below_the_input_is_not_restored_again(model: Path, tmp_path: Path) -> None:
    folder = pictures(tmp_path, "a.png")
    for _ in range(2):
        result = run("restore", folder, "-o", folder / "out", "-t", "blur", "-m", model, "--json", "-")
        assert json.loads(result.stdout)["summary"]["done"] == 1


def test_one_file_may_be_named(model: Path, tmp_path: Path) -> None:
    source = pictures(tmp_path, "x.png") / "x.png"
    run("restore", source, "-o", tmp_path / "named.png", "-t", "blur", "-m", model)
    assert (tmp_path / "named.png").is_file()
    assert (tmp_path / "named.json").is_file()
    assert (
        "Give a folder"
        in run("restore", source, source, "-o", tmp_path / "n.png", "-t", "blur", "-m", model, code=2).stderr
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "No input"),
        (["--task", "sr5"], "no task named 'sr5'"),
        (["--set", "relaxation=2"], "relaxation=2.0 cannot be used"),
        (["--set", "rho=1"], "has no setting 'rho'"),
        (["--set", "steps"], "not of the form field=value"),
        (["--set", "steps=many"], "steps=many is not"),
        (["--method", "magic"], "magic"),
        (["--model", "nowhere/at/all"], "nowhere/at/all"),
        (["--operator", "no/such/folder"], "no/such/folder"),
        (["--task", "sr4", "--mask", "m.png"], "belongs to the task inpaint"),
        (["--samples", "0"], "samples"),
        (["--sigma", "-1"], "sigma"),
        (["--nonsense"], "nonsense"),
    ],
)
def test_bad_usage_is_one_line_and_code_2(
    model: Path, tmp_path: Path, arguments: list[str], words: str
) -> None:
    source = [str(pictures(tmp_path, "x.png") / "x.png")] if words != "No input" else []
    base = [] if "--model" in arguments else ["--model", str(model)]
    task = [] if "--task" in arguments else ["--task", "blur"]
    result = run("restore", *source, "-o", tmp_path / "out", *base, *task, *arguments, code=2)
    assert words in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "out").exists() or not any((tmp_path / "out").iterdir())
    if "Usage" not in result.stderr:
        assert len([line for line in result.stderr.splitlines() if line.startswith("paseo: ")]) == 1


# ---- degrade


def test_degrade_is_reproducible_and_independent_of_company(tmp_path: Path) -> None:
    folder = pictures(tmp_path / "in", "a.png", "b.png")
    run("degrade", folder, "-o", tmp_path / "all", "-t", "sr4", "--seed", 5)
    run("degrade", folder / "b.png", "-o", tmp_path / "alone", "-t", "sr4", "--seed", 5)
    run("degrade", folder / "b.png", "-o", tmp_path / "other", "-t", "sr4", "--seed", 6)
    assert (tmp_path / "all" / "b.png").read_bytes() == (tmp_path / "alone" / "b.png").read_bytes()
    assert (tmp_path / "all" / "b.png").read_bytes() != (tmp_path / "other" / "b.png").read_bytes()
    assert Image.open(tmp_path / "all" / "b.png").size == (8, 8)
    record = stored(tmp_path / "all" / "b.json")
    assert record["sigma_y"] == 0.01
    assert record["noise_unit"] == "unit"
    run("degrade", folder / "b.png", "-o", tmp_path / "lifted", "-t", "sr4", "--lift")
    assert Image.open(tmp_path / "lifted" / "b.png").size == (32, 32)


def test_degrade_noise_has_the_stated_level(tmp_path: Path) -> None:
    """Grey 0.5 plus σ = 0.05: the standard deviation of 3·64² values is known to 0.6 %."""
    Image.new("RGB", (64, 64), (128, 128, 128)).save(tmp_path / "grey.png")
    run("degrade", tmp_path / "grey.png", "-o", tmp_path / "out", "-t", "blur", "--sigma", 0.05)
    values = np.array(Image.open(tmp_path / "out" / "grey.png")) / 255
    assert abs(values.std() / 0.05 - 1) < 4 * 0.0064


# ---- other verbs


def test_check_operator(model: Path, tmp_path: Path) -> None:
    result = run(
        "check-operator", "sr4", "-m", model, "--count", 1, "--directions", 1, "--json", tmp_path / "c.json"
    )
    assert "cosine" in result.stdout
    row = stored(tmp_path / "c.json")["results"][0]["rows"][0]
    assert row["mean"]["adjoint_error"] < 1e-5


def test_demo_on_a_model_with_samples(model: Path, tmp_path: Path) -> None:
    arguments = ("--images", 2, "--draws", 2, "--tasks", "sr4,inpaint", "--json", tmp_path / "d.json")
    result = run("demo", "-m", model, "-o", tmp_path / "out", *arguments)
    rows = stored(tmp_path / "d.json")["rows"]
    assert set(rows[0]) == {"model", "task", "method", "image", "seed", "psnr", "lpips", "nfe", "seconds"}
    assert len(rows) == 2 * (2 + 2 * 2)
    assert {r["method"] for r in rows} == {"measurement", "paseo"}
    assert {r["nfe"] for r in rows if r["method"] == "paseo"} == {5}
    assert "measurement" in result.stdout
    assert Image.open(tmp_path / "out" / "demo.png").width > 5 * 32


@pytest.mark.slow
def test_demo_without_a_model_shows_the_exact_restoration(tmp_path: Path) -> None:
    result = run("demo", "--exact", "-o", tmp_path, "--json", "-")
    report = json.loads(result.stdout)
    mean = {
        (t, m): np.mean([r["psnr"] for r in report["rows"] if (r["task"], r["method"]) == (t, m)])
        for t in ("holes", "blur")
        for m in ("paseo", "exact mean")
    }
    for task in ("holes", "blur"):  # a draw has twice the squared error of the posterior mean: 3 dB less
        assert mean[task, "exact mean"] - 4 < mean[task, "paseo"] < mean[task, "exact mean"] - 2
    assert abs(report["spread"]["holes"] - 1) < 0.05


def test_models_and_methods() -> None:
    names = {row["name"] for row in json.loads(run("methods", "--json", "-").stdout)}
    assert {"paseo", "silo", "psld", "ding"} <= names
    assert isinstance(json.loads(run("models", "--json", "-").stdout), list)
    assert "no embedded model named 'x'" in run("models", "x", code=2).stderr


def test_reproduce_lists_and_refuses(tmp_path: Path) -> None:
    assert "tractable" in run("reproduce").stdout
    assert "no experiment 'nothing'" in run("reproduce", "nothing", code=2).stderr
    assert "field=value" in run("reproduce", "tractable", "--set", "draws", code=2).stderr


def test_doctor_says_what_it_finds() -> None:
    report = json.loads(CliRunner().invoke(app, ["doctor", "--json", "-"]).stdout)
    assert {"versions", "threads", "device", "memory"} <= {c["name"] for c in report["checks"]} | set(report)


def test_python_m_paseo_is_paseo() -> None:
    """One real process: the version, and a one-line error with exit code 2."""
    good = subprocess.run(
        [sys.executable, "-m", "paseo", "--version"], capture_output=True, text=True, check=True
    )
    assert good.stdout.strip().count(".") == 2
    bad = subprocess.run(
        [sys.executable, "-m", "paseo", "restore", "/no/such.png", "-t", "nothing"],
        capture_output=True,
        text=True,
    )
    assert bad.returncode == 2
    assert bad.stderr.startswith("paseo: There is no task named 'nothing'")
    assert len(bad.stderr.splitlines()) == 1


def test_traceback_on_request(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["--traceback", "restore", "-t", "nothing", str(tmp_path)])
    assert isinstance(result.exception, BadInput)
