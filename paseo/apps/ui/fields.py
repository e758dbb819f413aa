"""A sampler's settings as boxes of a form: a line of text, a choice or a switch, by their declaration."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

from paseo.samplers import METHODS
from paseo.setting import Setting, settings_of

Box = Literal["text", "choice", "switch"]
BOXES: tuple[Box, ...] = ("text", "choice", "switch")


def box_of(setting: Setting) -> Box:
    """The kind of box that a setting is shown in."""
    if setting.kind == "switch":
        return "switch"
    return "choice" if setting.kind == "word" else "text"


def hint(setting: Setting) -> str:
    """What stands below a box: the words, and the range where one may type anything."""
    return f"{setting.words}: {setting.allowed}" if box_of(setting) == "text" else setting.words


@cache
def most(box: Box) -> int:
    """How many settings of a kind any method has: as many boxes a page must hold ready."""
    return max(sum(box_of(s) == box for s in settings_of(m.cls)) for m in METHODS.values())


def shown(value: Any) -> str:
    """A value as `--set` would read it back."""
    if isinstance(value, tuple | list):
        return ",".join(map(str, value))
    return str(value)
