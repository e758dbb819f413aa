"""Lean operators: kept settings name the one they go with, every door takes it, and nothing else changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from paseo.degrade import tasks
from paseo.lab.bench.config import load_config
from paseo.lab.bench.plan import make_plan, write
from paseo.lab.bench.run import run
from paseo.models import LEAN, load_model, stored_operator
from paseo.operators.net import OperatorNet
from paseo.operators.store import operator_config
from paseo.recipe import Recipe, Request, resolve
from paseo.recipe.load import load_operator_of
from paseo.samplers import PASEO

NAMES = [task.name for task in tasks()]


def chosen(**request: object) -> str:
    return resolve(Request(model="faces-128", **request)).operator.name


@pytest.mark.parametrize("task", NAMES)
def test_the_default_method_takes_the_lean_operator_of_the_task(task: str) -> None:
    recipe = resolve(Request(model="faces-128", task=task))
    assert recipe.operator.name == f"{task}/{LEAN}"
    loaded = load_operator_of(recipe, load_model("faces-128"))
    assert isinstance(loaded.operator, OperatorNet)
    assert loaded.operator.spec.pooled
    full = stored_operator("faces-128", task)
    assert full is not None
    assert operator_config(full).degradation == loaded.operator.spec.degradation == task
    lean = stored_operator("faces-128", recipe.operator.name)
    assert lean is not None
    assert (lean / "SHA256SUMS").read_text().split()[0] == loaded.sha256


def test_everything_else_keeps_the_paper_s_network() -> None:
    """Baselines, Algorithm 2 as printed, and a sampler of one's own."""
    assert chosen(task="sr4", method="silo") == ""
    assert chosen(task="sr4", label="paseo-paper") == ""
    assert chosen(task="sr4", sampler=PASEO(steps=4)) == ""


def test_a_lean_operator_stands_for_its_own_degradation_alone() -> None:
    assert chosen(task="jpeg:10") == f"jpeg/{LEAN}"
    assert chosen(task="jpeg:35") == "family"


def test_a_record_names_it() -> None:
    recipe = resolve(Request(model="faces-128", task="blur"))
    record = recipe.to_record()
    assert record["operator"]["name"] == f"blur/{LEAN}"
    assert Recipe.from_record(record).operator == recipe.operator


@pytest.mark.parametrize("name", ["sr4/../../..", "lean", "sr4/lean/lean", "../faces-128/operators/sr4"])
def test_no_other_path_is_an_operator(name: str) -> None:
    assert load_model("faces-128").operator_folder(name) is None


def test_a_benchmark_gives_each_method_the_operator_it_was_planned_with(tmp_path: Path) -> None:
    """PASEO its lean one, all others the paper's, in one process."""
    (tmp_path / "run.yaml").write_text(
        "{name: both, model: faces-128, data: {path: samples}, tasks: [sr4], metrics: [psnr], "
        "features: false, methods: [{name: paseo, budget: 5, count: 1}, {name: silo, budget: 3, count: 1}, "
        "{name: paseo, label: paseo-dagger, preset: paseo-dagger, budget: 5, count: 1}]}"
    )
    made = make_plan(load_config(tmp_path / "run.yaml"))
    write(made, tmp_path / "run")
    operators = {cell.method: cell.hashes["operator_diffusion_pytorch_model"] for cell in made.cells}
    assert operators["paseo"] != operators["silo"] == operators["paseo-dagger"]
    outcome = run(tmp_path / "run")
    assert (outcome.done, outcome.failed) == (3, 0)
