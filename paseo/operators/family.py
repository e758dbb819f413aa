"""What an operator for a whole family of degradations says of itself: its parameters, where it was trained,
and how far it was off there.

The error at parameters between those that were measured is a weighted mean of logarithms, with weights that
fall with the squared distance in units of each parameter's range; the solver's r is taken from it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from paseo.errors import BadInput

PAPER_NOISE = 0.01  # σ_y at which the errors were measured
FARTHEST = 8  # cells that `reach` may span
_NOISE = "noise:"
_NEAR = 1e-3  # squared distance at which a measured error is taken as it is


@dataclass(frozen=True)
class ErrorAt:
    """RMS of H(z, s, c) − E(y) per channel on held-out images, for one degradation."""

    task: str  # its name, for people
    numbers: dict[str, float]  # c; what is not named is 0
    residual: tuple[float, ...]

    @property
    def rms(self) -> float:
        return math.sqrt(sum(v * v for v in self.residual) / len(self.residual))


@dataclass(frozen=True)
class Family:
    """The part of an operator's config that a dedicated one does not have."""

    parameters: tuple[str, ...]  # names of c's entries, in their order
    # the values of each that were trained on; what a parameter is at zero is always among them
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    subcells: int = 4  # n: seen pixels are told as n×n means per latent cell; 0 = it knows no masks
    local: bool = False  # no position channels and normalisation per cell: fits canvases of any size
    errors: tuple[ErrorAt, ...] = ()
    reach: int = 0  # hidden cells this near to seen ones count, too: a decoder draws across the rim

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", tuple(self.parameters))
        object.__setattr__(self, "errors", tuple(_error(e) for e in self.errors))
        try:
            ranges = {str(k): (float(v[0]), float(v[1])) for k, v in self.ranges.items()}
        except (TypeError, ValueError, IndexError, AttributeError):
            raise BadInput(f"ranges={self.ranges!r} of a family are not pairs of numbers by name.") from None
        object.__setattr__(self, "ranges", ranges)
        if not self.parameters or not all(isinstance(name, str) for name in self.parameters):
            raise BadInput("A family's operator names at least one parameter.")
        check_reach(self.reach)
        if not (isinstance(self.subcells, int) and 0 <= self.subcells <= 32):
            raise BadInput(f"subcells={self.subcells!r}, expected 0 to 32 parts per side of a latent cell.")

    def vector(self, numbers: Mapping[str, float]) -> tuple[float, ...]:
        """c in this operator's order; a parameter it does not know must not be in use."""
        unknown = [name for name, value in numbers.items() if value and name not in self.parameters]
        if unknown:
            raise BadInput(
                f"This operator does not know the parameter {', '.join(unknown)}; it knows "
                f"{', '.join(self.parameters)}. Use or train one that does."
            )
        return tuple(float(numbers.get(name, 0.0)) for name in self.parameters)

    def outside(self, numbers: Mapping[str, float]) -> list[str]:
        """The parameters that lie where nothing was trained, in words."""
        found = []
        for name, value in numbers.items():
            low, high = self.ranges.get(name, (-math.inf, math.inf))
            if value and not low - 1e-9 <= value <= high + 1e-9:
                found.append(f"{name}={value:.3g} (trained on {low:g} … {high:g})")
        return found

    def residual_at(self, numbers: Mapping[str, float]) -> tuple[float, ...]:
        """RMS error per channel at c; empty where none was measured."""
        measured = self.errors
        if any(numbers.values()):  # those without numbers belong to masks and noise, which c does not tell
            measured = tuple(e for e in self.errors if any(e.numbers.values())) or measured
        if not measured:
            return ()
        weights = [1 / (_NEAR + self._distance(numbers, e.numbers)) ** 2 for e in measured]
        total = sum(weights)
        channels = zip(*(e.residual for e in measured), strict=True)
        return tuple(
            math.exp(sum(w * math.log(v) for w, v in zip(weights, values, strict=True)) / total)
            for values in channels
        )

    def noise_error(self, sigma_y: float) -> float:
        """RMS of the encoded noise of a measurement, where it is more than the paper's: in proportion to that
        of the probe "noise:SIGMA", 0 without one.
        """
        probes = [e for e in self.errors if e.task.startswith(_NOISE) and not any(e.numbers.values())]
        if not probes or sigma_y <= PAPER_NOISE:
            return 0.0
        return probes[0].rms * sigma_y / float(probes[0].task.removeprefix(_NOISE))

    def _distance(self, a: Mapping[str, float], b: Mapping[str, float]) -> float:
        total = 0.0
        for name in self.parameters:
            low, high = self.ranges.get(name, (0.0, 1.0))
            span = max(high, 0.0) - min(low, 0.0) or 1.0
            total += ((a.get(name, 0.0) - b.get(name, 0.0)) / span) ** 2
        return total

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Family:
        """From the entry "family" of a config.json."""
        try:
            return cls(**values)
        except TypeError as error:
            raise BadInput(f"The family of an operator's config is not understood: {error}.") from None


def check_reach(value: object) -> None:
    """A number of cells that a decoder may reach."""
    if not (type(value) is int and 0 <= value <= FARTHEST):
        raise BadInput(f"reach={value!r}, expected 0 to {FARTHEST} cells around the seen ones.")


def _error(value: Any) -> ErrorAt:
    if isinstance(value, ErrorAt):
        return value
    try:
        found = ErrorAt(str(value["task"]), dict(value["numbers"]), tuple(map(float, value["residual"])))
    except (KeyError, TypeError, ValueError):
        raise BadInput(f"{value!r} is not an error of a family: task, numbers and residual.") from None
    if not found.residual or not all(0 < v < math.inf for v in found.residual):
        raise BadInput(f"The errors of {found.task} are not positive numbers.")
    return found
