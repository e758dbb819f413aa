"""From a recipe to the networks it names: the model, and the operator with the hash of its weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from paseo.base import BindsNoise, Degradation, LatentOperator
from paseo.degrade import Task, task
from paseo.errors import BadInput
from paseo.models import AUTO, Model, load_model
from paseo.operators.config import OperatorConfig
from paseo.operators.exact import Chain, LatentMask
from paseo.operators.store import load_operator, operator_folder
from paseo.problem import device_of
from paseo.recipe.recipe import OperatorSource, Recipe
from paseo.recipe.resolve import INPAINT, trained_for
from paseo.record import file_sha256, pinned


@dataclass(frozen=True, eq=False)
class LoadedOperator:
    """H_ψ and the SHA-256 of each of its weights files; of none where nothing was learned."""

    operator: LatentOperator | BindsNoise
    files: dict[str, str]
    name: str = ""  # of one that was given: its folder, or its hub id with the commit

    @property
    def sha256(self) -> str | None:
        return next(iter(self.files.values()), None)


def load_model_of(recipe: Recipe) -> Model:
    return load_model(recipe.model, **recipe.model_options())


def load_operator_of(recipe: Recipe, model: Model) -> LoadedOperator:
    """The operator that the recipe names, where the model's codec works."""
    source = recipe.operator
    if recipe.open is not None:
        raise BadInput(
            f"The task {AUTO!r} is read off a file (`paseo.recipe.read_off`), and here is none. Give a task."
        )
    if source.kind in ("mask", "cells") or source.thing is not None:
        return LoadedOperator(operator_at_hand(source), {})
    if source.kind == "chain":
        return LoadedOperator(Chain(model.codec, _degradation_of(recipe)), {})
    place = device_of(model.codec)
    if source.kind == "given":
        found = load_operator(source.place, codec_hash=model.hashes.get("codec", ""), device=place)
        folder = operator_folder(source.place)
        return LoadedOperator(found, _files(folder), pinned(source.place, folder))
    name = source.name or recipe.task
    return LoadedOperator(model.operator(name).to(place), _files(model.operator_folder(name)))


def operator_at_hand(source: OperatorSource) -> LatentOperator | BindsNoise:
    """An operator that needs no file: the identity on the seen cells, or the object that was passed."""
    if source.kind == "cells":
        return LatentMask(torch.ones(()))
    if source.kind == "mask" or source.thing is None:
        raise BadInput(
            f"There is no operator at hand for {source}: settle the recipe with its mask, or load it."
        )
    return source.thing


def _degradation_of(recipe: Recipe) -> Degradation:
    found = recipe.degradation or task(recipe.task)
    return found.degradation if isinstance(found, Task) else found


def learned_for_masks(recipe: Recipe, model: Model) -> OperatorConfig | None:
    """What the learned operator at hand was trained for, to be compared with a mask (`settle`)."""
    if recipe.operator.given:
        return trained_for(recipe.operator.thing or recipe.operator.place)
    folder = model.operator_folder(INPAINT)
    return trained_for(str(folder)) if folder is not None else None


def _files(folder: Path | None) -> dict[str, str]:
    files = sorted(folder.glob("*.safetensors")) if folder is not None else []
    return {path.stem: file_sha256(path) for path in files}
