"""One declaration per setting: its default, the paper's symbol, what it is, and the range it may lie in.

    relaxation: float = setting(1.0, "ρ", "fraction of each correction that is taken", "(0, 1]")

All that knows a setting reads this line: `check_settings` refuses values outside of it, `--set` and
`paseo methods NAME` parse and print it, the page makes a labelled box of it, `paseo tune` searches where
`tune` says (written as for `--space`: "0.1:1:log" or "arc,denoiser"), and a test compares the docs with it.

A number is always finite, so that a record can hold it, and its range has two ends, so that a run ends.
"""

from __future__ import annotations

import math
import re
import types
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

from paseo.errors import BadInput

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Kind = Literal["switch", "word", "whole number", "number", "numbers", "names", "other"]
_INTERVAL = re.compile(r"([\[(])(\S+), (\S+)([\])])")


def setting(
    default: Any, symbol: str, words: str, range: str = "", *, tune: str = "", free: bool = False
) -> Any:
    """A dataclass field with its declaration; `range` as an interval such as "(0, 1]", `...` as default for
    one that must be given. A `free` one does not change what is computed.
    """
    declared = dict(symbol=symbol, words=words, range=Interval.read(range), tune=tune)
    return field(default=MISSING if default is ... else default, metadata={"setting": declared, "free": free})


@dataclass(frozen=True)
class Interval:
    """low ≤ x ≤ high, without an end that has a round bracket."""

    text: str
    low: float
    high: float

    @classmethod
    def read(cls, text: str) -> Interval | None:
        if not text:
            return None
        found = _INTERVAL.fullmatch(text)
        if found is None or not math.isfinite(float(found[2])) or not math.isfinite(float(found[3])):
            raise ValueError(f"{text!r} is not an interval such as '(0, 1]'")
        return cls(text, float(found[2]), float(found[3]))

    def __contains__(self, value: float) -> bool:
        """Whether a number lies inside; NaN lies nowhere."""
        above = value >= self.low if self.text[0] == "[" else value > self.low
        below = value <= self.high if self.text[-1] == "]" else value < self.high
        return above and below


@dataclass(frozen=True)
class Setting:
    """A field of a dataclass with its declaration."""

    name: str
    default: Any
    kind: Kind
    symbol: str = ""  # as in the paper
    words: str = ""
    range: Interval | None = None
    tune: str = ""  # where `paseo tune` searches, as for --space; empty: it is left alone
    choices: tuple[str, ...] = ()  # of a word or of names
    length: int = 1  # of numbers
    optional: bool = False  # None is a value

    @property
    def label(self) -> str:
        """relaxation  ρ"""
        return f"{self.name}  {self.symbol}".rstrip()

    @property
    def allowed(self) -> str:
        """What it may be, in words."""
        inside = f" in {self.range.text}" if self.range else ""
        words = {
            "switch": "true or false",
            "word": f"one of {', '.join(self.choices)}",
            "numbers": f"{self.length} numbers{inside}",
            "names": f"some of {', '.join(self.choices)}",
            "other": "a value",
        }.get(self.kind, f"a {self.kind}{inside}")
        return words + (", or none" if self.optional else "")

    def allows(self, value: object) -> bool:
        """Whether a value has the right type and lies in the range."""
        if value is None:
            return self.optional
        if self.kind == "switch":
            return isinstance(value, bool)
        if self.kind == "word":
            return isinstance(value, str) and value in self.choices
        if self.kind == "numbers":
            fits = isinstance(value, tuple | list) and len(value) == self.length
            return fits and all(self._allows_number(v, int | float) for v in value)
        if self.kind == "names":
            return isinstance(value, tuple | list) and all(v in self.choices for v in value)
        if self.kind == "other":
            return True
        return self._allows_number(value, int if self.kind == "whole number" else int | float)

    def _allows_number(self, value: object, kind: Any) -> bool:
        if not isinstance(value, kind) or isinstance(value, bool):  # True is not meant as 1
            return False
        return abs(value) < math.inf if self.range is None else value in self.range

    def refusal(self, value: object) -> str:
        if self.kind == "word":
            return f"{self.name}={_short(value)!r} is not {self.allowed}."
        about = ", ".join(part for part in (self.symbol, self.words) if part)
        return f"{self.name}={_short(value)} cannot be used: expected {self.allowed} ({about or self.name})."


def _short(value: object) -> object:
    """For a message; Python itself refuses to write a whole number of more than 4300 digits."""
    if isinstance(value, int) and value.bit_length() > 256:
        return "a number of hundreds of digits"
    return value if len(str(value)) <= 200 else str(value)[:200] + "…"


@cache
def settings_of(cls: type[Any]) -> tuple[Setting, ...]:
    """The settings of a dataclass in the order it declares them, inherited ones first."""
    hints = get_type_hints(cls)
    return tuple(_resolved(f, hints[f.name]) for f in fields(cls) if f.init)


def values_of(instance: DataclassInstance, *names: str) -> dict[str, Any]:
    """The fields of a dataclass by name, all of them or those named, as they are (`asdict` would copy)."""
    return {name: getattr(instance, name) for name in names or [f.name for f in fields(instance)]}


def check_settings(instance: DataclassInstance) -> None:
    """For a dataclass's `__post_init__`: every field is what its declaration says."""
    values = values_of(instance)
    for s in settings_of(type(instance)):
        if not s.allows(values[s.name]):
            raise BadInput(s.refusal(values[s.name]))


def _resolved(f: Any, hint: object) -> Setting:
    """The declaration with what the field's type says."""
    hint, optional = without_none(hint)
    kinds: dict[Any, Kind] = {bool: "switch", int: "whole number", float: "number"}
    kind, length = kinds.get(hint, "other"), 1
    choices: tuple[str, ...] = ()
    if get_origin(hint) is Literal:
        kind, choices = "word", get_args(hint)
    elif get_origin(hint) is tuple and set(get_args(hint)) == {float}:
        kind, length = "numbers", len(get_args(hint))
    elif get_args(hint)[1:] == (...,) and get_origin(get_args(hint)[0]) is Literal:
        kind, choices = "names", get_args(get_args(hint)[0])
    declared = f.metadata.get("setting", {})
    return Setting(f.name, f.default, kind, choices=choices, length=length, optional=optional, **declared)


def without_none(hint: object) -> tuple[object, bool]:
    """`float | None` → (float, True)."""
    if get_origin(hint) not in (Union, types.UnionType):
        return hint, False
    options = [o for o in get_args(hint) if o is not type(None)]
    return (options[0] if len(options) == 1 else hint), len(options) < len(get_args(hint))
