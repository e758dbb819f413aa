"""Results belong to the whole model: planning another one into the same folder reuses nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

from tiny_model import make_pictures

from paseo.lab.bench.cells import CellStore
from paseo.lab.bench.config import parse_config
from paseo.lab.bench.plan import BenchPlan, make_plan, write
from paseo.lab.bench.run import run
from paseo.models import load_model
from paseo.operators.config import OperatorConfig
from paseo.operators.net import OperatorNet
from paseo.operators.store import save_operator
from paseo.testing import tiny_pipeline


def two_models(folder: Path) -> tuple[Path, Path]:
    """They share everything, autoencoder included, but for the weights of the denoiser."""
    one, two = folder / "one" / "model", folder / "two" / "model"
    tiny_pipeline("sd", seed=0).save_pretrained(one)
    shutil.copytree(one, two)
    tiny_pipeline("sd", seed=1).unet.save_pretrained(two / "unet")
    save_operator(OperatorNet(OperatorConfig(4, "", "", "sr4")), folder / "operator")
    return one, two


def planned(model: Path, folder: Path, **options: object) -> BenchPlan:
    values = {
        "model": str(model),
        "model_options": options,
        "data": {"path": str(folder / "photos"), "size": 64},
        "tasks": ["sr4"],
        "operators": {"sr4": str(folder / "operator")},
        "methods": [{"name": "paseo", "settings": {"steps": 3, "inner_steps": 1, "cg_budget": 1}}],
        "metrics": ["psnr"],
        "features": False,
    }
    return make_plan(parse_config(values))


def test_another_denoiser_is_another_model(tmp_path: Path) -> None:
    one, two = two_models(tmp_path)
    make_pictures(tmp_path / "photos", 1, side=64)
    first, second = load_model(str(one)), load_model(str(two))
    assert first.hashes == second.hashes  # the autoencoder alone
    differs = {name for name in first.identity if first.identity[name] != second.identity[name]}
    assert differs == {"unet"}

    plan = planned(one, tmp_path)
    write(plan, tmp_path / "run")
    assert run(tmp_path / "run").done == len(plan.cells) == 1
    store = CellStore(tmp_path / "run")
    assert planned(one, tmp_path).summary(store)["done"] == 1
    assert planned(two, tmp_path).summary(store)["done"] == 0
    assert planned(one, tmp_path, prompt="a cat").summary(store)["done"] == 0
    assert planned(one, tmp_path, guidance=2.0).summary(store)["done"] == 0
    assert plan.cells[0].options["guidance"] == 1.0  # of the kept settings, as in `paseo restore`
