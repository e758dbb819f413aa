"""`--set field=value`: the one place that splits and reads it, with the types that a dataclass declares."""

from __future__ import annotations

import math
import types
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from paseo.errors import BadInput

SWITCH = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}


def split_assignment(text: str, example: str = "relaxation=0.2") -> tuple[str, str]:
    """The two sides of field=value."""
    name, equals, value = text.partition("=")
    if not equals:
        raise BadInput(f"--set {text} is not of the form field=value, such as {example}.")
    return name.strip(), value.strip()


def field_name(text: str) -> str:
    """`perturb-prior` is written for `perturb_prior` on a command line."""
    return text.strip().replace("-", "_")


def with_settings(sampler: Any, assignments: Sequence[str]) -> Any:
    """The sampler with `field=value` applied; the dataclass itself checks ranges."""
    hints = get_type_hints(type(sampler))
    names = [f.name for f in fields(sampler) if f.init]
    changes: dict[str, Any] = {}
    for assignment in assignments:
        written, text = split_assignment(assignment)
        name = field_name(written)
        if name not in names:
            raise BadInput(f"{type(sampler).__name__} has no setting {name!r}. It has: {', '.join(names)}.")
        changes[name] = parse(text, hints[name], name)
    return replace(sampler, **changes) if changes else sampler


def parse(text: str, hint: Any, name: str) -> Any:
    """`text` as a value of the type `hint`: int, float, bool, str, Path, Literal, a tuple or a union of
    these.
    """
    if get_origin(hint) is Literal:
        if text in get_args(hint):
            return text
        raise BadInput(f"{name}={text} is not one of {', '.join(map(str, get_args(hint)))}.")
    if get_origin(hint) in (Union, types.UnionType):
        options = get_args(hint)
        if type(None) in options and text.lower() in ("none", "null"):
            return None
        for option in (o for o in options if o is not type(None)):
            try:
                return parse(text, option, name)
            except BadInput:
                continue
        raise BadInput(f"{name}={text} cannot be read as {hint}.")
    if get_origin(hint) is tuple:
        parts, kinds = text.replace(",", " ").split(), get_args(hint)
        if Ellipsis not in kinds and len(parts) != len(kinds):
            raise BadInput(
                f"{name}={text} has {len(parts)} values, expected {len(kinds)} with commas between them."
            )
        return tuple(parse(part, kinds[0], name) for part in parts)
    if hint is bool:
        if text.lower() not in SWITCH:
            raise BadInput(f"{name}={text} is not true or false.")
        return SWITCH[text.lower()]
    if hint in (str, Path):
        return hint(text)
    if hint in (int, float):
        return _number(text, hint, name)
    raise BadInput(f"{name} cannot be set from the command line.")


def _number(text: str, kind: type[int] | type[float], name: str) -> int | float:
    """A finite one: no record could hold another."""
    try:
        value = kind(text)
        if math.isfinite(value):
            return value
    except (ValueError, OverflowError):
        pass
    raise BadInput(f"{name}={text} is not {'a whole number' if kind is int else 'a finite number'}.")
