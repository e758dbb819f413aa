"""What an operator must say about itself to be used rightly: its latent space, its degradation, its noise,
its training.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, get_args

from paseo.errors import BadInput
from paseo.operators.family import Family

NoiseUnit = Literal["unit", "signed"]
WIDTHS = (48, 96, 128)  # channels of the network's three levels: the paper's 1.2M parameters
GROUPS = 8  # of every GroupNorm: widths are multiples of it


@dataclass(frozen=True)
class OperatorConfig:
    """The config.json of an operator."""

    channels: int  # of the latent
    latent_space: str = ""  # id of the latent space, such as "faces-128" or "sd3.5"
    vae_hash: str = ""  # sha256 of the autoencoder's weights; empty = not known, fits any
    degradation: str = ""  # name of the task, such as "sr4"
    degradation_params: dict[str, object] = field(default_factory=dict)
    noise_range: tuple[float, float] = (0.0, 0.02)  # of the training noise; U(0, 0.04) on [-1,1] images
    noise_unit: NoiseUnit = "unit"  # of noise_range: "unit" = images in [0,1], "signed" = images in [-1,1]
    residual: tuple[float, ...] = ()  # RMS of H(z) − E(y) per channel on held-out images; empty = not known
    training: dict[str, Any] = field(
        default_factory=dict
    )  # summary: data, steps, loss, final validation error
    family: Family | None = None  # of an operator for many degradations; a dedicated one has none
    widths: tuple[int, int, int] = WIDTHS  # narrower ones cost less where the denoiser is small
    pooled: bool = False  # the two inner levels at half the resolution, a leaner network (pool.py)

    def __post_init__(self) -> None:
        if (
            isinstance(self.channels, bool)
            or not isinstance(self.channels, int)
            or not 1 <= self.channels <= 4096
        ):
            raise BadInput(
                f"channels={self.channels!r} is not the channel count of a latent (4 for SD 1.x, 16 for SD3)."
            )
        if self.noise_unit not in get_args(NoiseUnit):
            raise BadInput(f"noise_unit={self.noise_unit!r} is not one of {', '.join(get_args(NoiseUnit))}.")
        if isinstance(self.family, Mapping):
            object.__setattr__(self, "family", Family.from_dict(self.family))
        object.__setattr__(self, "widths", check_widths(self.widths))
        object.__setattr__(self, "noise_range", _range(self.noise_range))
        object.__setattr__(self, "residual", _errors(self.residual, self.channels))
        for name, value, kind in (
            ("latent_space", self.latent_space, str),
            ("vae_hash", self.vae_hash, str),
            ("degradation", self.degradation, str),
            ("pooled", self.pooled, bool),
            ("degradation_params", self.degradation_params, dict),
            ("training", self.training, dict),
        ):
            if not isinstance(value, kind):
                raise BadInput(f"{name}={value!r} in an operator's config is not a {kind.__name__}.")
        if not isinstance(self.training.get("settings", {}), dict):
            raise BadInput(
                "training.settings in an operator's config is not a table of the settings it was trained "
                "with."
            )
        factor = self.degradation_params.get("factor", 1)
        if type(factor) is not int or not 1 <= factor <= 64:
            raise BadInput(
                f"degradation_params.factor={factor!r} in an operator's config is not a whole number from "
                f"1 to 64."
            )

    @property
    def unit_noise_range(self) -> tuple[float, float]:
        """The training noise as σ_y, in [0,1] units."""
        low, high = self.noise_range
        return (low, high) if self.noise_unit == "unit" else (low / 2, high / 2)

    def to_dict(self) -> dict[str, Any]:
        values = {**asdict(self), "noise_range": list(self.noise_range), "residual": list(self.residual)}
        if self.family is None:
            del values["family"]  # the config of a dedicated operator stays what it was
        if self.widths == WIDTHS:
            del values["widths"]
        if not self.pooled:
            del values["pooled"]
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> OperatorConfig:
        """From a config.json; entries that start with an underscore belong to the library that wrote them."""
        known = {f.name for f in fields(cls)}
        unknown = sorted(k for k in values if k not in known and not k.startswith("_"))
        if unknown:
            raise BadInput(
                f"Unknown entries in an operator's config: {', '.join(unknown)}. Known: "
                f"{', '.join(sorted(known))}."
            )
        if "channels" not in values:
            raise BadInput(
                "An operator's config needs at least 'channels', the channel count of its latent space."
            )
        return cls(**{k: v for k, v in values.items() if k in known})


def check_widths(value: Iterable[int]) -> tuple[int, int, int]:
    """Three multiples of 8, or an error."""
    try:
        widths = tuple(value)
    except TypeError:
        widths = ()
    if len(widths) != 3 or not all(type(w) is int and 0 < w <= 1024 and w % GROUPS == 0 for w in widths):
        raise BadInput(
            f"widths={value!r}, expected three multiples of {GROUPS} up to 1024, such as 48,96,128."
        )
    return widths[0], widths[1], widths[2]


def _range(value: Iterable[float]) -> tuple[float, float]:
    try:
        low, high = (float(v) for v in value)
    except (TypeError, ValueError):
        raise BadInput(f"noise_range={value!r} is not a pair of numbers such as [0.0, 0.02].") from None
    if not (0 <= low <= high and math.isfinite(high)):
        raise BadInput(f"noise_range={value!r} is not an interval 0 ≤ low ≤ high.")
    return low, high


def _errors(value: Iterable[float], channels: int) -> tuple[float, ...]:
    try:
        errors = tuple(float(v) for v in value)
    except (TypeError, ValueError):
        raise BadInput(
            f"residual={value!r} is not a list of numbers, the operator's RMS error per channel."
        ) from None
    if errors and (len(errors) != channels or not all(0 < v < math.inf for v in errors)):
        raise BadInput(
            f"residual has {len(errors)} entries, expected none or {channels} positive numbers, one per "
            "latent channel."
        )
    return errors
