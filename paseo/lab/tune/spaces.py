"""What is worth tuning in each method, and between which bounds: as the settings' declarations say.

    Axis(0.1, 1.0, log=True)        a number; whole where both bounds are
    Axis(choices=("arc", "fresh"))  one of several values

A space may be changed on the command line: `--space relaxation=0.1:1:log`, `--space anchor=arc,denoiser`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING

from paseo.errors import BadInput
from paseo.samplers import method as find_method
from paseo.setting import settings_of
from paseo.settings.parse import field_name, split_assignment

if TYPE_CHECKING:
    from optuna import Trial

Value = bool | int | float | str | None


@dataclass(frozen=True)
class Axis:
    """The values one field may take."""

    low: float = 0.0
    high: float = 0.0
    log: bool = False
    choices: tuple[Value, ...] = ()
    # only for tasks that hide pixels (True), only for the others (False), for all (None)
    masked: bool | None = None

    def __post_init__(self) -> None:
        if not self.choices and not (self.low <= self.high and (self.low > 0 or not self.log)):
            raise BadInput(
                f"The range {self.low}:{self.high} cannot be searched: the lower bound comes first, and is "
                "positive for log."
            )

    @property
    def counts(self) -> bool:
        """Whole numbers only."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def ends(self) -> tuple[Value, ...]:
        """The values between which, or among which, it searches."""
        return self.choices or (self.low, self.high)

    def suggest(self, trial: Trial, name: str) -> Value:
        """A value from an Optuna trial."""
        if self.choices:
            return trial.suggest_categorical(name, list(self.choices))
        if self.counts:
            return trial.suggest_int(name, int(self.low), int(self.high), log=self.log)
        return self.short(trial.suggest_float(name, self.low, self.high, log=self.log))

    def short(self, value: Value) -> Value:
        """A number with three digits, as people write settings."""
        return float(f"{value:.3g}") if isinstance(value, float) and not self.choices else value

    def holds(self, value: object) -> bool:
        """Whether a value lies on the axis, so that it can be the first to be tried."""
        if self.choices:
            return value in self.choices
        return isinstance(value, int | float) and self.low <= value <= self.high

    def to_json(self) -> dict[str, object]:
        return (
            {"choices": list(self.choices)}
            if self.choices
            else {"low": self.low, "high": self.high, "log": self.log}
        )


Space = dict[str, Axis]
MASKED = {("paseo", "weight"): True}  # weights other than ones are for tasks that hide pixels


def declared_space(method: str) -> Space:
    """What the method's declarations say is worth tuning (`paseo.setting`)."""
    found = {
        s.name: read_axis(f"{s.name}={s.tune}")[1] for s in settings_of(find_method(method).cls) if s.tune
    }
    return {name: replace(axis, masked=MASKED.get((method, name))) for name, axis in found.items()}


def space_of(
    method: str, *, masks: bool, fixed: Mapping[str, object] | None = None, changes: Sequence[str] = ()
) -> Space:
    """The axes of a method for a task that hides pixels or not, without the fields that are fixed."""
    known = {s.name: s for s in settings_of(find_method(method).cls)}
    space = {name: axis for name, axis in declared_space(method).items() if axis.masked in (None, masks)}
    for change in changes:
        name, axis = read_axis(change)
        if name not in known:
            raise BadInput(f"{method} has no setting {name!r}. It has: {', '.join(sorted(known))}.")
        if outside := [value for value in axis.ends if not known[name].allows(value)]:
            raise BadInput(f"--space {change}: {known[name].refusal(outside[0])}")
        space[name] = axis
    space = {name: axis for name, axis in space.items() if name not in (fixed or {})}
    if not space:
        raise BadInput(f"Nothing is left to tune in {method}: every field of its space is fixed.")
    return space


def read_axis(text: str) -> tuple[str, Axis]:
    """field=low:high, field=low:high:log or field=a,b,c."""
    written, body = split_assignment(text, "relaxation=0.1:1:log")
    name, parts = field_name(written), body.split(":")
    if not body:
        raise BadInput(f"{text!r} is not a range: write field=low:high, field=low:high:log or field=a,b,c.")
    if len(parts) == 1:
        return name, Axis(choices=tuple(_literal(p) for p in body.split(",")))
    low, high = _literal(parts[0]), _literal(parts[1])
    if (
        len(parts) > 3
        or parts[2:] not in ([], ["log"])
        or not all(isinstance(v, int | float) for v in (low, high))
    ):
        raise BadInput(
            f"{text!r} is not a range: write field=low:high, or field=low:high:log for a logarithmic one."
        )
    return name, Axis(low, high, log=len(parts) == 3)  # ty: ignore[invalid-argument-type]  (numbers)


def _literal(text: str) -> Value:
    words: dict[str, Value] = {"none": None, "true": True, "false": False}
    if text.strip().lower() in words:
        return words[text.strip().lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text.strip()


def read_grid(space: Space, texts: Sequence[str]) -> list[dict[str, Value]]:
    """Every combination of values such as `guidance=1,3,10`; each must lie on its axis."""
    axes: dict[str, tuple[Value, ...]] = {}
    for text in texts:
        name, axis = read_axis(text)
        if name not in space or not axis.choices:
            raise BadInput(
                f"--grid {text} is not field=a,b,c of a field that is searched: {', '.join(space)}."
            )
        if outside := [v for v in axis.choices if not space[name].holds(v)]:
            raise BadInput(
                f"{name}={outside[0]} lies outside the bounds of the search, {space[name].to_json()}. "
                "Widen them with --space."
            )
        axes[name] = axis.choices
    return [dict(zip(axes, point, strict=True)) for point in product(*axes.values())] if axes else []
