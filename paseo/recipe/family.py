"""The operator for a whole family of degradations: when it is taken, and what follows from it.

A model's operator for the very degradation comes first (`jpeg:10` is the paper's `jpeg`), then its operator
for the family, which is told the degradation. The solver's r is then a share of the error that the family's
operator made there on held-out pictures (`BELIEVED`): kept settings hold the r of another operator. Noise
above the paper's adds its own part, which no operator can foresee: r² = (share · error)² + noise².
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path

from paseo.base import Degradation, HasParams, Sampler
from paseo.degrade import (
    JPEG,
    Downsample,
    GaussianBlur,
    Grain,
    KnownByExample,
    Mask,
    MotionBlur,
    StretchedBlur,
    Task,
    tasks,
)
from paseo.degrade.carry import share_of
from paseo.degrade.family import numbers_of, parts_of
from paseo.degrade.mask import Masking
from paseo.errors import Unsupported
from paseo.models import MASKS as OF_MASKS
from paseo.models import stored_operator
from paseo.models.shipped import is_shipped, sentence
from paseo.operators.config import OperatorConfig
from paseo.operators.family import PAPER_NOISE, Family
from paseo.operators.store import operator_config
from paseo.recipe.recipe import OperatorSource
from paseo.samplers import PASEO

FAMILY = "family"  # the folder below a model's operators
MASKS = f"{FAMILY}/{OF_MASKS}"  # and of one for its masks alone, where a model has that
# r over the operator's RMS error, by what was done: the best of 0.2 to 5 on validation photographs, where it
# gained more than 2 % LPIPS (docs/what-happened.md)
BELIEVED: dict[type, float] = {
    JPEG: 0.45,
    GaussianBlur: 0.35,
    Downsample: 0.45,  # 0.3 for a factor of 2, more than 1 for 6
    StretchedBlur: 2.0,
    MotionBlur: 2.0,
}
USUALLY = 0.65


@dataclass(frozen=True)
class Choice:
    """Which stored operator serves a task, and the family it belongs to."""

    name: str = ""  # "": the task's own
    family: Family | None = None
    why: tuple[str, ...] = ()


def stored_for(model: str, task: str, degradation: Degradation | Task, space: str = "") -> Choice:
    """The task's own operator, one of the same degradation under another name, or the family's; `space` is
    the latent space of a model that is loaded already.
    """
    if (found := stored_operator(model, task, space)) is not None:
        return Choice(why=_said(found, model, ""))
    known = known_as(degradation)
    if known and (found := stored_operator(model, known, space)) is not None:
        return Choice(known, why=_said(found, model, f"{task} is {known}: its operator is taken"))
    name = serving(model, degradation, space)
    found = stored_operator(model, name, space)
    family = operator_config(found).family if found is not None else None
    if found is None or family is None or numbers_in(degradation) is None:
        return Choice()
    why = f"{model} has no operator for {task} alone: the one of the family is taken"
    return Choice(name, family, _said(found, model, why))


def serving(model: str, degradation: Degradation | Task, space: str = "") -> str:
    """Which of a model's operators for many degradations serves this one: that for masks alone serves those
    where there is one, the family's everything else.
    """
    inner = degradation.degradation if isinstance(degradation, Task) else degradation
    apart = isinstance(inner, Masking) and stored_operator(model, MASKS, space) is not None
    return MASKS if apart else FAMILY


def leaner(source: OperatorSource, model: str, task: str, kept: str) -> OperatorSource:
    """With `kept`, the operator that kept settings go with, in place of a stored one of the same
    degradation, where the model has it.
    """
    if not kept or source.given or source.kind not in ("model", "mask"):
        return source
    folder = stored_operator(model, kept)
    if folder is None or operator_config(folder).degradation != (source.name or task):
        return source
    return replace(source, name=kept)


def _said(folder: Path, model: str, why: str) -> tuple[str, ...]:
    """The reason; of an operator that comes with the package, where it comes from, in one line."""
    if is_shipped(folder):
        return (sentence(folder, model),)
    return (why,) if why else ()


def known_as(degradation: Degradation | Task) -> str:
    """The task that is that very degradation, such as jpeg for jpeg:10; "" for all others."""
    return next((known.name for known in tasks() if same(known, degradation)), "")


def same(task: Task, degradation: Degradation | Task) -> bool:
    """Whether a task is that very degradation."""
    inner = degradation.degradation if isinstance(degradation, Task) else degradation
    if type(inner) is not type(task.degradation) or isinstance(inner, Mask):
        return False
    return isinstance(inner, HasParams) and inner.params == task.params


def numbers_in(degradation: Degradation | Task) -> dict[str, float] | None:
    """c of a degradation; None where it is no member of the family."""
    try:
        return numbers_of(parts_of(degradation))
    except Unsupported:
        return None


def for_cells(sampler: Sampler) -> Sampler:
    """Hidden cells carry no information: methods that weigh the measurement give them no weight."""
    weighs = is_dataclass(sampler) and any(f.name == "weight" for f in fields(sampler))
    return replace(sampler, weight="mask") if weighs and not isinstance(sampler, type) else sampler


def for_any_mask(sampler: Sampler, family: Family | None, degradation: Degradation | Task) -> Sampler:
    """A dedicated operator predicts the hidden cells of its own box, one for any mask does so less well:
    there weights of one become those of the mask, which it is told in any case (docs/beyond.md).
    """
    inner = degradation.degradation if isinstance(degradation, Task) else degradation
    plain = isinstance(sampler, PASEO) and sampler.weight == "ones"
    return for_cells(sampler) if plain and family is not None and isinstance(inner, Masking) else sampler


def suited(
    sampler: Sampler, family: Family | None, degradation: Degradation | Task, sigma_y: float
) -> Sampler:
    """Kept settings for the operator, the degradation and the noise at hand."""
    return for_noise(for_any_mask(sampler, family, degradation), degradation, sigma_y)


def for_noise(sampler: Sampler, degradation: Degradation | Task, sigma_y: float) -> Sampler:
    """Without a correction in pixels where those hold more noise than the paper's, which it would bring back,
    and where the degradation is known by example and cannot be applied.
    """
    if not isinstance(sampler, PASEO) or not sampler.finish:
        return sampler
    inner = degradation.degradation if isinstance(degradation, Task) else degradation
    noisy = sigma_y > PAPER_NOISE or any(isinstance(p, Grain) and p.sigma for p in parts_of(degradation))
    return replace(sampler, finish=0.0) if noisy or isinstance(inner, KnownByExample) else sampler


def believed(
    sampler: Sampler,
    family: Family | None,
    degradation: Degradation | Task,
    sigma_y: float,
    found: bool = False,
) -> tuple[Sampler, str]:
    """The sampler with r from the family's error at this degradation, and the reason; unchanged where the
    error was not measured or the method has no r. Numbers that are `found` on the way are not quite the true
    ones: what is usual is believed then, and no more.
    """
    numbers = numbers_in(degradation)
    if family is None or numbers is None or not is_dataclass(sampler) or isinstance(sampler, type):
        return sampler, ""
    noise = family.noise_error(sigma_y)
    errors: Sequence[float] = family.residual_at(numbers) if any(numbers.values()) or not noise else (0.0,)
    if not errors or "operator_noise" not in {f.name for f in fields(sampler)}:
        return sampler, ""
    parts = parts_of(degradation)
    share = BELIEVED.get(type(parts[0]), USUALLY) if len(parts) == 1 and not found else USUALLY
    error = math.sqrt(sum(v * v for v in errors) / len(errors))
    r = float(f"{math.hypot(share * error, noise):.3g}")
    beside = f" and {noise:.2g} of noise" if noise else ""
    told = f"r = {r:g}, {share} of the operator's error there{beside}"
    return replace(sampler, operator_noise=r), told


def carried(task: str, degradation: Degradation | Task, sigma_y: float) -> float:
    """a, the share that is carried over from the measurement: none for the paper's tasks, which are restored
    as the paper does, for masks, whose seen pixels are copied, and for what is not known.
    """
    numbers = numbers_in(degradation)
    masked = any(isinstance(part, Masking) for part in parts_of(degradation))
    if numbers is None or masked or task in {known.name for known in tasks()}:
        return 0.0
    return round(share_of(numbers, sigma_y), 4)


def knows_masks(learned: OperatorConfig | None) -> bool:
    """Whether an operator is of a family that is told which pixels are seen."""
    return learned is not None and learned.family is not None and learned.family.subcells > 0
