"""A sampler's settings as a form: name, kind, choices and the comment beside the field, which begins with the
paper's symbol.

# ρ, fraction of each correction that is taken` in the sampler's file
Nothing is written twice: `relaxation: float = 1.0
becomes a box labelled "relaxation  ρ" with the rest of the comment below it.
"""

from __future__ import annotations

import inspect
import io
import re
import tokenize
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

from paseo.samplers import METHODS

Kind = Literal["text", "choice", "switch"]
KINDS: tuple[Kind, ...] = ("text", "choice", "switch")
_SYMBOL = re.compile(
    r"^(?P<symbol>[^\s,;:.]{1,3})(?=[,;]|\s+(?:at|of)\b|$)"
)  # ρ, P, z_a, z⁰, η_k: short, before a comma


@dataclass(frozen=True)
class Field:
    """One setting of a sampler."""

    name: str
    kind: Kind
    choices: tuple[str, ...] = ()  # of a choice
    symbol: str = ""  # as in the paper
    note: str = ""

    @property
    def label(self) -> str:
        return f"{self.name}  {self.symbol}" if self.symbol else self.name


@cache
def fields_of(cls: type[Any]) -> tuple[Field, ...]:
    """The settings of a sampler class in the order it declares them."""
    hints, notes = get_type_hints(cls), _comments(cls)
    return tuple(_field(f.name, hints[f.name], notes.get(f.name, "")) for f in fields(cls) if f.init)


def _field(name: str, hint: Any, comment: str) -> Field:
    found = _SYMBOL.match(comment)
    symbol = found["symbol"] if found and _is_symbol(found["symbol"]) else ""
    note = comment[len(symbol) :].lstrip(" ,;") if symbol else comment
    if hint is bool:
        return Field(name, "switch", (), symbol, note)
    if get_origin(hint) is Literal:
        return Field(name, "choice", tuple(map(str, get_args(hint))), symbol, note)
    return Field(name, "text", (), symbol, note)


def _is_symbol(text: str) -> bool:
    """A letter, one with an index, or something no word is written with; short words such as "std" are none."""
    return len(text) == 1 or "_" in text or not (text.isascii() and text.islower())


def _comments(cls: type[Any]) -> dict[str, str]:
    """Field name → the comment that ends its line in the class body, inherited fields included."""
    found: dict[str, str] = {}
    for owner in (c for c in cls.__mro__ if c is not object):
        source = inspect.getsource(owner)
        lines = source.splitlines()
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            declared = (
                re.match(r"\s{4}(\w+)\s*:", lines[token.start[0] - 1])
                if token.type == tokenize.COMMENT
                else None
            )
            if declared:
                found.setdefault(declared[1], token.string.lstrip("# ").strip())
    return found


@cache
def most(kind: Kind) -> int:
    """How many settings of a kind any method has: as many boxes a page must hold ready."""
    return max(sum(f.kind == kind for f in fields_of(m.cls)) for m in METHODS.values())


def shown(value: Any) -> str:
    """A value as `--set` would read it back."""
    if isinstance(value, tuple | list):
        return ",".join(map(str, value))
    return str(value)
