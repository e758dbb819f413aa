"""The words a degradation can be typed with, and what their numbers mean.

    jpeg:35      blur:2.5      blur:4x1@30      motion:15@45      sr:3      noise:0.05

Each word has parameters with a range, a way to build its degradation and a half-sentence that says what it
did. `parse_word` reads a value behind the colon; `given_word` takes the same parameters by name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from paseo.base import Degradation
from paseo.degrade.blur import GaussianBlur, MotionBlur, StretchedBlur
from paseo.degrade.grain import Grain
from paseo.degrade.jpeg import JPEG
from paseo.degrade.resize import Downsample
from paseo.errors import BadInput

Values = Mapping[str, float]


@dataclass(frozen=True)
class Parameter:
    """One number of a word: what it means and where it may lie."""

    name: str
    meaning: str
    low: float
    high: float
    unit: str = ""
    whole: bool = False
    default: float | None = None  # taken where the number is left out

    @property
    def range(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        return f"{kind} from {self.low:g} to {self.high:g}{' ' + self.unit if self.unit else ''}"

    def checked(self, value: object, typed: str) -> float:
        """The number itself, if it is one and lies in the range."""
        ok = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not ok or not self.low <= float(value) <= self.high or (self.whole and float(value) % 1):
            shown = f"{value:g}" if ok else repr(value)  # 0, not 0.0, as it was typed
            raise BadInput(f"{typed!r}: the {self.meaning} is {self.range}, got {shown}.")
        return int(value) if self.whole else float(value)


@dataclass(frozen=True)
class Word:
    """A kind of degradation that can be typed."""

    name: str
    title: str
    syntax: str  # shown in help and errors
    pattern: re.Pattern[str]  # of what follows the colon; groups are named after the parameters
    parameters: tuple[Parameter, ...]
    build: Callable[[Values], Degradation]
    did: Callable[[Values], str]  # "was …"
    write: Callable[[Values], str]  # the canonical value

    def canonical(self, values: Values) -> str:
        return f"{self.name}:{self.write(values)}"


_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?"
_ANGLE = Parameter("angle", "angle", -360, 360, "degrees", default=0.0)


def _turned(angle: float) -> float:
    """Half turns change nothing: 190° is 10°."""
    return angle % 180


def _blur(v: Values) -> Degradation:
    if "across" not in v or v["across"] == v["sigma"]:
        return GaussianBlur(v["sigma"])
    return StretchedBlur(v["sigma"], v["across"], _turned(v["angle"]))


def _write_blur(v: Values) -> str:
    if "across" not in v or v["across"] == v["sigma"]:
        return f"{v['sigma']:g}"
    return f"{v['sigma']:g}x{v['across']:g}@{_turned(v['angle']):g}"


def _did_blur(v: Values) -> str:
    if "across" not in v or v["across"] == v["sigma"]:
        return f"blurred by a Gaussian of {v['sigma']:g} px"
    return f"blurred by {v['sigma']:g} × {v['across']:g} px at {_turned(v['angle']):g}°"


def _re(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern.replace("#", _NUMBER), re.IGNORECASE)


WORDS: dict[str, Word] = {
    word.name: word
    for word in (
        Word(
            "jpeg",
            "JPEG compression",
            "jpeg:QUALITY, such as jpeg:35",
            _re(r"(?P<quality>#)"),
            (Parameter("quality", "JPEG quality", 1, 100, whole=True),),
            lambda v: JPEG(int(v["quality"])),
            lambda v: f"stored as a JPEG of quality {v['quality']:g}",
            lambda v: f"{v['quality']:g}",
        ),
        Word(
            "blur",
            "Gaussian blur",
            "blur:WIDTH, such as blur:2.5, or blur:ALONGxACROSS@ANGLE, such as blur:4x1@30",
            _re(r"(?P<sigma>#)(?:[x×](?P<across>#)(?:@(?P<angle>#))?)?"),
            (
                Parameter("sigma", "blur's width σ", 0.1, 20, "px"),
                Parameter("across", "blur's width across", 0.1, 20, "px", default=math.nan),
                _ANGLE,
            ),
            _blur,
            _did_blur,
            _write_blur,
        ),
        Word(
            "motion",
            "Motion blur",
            "motion:LENGTH@ANGLE, such as motion:15@45",
            _re(r"(?P<length>#)(?:@(?P<angle>#))?"),
            (Parameter("length", "length of the movement", 1, 60, "px"), _ANGLE),
            lambda v: MotionBlur(v["length"], _turned(v["angle"])),
            lambda v: f"blurred by a movement of {v['length']:g} px at {_turned(v['angle']):g}°",
            lambda v: f"{v['length']:g}@{_turned(v['angle']):g}",
        ),
        Word(
            "sr",
            "Super-resolution",
            "sr:FACTOR, such as sr:3 or sr:2.5",
            _re(r"(?P<factor>#)"),
            (Parameter("factor", "down-sampling factor", 1, 16, "(how many times smaller)"),),
            lambda v: Downsample(v["factor"]),
            lambda v: f"made {v['factor']:g} times smaller",
            lambda v: f"{v['factor']:g}",
        ),
        Word(
            "noise",
            "Noise",
            "noise:SIGMA, such as noise:0.05",
            _re(r"(?P<sigma>#)"),
            (Parameter("sigma", "noise's standard deviation", 0, 0.5, "on images in [0,1]"),),
            lambda v: Grain(v["sigma"]),
            lambda v: f"given noise of {v['sigma']:g}",
            lambda v: f"{v['sigma']:g}",
        ),
    )
}


def parse_word(word: Word, value: str, typed: str) -> Values:
    """The parameters of "word:value"."""
    match = word.pattern.fullmatch(value.strip())
    if match is None:
        raise BadInput(
            f"{typed!r} is not understood: write {word.syntax}, where {_ranges(word)}. "
            f"(A function of your own in a module named {word.name} is called as {word.name}.py:function.)"
        )
    return _checked(word, {k: float(v) for k, v in match.groupdict().items() if v is not None}, typed)


def given_word(word: Word, given: Mapping[str, object]) -> Values:
    """The same parameters by name: `task("jpeg", quality=35)`; `sigma=(4, 1)` is two widths."""
    given = dict(given)
    if isinstance(pair := given.get("sigma"), tuple | list) and len(pair) == 2 and word.name == "blur":
        given["sigma"], given["across"] = pair
    known = [p.name for p in word.parameters]
    if unknown := [name for name in given if name not in known]:
        raise BadInput(f"{word.name} has no parameter {unknown[0]!r}. It has: {', '.join(known)}.")
    typed = f"{word.name}({', '.join(f'{k}={v}' for k, v in given.items())})"
    return _checked(word, given, typed)


def _checked(word: Word, given: Mapping[str, object], typed: str) -> Values:
    values: dict[str, float] = {}
    for p in word.parameters:
        if p.name in given:
            values[p.name] = p.checked(given[p.name], typed)
        elif p.default is None:
            raise BadInput(f"{typed!r} lacks the {p.meaning}: {p.range}. Write {word.syntax}.")
        elif not math.isnan(p.default):
            values[p.name] = p.default
    return values


def _ranges(word: Word) -> str:
    return " and ".join(f"the {p.meaning} is {p.range}" for p in word.parameters if p is not _ANGLE)
