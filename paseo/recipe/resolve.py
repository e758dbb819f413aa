"""resolve(request) → Recipe: the only place that fills in what was left open.

model      "auto" is the embedded model that a given operator belongs to, else the default (`models.DEFAULT`)
task       as given; else the operator's own; else inpaint where there is a mask. "auto" is left open where
           neither tells it, until the file is seen (`paseo.recipe.read_off`)
operator   as given; else the model's for the task; else its operator for the family (family.py). With a mask,
           a learned operator is used if it stands for that very mask (the centre box it was trained on) or is
           told which pixels are seen; else the identity on the seen cells. A degradation that was passed as
           an object, or one that an embedded model has no operator for, goes through the autoencoder itself
           (`chain`), which needs no training and costs more
sampler    as given; else the kept settings of model, task and method. A task without any borrows those of
           its kin or of sr4, with r from the family's error; a method without any takes its defaults. Then
           `settings`, `steps` and `budget`, in this order
prompt     as given; else that of the kept settings; rows of faces that were not asked for by name give none
guidance   as given; else that of the kept settings
σ_y        as given; else the task's own
carry      detail that the codec cannot hold is taken from the measurement, but for the paper's tasks
faces      in the picture are restored by the face model where that was asked for (`paseo.recipe.faces`)
seen       pixels are copied into the result, blended over a few pixels, where a mask was given
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from paseo.base import Degradation, Sampler
from paseo.degrade import CentreBox, KnownByExample, Mask, Task, register, tasks
from paseo.degrade import task as find_task
from paseo.errors import BadInput
from paseo.models import AUTO, DEFAULT, available, own_folder, real_name, stored_operator
from paseo.operators.config import OperatorConfig
from paseo.operators.net import OperatorNet
from paseo.operators.store import operator_config
from paseo.recipe.family import (
    Choice,
    believed,
    carried,
    for_cells,
    known_as,
    knows_masks,
    leaner,
    serving,
    stored_for,
    suited,
)
from paseo.recipe.kept import KeptSettings, kept_settings
from paseo.recipe.recipe import CHAIN, FACES, OperatorSource, Recipe
from paseo.recipe.request import Request
from paseo.samplers import METHODS, PASEO, within
from paseo.setting import values_of
from paseo.settings.parse import with_settings
from paseo.settings.presets import FACE, PHOTO, Preset

INPAINT = "inpaint"


def resolve(request: Request) -> Recipe:
    """The recipe for a request, or the error that names what is missing."""
    learned = trained_for(None if request.operator == CHAIN else request.operator)
    model, why = _model(request, learned)
    family = request.family or family_of(model)
    mask = request.task if isinstance(request.task, Mask) else request.mask
    if _is_open(request, bool(mask), learned):
        return _open(request, model, family, why)
    name, degradation, sigma_y = _task(request, bool(mask), learned)
    sigma_y = sigma_y if request.sigma_y is None else float(request.sigma_y)
    kin = degradation.kin if isinstance(degradation, Task) else ""
    known = known_as(degradation) or name
    kept = kept_settings(request, model, family, known, kin)
    choice = _choice(request, bool(mask), learned, model, name, degradation)
    preset, reason = kept.preset, ""
    asked = _sampler(request, preset)
    blind = isinstance(asked, PASEO) and bool(asked.blind)
    if request.sampler is None and (blind or not kept.own):
        sampler, reason = believed(preset.sampler, choice.family, degradation, sigma_y, blind)
        preset = replace(preset, sampler=sampler)
    preset = replace(preset, sampler=suited(preset.sampler, choice.family, degradation, sigma_y))
    operator = _operator(request, bool(mask), choice, model, name)
    operator = leaner(operator, model, name, "" if request.sampler else kept.preset.operator)
    if operator.kind == "chain" and request.operator is None:
        why.append(
            f"no operator was trained for {name}: going through the autoencoder itself, which is slower"
        )
    recipe = Recipe(
        model=model,
        task=name,
        sampler=_for_chain(_sampler(request, preset), operator),
        operator=operator,
        sigma_y=sigma_y,
        carry=0.0 if mask else carried(known, degradation, sigma_y),
        keep_known=bool(mask) if request.keep_known is None else request.keep_known,
        faces=FACES if request.faces else "",
        masked=bool(mask),
        options=request.given_options(),
        rows=kept.rows if request.sampler is None else "",
        why=(*why, *choice.why, _told(kept.why if request.sampler is None else "settings as given", reason)),
        degradation=degradation,
    )
    recipe = _with_text(recipe, request, kept, family, model)
    return settle(recipe, mask, learned) if isinstance(mask, Mask) else recipe


def _model(request: Request, learned: OperatorConfig | None) -> tuple[str, list[str]]:
    """As asked for; left open, the embedded model in whose latent space a given operator was trained, else
    the default one.
    """
    if request.model != AUTO:
        return real_name(request.model), []
    if learned is not None and learned.latent_space in available() and learned.latent_space != DEFAULT:
        return learned.latent_space, [f"the operator belongs to {learned.latent_space}"]
    return DEFAULT, [f"{DEFAULT} is the default model"]


def settle(recipe: Recipe, mask: Mask, learned: OperatorConfig | None) -> Recipe:
    """The recipe for one mask: with the learned operator if it stands for this very mask, with that of a
    family that is told the mask, else without any.

    `learned` is what the operator at hand was trained for: the given one, or the model's for inpaint.
    """
    if recipe.operator.kind != "mask":
        return recipe
    if learned is not None and learned.degradation == INPAINT and is_box(mask, learned.degradation_params):
        kind = "given" if recipe.operator.given else "model"
        why = "the mask is the box that the learned operator was trained on"
        return replace(recipe, operator=replace(recipe.operator, kind=kind), why=(*recipe.why, why))
    source, why = _for_free_mask(recipe, mask, learned)
    return replace(recipe, operator=source, sampler=for_cells(recipe.sampler), why=(*recipe.why, why))


def _for_free_mask(recipe: Recipe, mask: Mask, learned: OperatorConfig | None) -> tuple[OperatorSource, str]:
    """The operator for a mask that none was trained for, and why."""
    if recipe.operator.given and knows_masks(learned):
        return replace(recipe.operator, kind="given"), "the operator is told which pixels the mask leaves"
    name = serving(recipe.model, mask)
    found = None if recipe.operator.given else stored_operator(recipe.model, name)
    if found is not None and knows_masks(operator_config(found)):
        why = "the operator of the family is told which pixels the mask leaves"
        return OperatorSource("model", name=name), why
    why = "no operator was trained for this mask: the seen latent cells are the measurement"
    return OperatorSource("cells"), why


def family_of(model: str) -> str | None:
    """ "sd", "sdxl" or "sd3" of a diffusers model; None for the embedded ones and folders like them."""
    from paseo.hub.names import known_family

    if own_folder(model) is not None:
        return None
    if known := known_family(model):
        return known
    from paseo.hub.pretrained import family_name

    return family_name(model)


def trained_for(operator: object) -> OperatorConfig | None:
    """What an operator says of itself; None where there is none, or one that cannot say.

    One that was trained on pairs of pictures makes its task known by its name.
    """
    if isinstance(operator, OperatorNet):
        return operator.spec
    if not isinstance(operator, str):
        return None
    config = operator_config(operator)
    name, factor = config.degradation, config.degradation_params.get("factor")
    whole = factor if isinstance(factor, int) else 1
    by_example = bool(config.training.get("settings", {}).get("pairs"))
    if by_example and name not in {t.name for t in tasks()}:
        register(Task(name, name, lambda: KnownByExample(name, whole)))
    return config


def is_box(mask: Mask, params: Mapping[str, Any]) -> bool:
    """Whether a mask is the box that a learned inpainting operator was trained on."""
    height, width = mask.observed.shape[-2:]
    box = CentreBox(**params).observed_at(height, width)
    return len(mask.observed) == 1 and bool((box == mask.observed).all())


def _task(
    request: Request, masked: bool, learned: OperatorConfig | None
) -> tuple[str, Degradation | Task, float]:
    """Name, degradation and noise level of the task."""
    given = request.task
    if isinstance(given, Mask):
        return INPAINT, given, 0.01
    if isinstance(given, Task):
        found: Degradation | Task = given
    elif not isinstance(given, str):
        found = given
    else:
        of_operator = "" if learned is None or learned.family is not None else learned.degradation
        name = given if given != AUTO else ""
        name = name or (INPAINT if masked else of_operator)
        if not name:
            raise BadInput(
                f"What happened to the image? Give a task: {', '.join(t.name for t in tasks())}, or "
                "module:function for a degradation of your own."
            )
        found = find_task(name)
    if masked and found.name != INPAINT:
        raise BadInput(f"A mask belongs to the task {INPAINT}, not to {found.name}.")
    if not masked:
        _check_trained_for(learned, found.name)
    mask = request.mask
    return (
        found.name,
        mask if isinstance(mask, Mask) else found,
        found.sigma_y if isinstance(found, Task) else 0.01,
    )


def _check_trained_for(learned: OperatorConfig | None, task: str) -> None:
    """An operator of one known task is of no use for another one; functions may be spelled in many ways."""
    known = {t.name for t in tasks()}
    if learned is None or learned.degradation in ("", task) or learned.degradation not in known:
        return
    if task in known:
        raise BadInput(
            f"This operator was trained for {learned.degradation!r}, not for {task!r}. "
            "Load the operator of the task."
        )


def _is_open(request: Request, masked: bool, learned: OperatorConfig | None) -> bool:
    """Whether the file alone can tell the task."""
    if masked or not isinstance(request.task, str) or request.task != AUTO:
        return False
    return learned is None or learned.family is not None or not learned.degradation


def _open(request: Request, model: str, family: str | None, why: list[str]) -> Recipe:
    """A recipe without a task; settings that are wrong are said now."""
    sampler = _sampler(request, kept_settings(request, model, family, AUTO).preset)
    if request.keep_known:
        raise BadInput("Known pixels can only be kept in inpainting: give a mask, or --task inpaint.")
    faces = FACES if request.faces else ""
    options = request.given_options()
    return Recipe(model, AUTO, sampler, faces=faces, options=options, why=tuple(why), open=request)


def _choice(
    request: Request,
    masked: bool,
    learned: OperatorConfig | None,
    model: str,
    task: str,
    degradation: Degradation | Task,
) -> Choice:
    """Of the stored operators; a given one is taken as it is."""
    if request.operator == CHAIN:
        return Choice()
    if request.operator is not None:
        return Choice(family=None if learned is None else learned.family)
    return Choice() if masked else stored_for(model, task, degradation, request.space)


def _told(why: str, reason: str) -> str:
    return f"{why}; {reason}" if reason else why


def _operator(request: Request, masked: bool, choice: Choice, model: str, task: str) -> OperatorSource:
    given = request.operator
    stored = masked or choice.name or not _untrained(request, model, task)
    if given == CHAIN or (given is None and not stored):
        return OperatorSource("chain")
    place, thing = (given, None) if isinstance(given, str) else ("", given)
    if masked:
        return OperatorSource("mask", place, thing=thing)
    if given is None:
        return OperatorSource("model", name=choice.name)
    return OperatorSource("given", place, thing=thing)


def _untrained(request: Request, model: str, task: str) -> bool:
    """Whether no operator can be there: of an object that was passed, or by an embedded model's folder."""
    if not isinstance(request.task, str | Task):
        return not any(t.name == task for t in tasks())
    folder = own_folder(model)
    return folder is not None and not (folder / "operators" / task / "config.json").is_file()


