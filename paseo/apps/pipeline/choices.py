"""What a call leaves open and how it is filled in: degradation, operator, sampler, prompt, guidance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch

from paseo.apps.pipeline.inputs import is_centre_box
from paseo.degrade import Mask, task, user_task
from paseo.errors import BadInput, MissingWeights
from paseo.hub.operator import OperatorModel
from paseo.operators.exact import LatentMask
from paseo.operators.net import OperatorNet
from paseo.settings.presets import PHOTO, Preset, preset, presets


@dataclass(frozen=True, eq=False)
class Choice:
    """One restoration problem and how to solve it."""

    degradation: Any
    operator: Any
    sampler: Any
    prompt: str | Sequence[str]
    guidance: float


def choose(
    family: str,
    given_task: Any,
    mask: Mask | None,
    operator: Any,
    sampler: Any,
    settings: str | None,
    *,
    steps: int | None,
    prompt: str | Sequence[str] | None,
    guidance: float | None,
) -> Choice:
    """Fill in what was not given: the task from the operator, the rest from the paper's settings for that
    task.
    """
    degradation = mask if mask is not None else _degradation(given_task, operator)
    by_mask = mask is not None and not _knows(operator, mask)
    operator = LatentMask(torch.ones(())) if by_mask else operator
    if operator is None:
        raise MissingWeights(
            "There is no operator. Give one, from_pretrained(…, operator=FOLDER_OR_HUB_ID), or train it "
            "with `paseo train operator`; "
            "for free inpainting give a mask_image."
        )
    _same_task(operator, degradation)
    found = (
        sampler
        if isinstance(sampler, Preset)
        else _settings(settings or family, degradation.name, given=settings is not None)
    )
    chosen = found.sampler if sampler is None or isinstance(sampler, Preset) else sampler
    changes = ({"steps": steps} if steps is not None else {}) | ({"weight": "mask"} if by_mask else {})
    return Choice(
        degradation,
        operator,
        _changed(chosen, changes),
        prompt if prompt is not None else found.prompt or PHOTO,
        found.guidance if guidance is None else guidance,
    )


def to_operator(operator: Any) -> Any:
    """A folder, hub id or network as the diffusers model that a pipeline can hold; other callables stay as
    they are.
    """
    if isinstance(operator, str | Path):
        return OperatorModel.from_net(_load(operator))
    if isinstance(operator, OperatorNet) and not isinstance(operator, OperatorModel):
        return OperatorModel.from_net(operator)
    return operator


def _load(source: str | Path) -> OperatorNet:
    from paseo.operators.store import load_operator

    return load_operator(source)


def _degradation(given: Any, operator: Any) -> Any:
    if given is None:
        name = operator.spec.degradation if isinstance(operator, OperatorNet) else ""
        if not name:
            raise BadInput("What happened to the image? Give a task such as 'sr4', or a degradation.")
        return task(name)
    return user_task(given) if isinstance(given, str) else given


def _knows(operator: Any, mask: Mask) -> bool:
    """Whether the learned operator stands for this very mask."""
    if not isinstance(operator, OperatorNet) or operator.spec.degradation != "inpaint":
        return False
    return is_centre_box(mask, operator.spec.degradation_params)


def _same_task(operator: Any, degradation: Any) -> None:
    if isinstance(operator, OperatorNet) and operator.spec.degradation not in ("", degradation.name):
        raise BadInput(
            f"This operator was trained for {operator.spec.degradation!r}, not for {degradation.name!r}. "
            "Load the operator of the task."
        )


def _settings(model: str, name: str, *, given: bool) -> Preset:
    """The paper's row; a degradation of one's own borrows that of super-resolution."""
    if given or name in presets(model):
        return preset(model, name)
    return preset(model, "sr4")


def _changed(sampler: Any, changes: dict[str, Any]) -> Any:
    unknown = changes.keys() - {f.name for f in fields(sampler)}
    if unknown:
        raise BadInput(
            f"{type(sampler).__name__} has no {' and '.join(sorted(unknown))}. Set up the sampler itself."
        )
    return replace(sampler, **changes) if changes else sampler
