"""What is worth tuning in each method, and between which bounds.

    Axis(0.1, 1.0, log=True)        a number; whole where both bounds are
    Axis(choices=("arc", "fresh"))  one of several values

A space may be changed on the command line: `--space relaxation=0.1:1:log`, `--space anchor=arc,denoiser`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import product
from typing import Any

from paseo.errors import BadInput
from paseo.samplers import method as find_method

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
    def whole(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)

    def suggest(self, trial: Any, name: str) -> Value:
        """A value from an Optuna trial."""
        if self.choices:
            return trial.suggest_categorical(name, list(self.choices))
        if self.whole:
            return trial.suggest_int(name, int(self.low), int(self.high), log=self.log)
        return self.short(trial.suggest_float(name, self.low, self.high, log=self.log))

    def short(self, value: Any) -> Any:
        """A number with three digits, as people write settings."""
        return float(f"{value:.3g}") if isinstance(value, float) and not self.choices else value

    def holds(self, value: Any) -> bool:
        """Whether a value lies on the axis, so that it can be the first to be tried."""
        if self.choices:
            return value in self.choices
        return isinstance(value, int | float) and self.low <= value <= self.high

    def to_json(self) -> dict[str, Any]:
        return (
            {"choices": list(self.choices)}
            if self.choices
            else {"low": self.low, "high": self.high, "log": self.log}
        )


Space = dict[str, Axis]


def _positive(low: float, high: float) -> Axis:
    return Axis(low, high, log=True)


_CG = _positive(1, 8)
_SHARE = Axis(choices=(0.0, 0.85, 1.0))

SPACES: dict[str, Space] = {
    "paseo": {
        "inner_steps": Axis(1, 4),
        "cg_budget": _CG,
        "relaxation": _positive(0.15, 1.0),
        "damping": Axis(choices=(0.0, 0.001, 0.005, 0.02, 0.05, 0.2)),
        "operator_noise": _positive(0.005, 1.0),
        "anchor": Axis(choices=("arc", "denoiser")),
        "start": Axis(choices=("proxy", "mean")),
        "eta": Axis(choices=("ddpm", "square", "sqrt")),
        "shift": Axis(choices=(None, 2.0, 3.0)),
        "weight": Axis(choices=("soft", "fixed", "mask"), masked=True),
    },
    "silo": {
        "scale": _positive(0.25, 64.0),
        "shift": Axis(choices=(None, 0.125, 0.25, 0.5, 1.0, 2.0)),
        "eta": Axis(choices=(0.0, 1.0)),
    },
    "resample": {
        "guidance": _positive(0.01, 3.0),
        "lr_latent": _positive(1e-3, 0.1),
        "every": Axis(choices=(5, 10, 15, 25)),
        "resample_scale": _positive(4.0, 400.0),
    },
    "psld": {
        "guidance": _positive(0.1, 100.0),
        "gluing": _positive(0.01, 10.0),
        "eta": Axis(choices=(0.0, 1.0)),
    },
    "gml-dps": {
        "guidance": _positive(0.1, 100.0),
        "goodness": _positive(0.01, 10.0),
        "eta": Axis(choices=(0.0, 1.0)),
    },
    "ldps": {"guidance": _positive(0.1, 100.0), "eta": Axis(choices=(0.0, 1.0))},
    "ding": {
        "observation_noise": _positive(1e-3, 1.0),
        "eta": Axis(choices=("ddpm", "square", "sqrt")),
        "erode": Axis(choices=(False, True)),
    },
    "daps": {
        "step_size": _positive(1e-7, 1e-2),
        "step_ratio": Axis(choices=(0.1, 0.43, 1.0)),
        "tau": _positive(0.005, 0.2),
    },
    "red-diff": {"lr": _positive(0.01, 5.0), "prior_weight": _positive(0.01, 4.0)},
    "flow-dps": {"step_size": _positive(0.1, 100.0), "inner_steps": Axis(choices=(1, 3, 10))},
    "flow-chef": {"step_size": _positive(0.1, 100.0), "inner_steps": Axis(choices=(1, 3, 10))},
    "pnp-flow": {
        "lr": _positive(0.01, 20.0),
        "weighting": Axis(choices=("constant", "power")),
        "exponent": Axis(choices=(0.25, 0.5, 1.0)),
    },
    "dds": {"gamma": _positive(0.1, 1000.0), "cg_budget": _CG, "eta": _SHARE},
    "diffpir": {
        "lam": _positive(0.1, 1000.0),
        "zeta": Axis(choices=(0.1, 0.25, 0.5, 1.0)),
        "last_data_step": Axis(choices=(False, True)),
    },
    "ddnm": {"eta": _SHARE, "cg_budget": _CG, "plus": Axis(choices=(False, True))},
}


def space_of(
    method: str, *, masks: bool, fixed: Mapping[str, Any] | None = None, changes: Sequence[str] = ()
) -> Space:
    """The axes of a method for a task that hides pixels or not, without the fields that are fixed."""
    known = {f.name for f in fields(find_method(method).cls)}
    space = {name: axis for name, axis in SPACES[method].items() if axis.masked in (None, masks)}
    for change in changes:
        name, axis = read_axis(change)
        if name not in known:
            raise BadInput(f"{method} has no setting {name!r}. It has: {', '.join(sorted(known))}.")
        space[name] = axis
    space = {name: axis for name, axis in space.items() if name not in (fixed or {})}
    if not space:
        raise BadInput(f"Nothing is left to tune in {method}: every field of its space is fixed.")
    return space


def read_axis(text: str) -> tuple[str, Axis]:
    """field=low:high, field=low:high:log or field=a,b,c."""
    name, equals, body = text.partition("=")
    if not equals or not body:
        raise BadInput(f"{text!r} is not a range: write field=low:high, field=low:high:log or field=a,b,c.")
    parts = body.split(":")
    if len(parts) == 1:
        return name.strip().replace("-", "_"), Axis(choices=tuple(_literal(p) for p in body.split(",")))
    low, high = _literal(parts[0]), _literal(parts[1])
    if (
        len(parts) > 3
        or parts[2:] not in ([], ["log"])
        or not all(isinstance(v, int | float) for v in (low, high))
    ):
        raise BadInput(
            f"{text!r} is not a range: write field=low:high, or field=low:high:log for a logarithmic one."
        )
    return name.strip().replace("-", "_"), Axis(low, high, log=len(parts) == 3)  # ty: ignore[invalid-argument-type]  (numbers, as just checked)


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
