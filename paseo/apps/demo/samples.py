"""An embedded model at work: held-out pictures that come with it, degraded five ways, each restored several
times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from paseo.apps.demo.report import MEASUREMENT, Demo, DemoRow, score
from paseo.degrade import task as find_task
from paseo.errors import BadInput
from paseo.images import find_images, fit_square, read, to_signed, to_unit
from paseo.models import Model, load_model
from paseo.recipe import Request, resolve
from paseo.recipe.load import load_operator_of
from paseo.sheet import TOP, contact_sheet, deviation_map
from paseo.street import Restored, restore

TASKS = ("sr4", "sr8", "blur", "inpaint", "jpeg")


def run_samples(
    model: str = "auto",
    tasks: Sequence[str] = TASKS,
    images: int = 1,
    draws: int = 4,
    seed: int = 0,
    method: str = "paseo",
    advance: Callable[[], Any] = lambda: None,
) -> Demo:
    """Every task on the first `images` samples, `draws` times each; `seconds` of a row is its share of a
    batch's time.
    """
    loaded = load_model(model)
    names, truth = samples(loaded, images)
    recipes = {name: resolve(Request(model=model, task=name, method=method)) for name in tasks}
    # what is missing is missed before anything is computed
    operators = {name: load_operator_of(recipe, loaded).operator for name, recipe in recipes.items()}
    rows: list[DemoRow] = []
    cells: list[list[Tensor]] = []
    for name in tasks:
        task = find_task(name)
        y = task.measure(truth, seeds=list(range(seed, seed + len(truth))))  # each image has its own noise
        lifted = to_unit(task.lift(to_signed(y), (truth.shape[-2], truth.shape[-1]))).clamp(0, 1)
        result = restore(
            y.repeat_interleave(draws, 0),
            model=loaded,
            operator=operators[name],
            degradation=task,
            sampler=recipes[name].sampler,
            sigma_y=task.sigma_y,
            seeds=[seed + k for _ in names for k in range(draws)],
        )
        rows += _rows(loaded.name, name, method, names, truth, lifted, result, draws)
        cells += _cells(truth, lifted, result.images, draws)
        advance()
    columns = ["truth", "measurement", *(f"draw {k + 1}" for k in range(draws))] + (
        ["std"] if draws > 1 else []
    )
    labels = [name if i == 0 else "" for name in tasks for i in range(len(truth))]
    footer = (
        f"Standard deviation of the draws: black 0, yellow {TOP} and above ([0,1] units)."
        if draws > 1
        else ""
    )
    sheet = contact_sheet(cells, columns=columns, rows=labels, side=loaded.size, footer=footer)
    return Demo(rows, sheet, {"models": {loaded.name: loaded.hashes}, "sigma_y": 0.01, "noise_unit": "unit"})


def samples(model: Model, count: int) -> tuple[list[str], Tensor]:
    """Names and images (B,3,s,s) in [0,1] of the held-out pictures beside the model."""
    files = find_images(model.folder / "samples") if model.folder else []
    if not files:
        raise BadInput(f"The model {model.name} brings no sample images.")
    if not 1 <= count <= len(files):
        raise BadInput(f"{count} images were asked for; the model {model.name} brings 1 to {len(files)}.")
    chosen: list[Path] = files[:count]
    return [p.stem for p in chosen], torch.stack([fit_square(read(p).rgb, model.size) for p in chosen])


def _rows(
    model: str,
    task: str,
    method: str,
    names: list[str],
    truth: Tensor,
    lifted: Tensor,
    result: Restored,
    draws: int,
) -> list[DemoRow]:
    rows = [
        DemoRow(model, task, MEASUREMENT, n, None, p, d, 0, 0.0)
        for n, (p, d) in zip(names, score(lifted, truth), strict=True)
    ]
    each = round(result.seconds / len(result.images), 3)
    scores = score(result.images, truth.repeat_interleave(draws, 0))
    for i, (p, d) in enumerate(scores):
        rows.append(DemoRow(model, task, method, names[i // draws], result.seeds[i], p, d, result.nfe, each))
    return rows


def _cells(truth: Tensor, lifted: Tensor, images: Tensor, draws: int) -> list[list[Tensor]]:
    cells = []
    for x, y, group in zip(truth, lifted, images.split(draws), strict=True):
        spread = [deviation_map(group.var(0).mean(0).sqrt())] if draws > 1 else []
        cells.append([x, y, *group, *spread])
    return cells
