"""A sampler's settings as boxes of a form: a line of text, a choice or a switch, as declared."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

from paseo.samplers import METHODS
from paseo.setting import Setting, settings_of

Kind = Literal["text", "choice", "switch"]
KINDS: tuple[Kind, ...] = ("text", "choice", "switch")


@dataclass(frozen=True)
class Field:
    """A box."""

    name: str
    label: str  # relaxation  ρ
    note: str  # what stands below it
    kind: Kind
    choices: tuple[str, ...] = ()


@cache
def fields_of(cls: type) -> tuple[Field, ...]:
    """The settings of a sampler class in the order it declares them."""
    return tuple(_field(s) for s in settings_of(cls))


def _field(s: Setting) -> Field:
    if s.kind == "switch":
        return Field(s.name, s.label, s.words, "switch")
    if s.kind == "word":
        return Field(s.name, s.label, s.words, "choice", s.choices)
    return Field(s.name, s.label, f"{s.words}: {s.allowed}", "text")


@cache
def most(kind: Kind) -> int:
    """How many settings of a kind any method has: as many boxes a page must hold ready."""
    return max(sum(f.kind == kind for f in fields_of(m.cls)) for m in METHODS.values())


def shown(value: object) -> str:
    """A value as `--set` would read it back."""
    if isinstance(value, tuple | list):
        return ",".join(map(str, value))
    return str(value)
