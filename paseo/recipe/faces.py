"""The faces of a photograph: which model restores them, and with which settings (`--faces`)."""

from __future__ import annotations

from dataclasses import is_dataclass, replace

from paseo.base import Degradation
from paseo.degrade import KnownByExample
from paseo.errors import Unsupported
from paseo.recipe.recipe import CHAIN, Recipe
from paseo.recipe.request import Request
from paseo.recipe.resolve import resolve
from paseo.samplers import PASEO


def recipe_for_faces(recipe: Recipe, degradation: Degradation) -> Recipe:
    """What the face model is to do with the faces of a picture that `recipe` restores.

    The operator is the chain, which has no error per channel to weigh by; steps that were changed for the
    picture are changed for its faces.
    """
    if isinstance(degradation, KnownByExample):
        raise Unsupported(
            f"Faces are restored through the degradation itself, and {recipe.task} is known by example only. "
            "Leave --faces out."
        )
    sampler = recipe.sampler
    found = resolve(
        Request(
            model=recipe.faces,
            task=recipe.degradation or recipe.task,
            operator=CHAIN,
            sigma_y=recipe.sigma_y,
            steps=sampler.steps if isinstance(sampler, PASEO) else None,
        )
    )
    if isinstance(found.sampler, PASEO) and is_dataclass(found.sampler):
        return replace(found, sampler=replace(found.sampler, weight="ones"))
    return found