def _sampler(request: Request, kept: Preset) -> Sampler:
    """The sampler with all changes that were asked for."""
    sampler = kept.sampler
    if request.sampler is not None and not isinstance(request.sampler, Preset):
        sampler = request.sampler
    elif request.sampler is None and request.method in METHODS:
        wanted = METHODS[request.method]
        if not isinstance(sampler, wanted.cls):
            raise BadInput(
                f"The settings {request.label or request.method!r} are of {type(sampler).__name__}, not of "
                f"{wanted.title}."
            )
    sampler = _changed(sampler, request.settings)
    if request.steps is not None:
        sampler = _changed(sampler, {"steps": request.steps})
    if request.budget is not None and sampler.nfe > request.budget:
        sampler = within(sampler, request.budget)
    return sampler


def _changed(sampler: Sampler, settings: Sequence[str] | Mapping[str, object]) -> Sampler:
    if not isinstance(settings, Mapping):
        return with_settings(sampler, settings)
    if not settings:
        return sampler
    names = {f.name for f in fields(sampler)} if is_dataclass(sampler) else set()
    if unknown := sorted(settings.keys() - names):
        raise BadInput(
            f"{type(sampler).__name__} does not take these settings: it has no {' and '.join(unknown)}. "
            f"It has: {', '.join(sorted(names))}."
        )
    return replace(sampler, **settings)


def _for_chain(sampler: Sampler, operator: OperatorSource) -> Sampler:
    """The autoencoder itself has no measured error per channel to weigh by."""
    if operator.kind != "chain" or not is_dataclass(sampler) or isinstance(sampler, type):
        return sampler
    return replace(sampler, weight="ones") if values_of(sampler).get("weight") == "residual" else sampler


def _with_text(
    recipe: Recipe, request: Request, kept: KeptSettings, family: str | None, model: str
) -> Recipe:
    """Prompt and guidance, for models that know what they are."""
    wishes = {
        "prompt": request.prompt,
        "negative_prompt": request.negative_prompt,
        "guidance": request.guidance,
    }
    given: dict[str, Any] = {name: value for name, value in wishes.items() if value is not None}
    if family is None:
        if given and own_folder(model) is not None:
            raise BadInput(f"The model {model} is unconditional: it takes no {', '.join(sorted(given))}.")
        return replace(recipe, **given)
    prompt = kept.preset.prompt or PHOTO
    if prompt == FACE and not kept.named:
        prompt = PHOTO
    return replace(
        recipe,
        prompt=given.get("prompt", prompt),
        negative_prompt=given.get("negative_prompt"),
        guidance=float(given.get("guidance", kept.preset.guidance)),
    )
