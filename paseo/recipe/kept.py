"""Which settings apply: the kept ones of model, task and method, or what stands in for them, and why."""

from __future__ import annotations

from dataclasses import dataclass

from paseo.errors import BadInput
from paseo.recipe.request import Request
from paseo.samplers import METHODS
from paseo.settings.presets import ROWS, NoSettings, Preset, method_name, presets, rows_of

BORROWED = "sr4"  # tuned settings transfer better to another degradation than a class's defaults do


@dataclass(frozen=True)
class KeptSettings:
    """Settings and where they come from."""

    preset: Preset
    rows: str  # "faces-128 sr4 paseo"; empty for a method's defaults
    why: str
    named: bool = False  # asked for by name, so that its prompt is meant as well
    own: bool = False  # of this very task, not borrowed from another


def kept_settings(request: Request, model: str, family: str | None, task: str, kin: str = "") -> KeptSettings:
    """The settings for a request; `kin` is the task whose settings fit best where there are none. A sampler
    that was given is not looked up, but prompt and guidance are.
    """
    if isinstance(request.sampler, Preset):
        return KeptSettings(request.sampler, "", "settings as given", named=True, own=True)
    rows, named = table_name(request.preset, model, family)
    name = method_name(request.label or request.method)
    table = presets(rows) if rows else {}
    home = next((place for place in (task, kin, BORROWED) if place in table), "")
    if home and name in table[home]:
        why, own = _reason(rows, task, home, name), task == home
        preset = table[home][name] if own else table[home][name].borrowed()
        return KeptSettings(preset, f"{rows} {home} {name}", why, named, own)
    if request.label not in (None, request.method):
        raise _unknown_label(request, model, task)
    if request.method not in METHODS:
        kept = f"; kept for {rows} and {home} are {', '.join(table[home])}" if home else ""
        raise BadInput(f"There is no method named {request.method!r}. Known: {', '.join(METHODS)}{kept}.")
    why = (
        f"No settings of {name} are kept for {model} and {task}: taking its defaults. Change them with --set."
    )
    return KeptSettings(Preset(METHODS[request.method].default), "", why, named)


def table_name(preset: str | None, model: str, family: str | None) -> tuple[str, bool]:
    """Under which name the settings lie, and whether that name was asked for; "" where there are none.

    A model's own settings come first. A diffusers model without any takes the rows of its family, by whatever
    name or folder it is called.
    """
    if preset is not None:
        presets(preset)  # an unknown name is an error of the one who asked
        return preset, True
    if rows_of(model) == model and _has_settings(model):
        return model, True
    return (ROWS[family], False) if family else ("", False)


def _has_settings(model: str) -> bool:
    try:
        return bool(presets(model))
    except NoSettings:
        return False


def _reason(rows: str, task: str, home: str, name: str) -> str:
    if task == home:
        return f"settings of {name} kept for {rows} and {task}"
    return f"no settings are kept for {task}: borrowing those of {name} for {rows} and {home}"


def _unknown_label(request: Request, model: str, task: str) -> BadInput:
    fresh = " --set anchor=fresh" if request.label == "paseo-dagger" else ""
    return BadInput(
        f"There are no settings of {request.label!r} for {model} and {task}. Choose some with "
        f"`paseo tune --task {task} --method {request.method} --label {request.label}{fresh}`."
    )
