"""The parameters of a family as people name them, the numbers c that belong to them, and how they show.

    sigma     width of a round blur in px          width_xx = width_yy        |H| = exp(−σ²ω²/2)
    factor    of a picture that was made smaller
              and is large again (task sr:1)       octaves                    see `enlarged`

The quality of a JPEG is no knob: its file or its pixels tell it better (paseo.degrade.detect). Steps are
taken in c's own coordinates, in which equal steps change a picture about equally.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from paseo.base import Condition, Knob
from paseo.operators.family import Family

# name → the numbers that follow its coordinate, and those that are fixed by using it
KNOBS: dict[str, tuple[tuple[str, ...], dict[str, float]]] = {
    "sigma": (("width_xx", "width_yy"), {"width_xy": 0.0, "motion": 0.0}),
    "factor": (("octaves",), {}),
}
LIMITS = {"sigma": (0.1, 5.0), "factor": (0.0, 3.0)}  # of the coordinates
FALLS = 1.1  # half of α: the power of photographs falls like ω^−2.2


def blurred(sigma: float, rows: Tensor, columns: Tensor) -> Tensor:
    """|H| of a Gaussian blur."""
    return torch.exp(-(sigma**2) * (rows.square() + columns.square()) / 2)


def enlarged(octaves: float, rows: Tensor, columns: Tensor) -> Tensor:
    """|H| of a picture that was made f times smaller and then larger again, both bicubic: the kernel once for
    each at frequencies below π/f. Above lie mirror images of those below, weakened by the second kernel
    alone; they are as strong as the power of a photograph is at the frequency ω_a that they come from.
    """
    period = 2 * math.pi / 2**octaves
    there = [w - period * (w / period).round() for w in (rows, columns)]  # ω_a
    kernels = [cubic(w / period) for w in (rows, columns, *there)]
    power = (there[0].square() + there[1].square()).clamp_min(1e-4)
    fallen = (rows.square() + columns.square()).clamp_min(1e-4)
    return (kernels[0] * kernels[1] * kernels[2] * kernels[3]).abs() * (power / fallen) ** (-FALLS / 2)


def cubic(u: Tensor, a: float = -0.5) -> Tensor:
    """The Fourier transform of Keys' cubic kernel, u in cycles per sample."""
    u = u.abs().clamp_min(1e-3)
    once, twice, four = (torch.sinc(n * u) for n in (1, 2, 4))
    square = (math.pi * u).square()
    return (3 * (once.square() - twice) + 2 * a * (3 * twice.square() - 2 * twice - four)) / square


READ = {"sigma": float, "factor": lambda octaves: math.pow(2, octaves)}
TRANSFERS = {"sigma": blurred, "factor": enlarged}


def knobs_of(family: Family | None, condition: Condition) -> dict[str, Knob]:
    """Those whose numbers the family knows."""
    found: dict[str, Knob] = {}
    for name, (followers, fixed) in KNOBS.items():
        if family is not None and {*followers, *fixed} <= set(family.parameters):
            low, high = LIMITS[name]
            value = condition.numbers.get(followers[0], 0.0)
            shows = TRANSFERS[name] if _alone(name, condition) else None
            found[name] = Knob(min(max(value, low), high), low, high, READ[name], shows)
    return found


def _alone(name: str, condition: Condition) -> bool:
    """Whether nothing else was done that changes the spectrum of the measurement: noise does not, its level
    is fitted. The factor shows in a picture that is large again.
    """
    followers = KNOBS[name][0] if name == "sigma" else ()
    others = [v for other, v in condition.numbers.items() if other not in (*followers, "grain")]
    return condition.seen is None and not any(others)


def turned(condition: Condition, values: dict[str, float]) -> Condition:
    """The condition with these coordinates."""
    numbers = dict(condition.numbers)
    for name, value in values.items():
        followers, fixed = KNOBS[name]
        numbers |= dict.fromkeys(followers, float(value)) | fixed
    return Condition(numbers, condition.seen)
