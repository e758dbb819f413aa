"""The settings every training run has; the recipes inherit them and add their own.

Each field carries its help text, from which the command line builds its options.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

import torch

from paseo.setting import check_settings, setting, values_of

DEFAULT_STEPS = 20_000
Precision = Literal["auto", "bf16", "fp32"]


def option(default: Any, help: str, range: str = "") -> Any:
    """A setting of a training run; `...` as default makes it required."""
    return setting(default, "", help, range)


def budget(default: Any, help: str, range: str = "") -> Any:
    """An option that may change between the sittings of one run: it does not alter what a given step
    computes.
    """
    return setting(default, "", help, range, free=True)


@dataclass(frozen=True, kw_only=True)
class LoopConfig:
    """Budget, optimiser, bookkeeping."""

    out: Path = option(..., "Folder of the run: checkpoint, log, plot and the exported weights.")
    steps: int | None = budget(
        None, "Optimiser steps in all, over which the cosine falls; 20000 if no budget is given.", "[1, 1e9]"
    )
    minutes: float | None = budget(
        None,
        "Time budget over all sittings; with both, the run ends at whichever is used up first.",
        "(0, 1e6]",
    )
    batch_size: int = option(16, "Samples per step, over all processes together.", "[1, 65536]")
    lr: float = option(1e-3, "Peak learning rate.", "(0, 1000]")
    schedule: Literal["cosine", "constant"] = option("cosine", "Learning rate after the warm-up.")
    warmup: int = option(100, "Steps over which the learning rate rises linearly from zero.", "[0, 1e9)")
    final_lr: float = option(
        0.03, "Learning rate at the end of the cosine, as a fraction of the peak.", "[0, 1]"
    )
    weight_decay: float = option(0.0, "Decoupled weight decay (AdamW).", "[0, 10)")
    beta2: float = option(0.999, "Adam's second-moment decay.", "[0, 1)")
    clip: float | None = option(
        1.0, "Largest gradient norm; none to leave gradients as they are.", "(0, 1e6]"
    )
    ema: float = option(
        0.999,
        "Decay of the averaged weights that are validated and exported; 0 for the raw weights.",
        "[0, 1)",
    )
    seed: int = option(
        0, "Decides the initial weights, the order of the data and all noise.", "[0, 2147483647]"
    )
    precision: Precision = option(
        "auto", "bf16 autocast, fp32, or auto: bf16 where the hardware multiplies it."
    )
    device: Literal["auto", "cpu"] = option("auto", "auto takes an accelerator if there is one.")
    log_every: int = option(50, "Steps between two lines of the log.", "[1, 1e9]")
    validate_every: int = option(500, "Steps between two validations.", "[1, 1e9]")
    checkpoint_minutes: float = budget(3.0, "Minutes between two checkpoints.", "[0, 1e6]")
    resume: bool = budget(True, "Go on from the checkpoint in OUT if there is one; otherwise start over.")
    quiet: bool = budget(False, "No progress bar.")

    def __post_init__(self) -> None:
        object.__setattr__(self, "out", Path(self.out))
        if self.steps is None and self.minutes is None:
            object.__setattr__(self, "steps", DEFAULT_STEPS)
        check_settings(self)

    def as_json(self) -> dict[str, object]:
        """All fields as JSON values, for records."""
        return json.loads(json.dumps(values_of(self), default=str))

    def identity(self) -> dict[str, Any]:
        """The fields that decide what a step computes: a checkpoint is continued only under the same ones."""
        free = {f.name for f in fields(self) if f.metadata.get("free")} | {"out"}
        return {name: value for name, value in self.as_json().items() if name not in free}

    def public(self) -> dict[str, Any]:
        """The same for exported files: folders by their last name, nothing about the machine."""
        names = {"data", "model", "start", "teacher", "specialists", "pairs"}
        names |= {"split"} if Path(str(self.identity().get("split", ""))).is_file() else set()
        values = {k: v for k, v in self.identity().items() if k not in ("device", "name") and v is not None}
        return {k: _last_names(v) if k in names else v for k, v in values.items()}

    def differences(self, earlier: dict[str, Any]) -> list[str]:
        """What differs from the identity of an earlier run; a field it did not know yet counts as its
        default.
        """
        defaults = {f.name: json.loads(json.dumps(f.default, default=str)) for f in fields(self)}
        was = {name: earlier.get(name, defaults[name]) for name in self.identity()}
        return [
            f"{name} was {was[name]!r}, is {value!r}"
            for name, value in self.identity().items()
            if was[name] != value
        ]

    def lr_at(self, step: int, progress: float) -> float:
        """Learning rate of a step (counted from 0) when `progress` ∈ [0,1] of the budget is used."""
        lr = self.lr * min(1.0, (step + 1) / max(1, self.warmup))
        if self.schedule == "constant":
            return lr
        return lr * (self.final_lr + (1 - self.final_lr) * 0.5 * (1 + math.cos(math.pi * min(1.0, progress))))

    def bf16_on(self, device: torch.device) -> bool:
        """Whether to autocast to bfloat16 on this device."""
        if self.precision != "auto":
            return self.precision == "bf16"
        if device.type == "cuda":
            return torch.cuda.is_bf16_supported(including_emulation=False)
        from paseo.hub.device import cpu_multiplies_bf16

        return device.type == "cpu" and cpu_multiplies_bf16()


def _last_names(value: object) -> object:
    if isinstance(value, list):
        return [Path(v).name for v in value]
    return ",".join(Path(v).name for v in str(value).split(","))  # several sets of pictures
