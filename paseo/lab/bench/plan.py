"""`paseo bench plan`: from a configuration to one line per cell, each with a key of everything its result
depends on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from paseo.errors import BadInput
from paseo.files import write_json, write_text
from paseo.lab.bench.cells import Cell, CellStore, write_plan
from paseo.lab.bench.config import BenchConfig, MethodSpec, load_config
from paseo.lab.bench.features import feature_names
from paseo.lab.bench.pictures import Truth, load_pictures
from paseo.lab.bench.scores import PROTOCOL
from paseo.lab.bench.setup import Setup
from paseo.record import sampler_record


@dataclass(frozen=True)
class BenchPlan:
    """The cells of a benchmark, and what cannot be one of them."""

    config: BenchConfig
    cells: tuple[Cell, ...]
    unsupported: dict[str, dict[str, str]]  # task → method → reason

    def summary(self, store: CellStore) -> dict[str, object]:
        done = sum(store.done(cell) for cell in self.cells)
        return {
            "cells": len(self.cells),
            "done": done,
            "unsupported": self.unsupported,
            "out": str(store.folder),
        }


def make_plan(config: BenchConfig) -> BenchPlan:
    """All cells, grouped by task and method; loads the model for its hashes and what each method can do."""
    pictures = pictures_of(config)
    cells: list[Cell] = []
    unsupported: dict[str, dict[str, str]] = {}
    for task in config.tasks:
        for spec in config.methods:
            if spec.tasks is not None and task not in spec.tasks:
                continue
            setup = setup_of(config, task, spec)
            if reason := setup.unsupported(setup.recipe.sampler, pictures[0]):
                unsupported.setdefault(task, {})[spec.label] = reason
                continue
            cells += _cells(config, setup, spec, pictures)
    _check_unique(cells)
    return BenchPlan(config, tuple(cells), unsupported)


def write(plan: BenchPlan, folder: Path) -> CellStore:
    """config.yaml, plan.jsonl and unsupported.json; results that are there already stay."""
    write_text(folder / "config.yaml", plan.config.to_yaml())
    write_json(folder / "unsupported.json", plan.unsupported)
    write_plan(folder, plan.cells)
    return CellStore(folder)


def config_of(folder: Path) -> BenchConfig:
    """The configuration a folder was planned with."""
    return load_config(folder / "config.yaml")


def pictures_of(config: BenchConfig) -> list[Truth]:
    """The images of a benchmark, in order."""
    d = config.data
    model = setup_of(config, config.tasks[0]).model
    path: Path = Path(d.path)
    if d.path == "samples":
        if model.folder is None or not (model.folder / "samples").is_dir():
            raise BadInput(
                f"The model {config.model} brings no sample images: give data.path a folder of images."
            )
        path = model.folder / "samples"
    return load_pictures(path, d.part, d.first, d.count, d.size or model.size, d.rule)


def setup_of(
    config: BenchConfig,
    task: str,
    spec: MethodSpec | None = None,
    options: Mapping[str, object] | None = None,
) -> Setup:
    """A task with a method's settings, changes and budget; `options` of the model replace the plan's."""
    c = config
    setup = Setup(
        c.model,
        task,
        c.sigma_y,
        c.operators.get(task),
        c.noise_seed,
        c.device,
        dict(c.options_of(task) if options is None else options),
        preset=c.preset_table,
    )
    if spec is None:
        return setup
    settings = {**spec.settings, **spec.per_task.get(task, {})}
    return replace(setup, method=spec.name, label=spec.preset, settings=settings, budget=spec.budget)


def _cells(config: BenchConfig, setup: Setup, spec: MethodSpec, pictures: Sequence[Truth]) -> Iterator[Cell]:
    chosen = pictures[: spec.count]
    batch = 1 if config.captioned(setup.task.name) else config.batch
    for seed in config.seeds:
        for start in range(0, len(chosen), batch):
            together = chosen[start : start + batch]
            for picture in together:
                yield Cell(
                    task=setup.task.name,
                    task_params=setup.task.params,
                    sigma_y=setup.sigma,
                    noise_seed=setup.noise_seed,
                    method=spec.label,
                    sampler=sampler_record(setup.recipe.sampler),
                    image=picture.name,
                    image_sha256=picture.sha256,
                    seed=seed,
                    model=config.model,
                    hashes=setup.hashes,
                    options=setup.recipe.model_options() | config.options_of(setup.task.name, picture.name),
                    protocol=PROTOCOL,
                    metrics=config.metrics,
                    company=tuple(p.sha256 for p in together),
                    features=feature_names(config.features, config.inception),
                ).keyed()


def _check_unique(cells: Sequence[Cell]) -> None:
    seen: dict[tuple[str, str], Cell] = {}
    for cell in cells:
        if (cell.method, cell.key) in seen:
            raise BadInput(
                f"The image {cell.image} and {seen[cell.method, cell.key].image} are the same picture. "
                "Remove one of them."
            )
        seen[cell.method, cell.key] = cell
