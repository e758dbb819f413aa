"""The parameters of a family as people name them, and the numbers c that belong to them.

    sigma     width of a round blur in px          width_xx = width_yy
    factor    of down-sampling                     octaves

The quality of a JPEG is no knob: its file or its pixels tell it better (paseo.degrade.detect). Steps are
taken in c's own coordinates, in which equal steps change a picture about equally.
"""

from __future__ import annotations

import math

from paseo.base import Condition, Knob
from paseo.operators.family import Family

# name → the numbers that follow its coordinate, and those that are fixed by using it
KNOBS: dict[str, tuple[tuple[str, ...], dict[str, float]]] = {
    "sigma": (("width_xx", "width_yy"), {"width_xy": 0.0, "motion": 0.0}),
    "factor": (("octaves",), {}),
}
LIMITS = {"sigma": (0.1, 5.0), "factor": (0.0, 3.0)}  # of the coordinates


def knobs_of(family: Family | None, condition: Condition) -> dict[str, Knob]:
    """Those whose numbers the family knows."""
    found: dict[str, Knob] = {}
    for name, (followers, fixed) in KNOBS.items():
        if family is not None and {*followers, *fixed} <= set(family.parameters):
            low, high = LIMITS[name]
            value = condition.numbers.get(followers[0], 0.0)
            found[name] = Knob(min(max(value, low), high), low, high, READ[name])
    return found


def turned(condition: Condition, values: dict[str, float]) -> Condition:
    """The condition with these coordinates."""
    numbers = dict(condition.numbers)
    for name, value in values.items():
        followers, fixed = KNOBS[name]
        numbers |= dict.fromkeys(followers, float(value)) | fixed
    return Condition(numbers, condition.seen)


READ = {"sigma": float, "factor": lambda octaves: math.pow(2, octaves)}
