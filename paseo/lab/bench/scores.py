"""The metrics of a row, by name, under one protocol.

Restorations are scored as a file would be: clamped to [0,1] and rounded to 8 bit, at native size, nothing
else done to them. `PROTOCOL` is part of every row's key: raise it when a figure would change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from paseo.base import HidesPixels
from paseo.errors import BadInput
from paseo.metrics import consistency, lpips, psnr, ssim

PROTOCOL = 1


@dataclass(frozen=True, eq=False)
class ScoredPair:
    """Restorations beside their truths, (B,3,H,W) in [0,1], and the task between them."""

    image: Tensor
    truth: Tensor
    task: Any

    @property
    def hole(self) -> Tensor | None:
        """(1,1,H,W): 1 where pixels were hidden; None for tasks that hide none."""
        A = self.task.degradation
        if not isinstance(A, HidesPixels):
            return None
        return torch.ones(()) - A.observed_at(*self.image.shape[-2:]).to(self.image)


@dataclass(frozen=True)
class Metric:
    """One column of the tables."""

    name: str
    title: str
    higher: bool  # is better
    digits: int
    value: Callable[[ScoredPair], Tensor]  # (B,)
    regional: bool = False  # only for tasks that hide pixels


def _hole(pair: ScoredPair) -> Tensor:
    assert pair.hole is not None  # regional metrics are only asked for where there is one
    return pair.hole


METRICS: dict[str, Metric] = {
    m.name: m
    for m in (
        Metric("psnr", "PSNR", True, 2, lambda p: psnr(p.image, p.truth)),
        Metric("ssim", "SSIM", True, 3, lambda p: ssim(p.image, p.truth)),
        Metric("lpips", "LPIPS", False, 4, lambda p: lpips(p.image, p.truth, "alex")),
        Metric("lpips_vgg", "LPIPS-VGG", False, 4, lambda p: lpips(p.image, p.truth, "vgg")),
        Metric(
            "consistency",
            "consistency",
            False,
            4,
            lambda p: consistency(p.image, p.truth, p.task.degradation),
        ),
        Metric("psnr_hole", "PSNR hole", True, 2, lambda p: psnr(p.image, p.truth, _hole(p)), True),
        Metric("psnr_visible", "PSNR visible", True, 2, lambda p: psnr(p.image, p.truth, 1 - _hole(p)), True),
        Metric(
            "lpips_hole", "LPIPS hole", False, 4, lambda p: lpips(p.image, p.truth, "alex", _hole(p)), True
        ),
        Metric(
            "lpips_vgg_hole",
            "LPIPS-VGG hole",
            False,
            4,
            lambda p: lpips(p.image, p.truth, "vgg", _hole(p)),
            True,
        ),
    )
}


def metric(name: str) -> Metric:
    """The metric of that name."""
    if name not in METRICS:
        raise BadInput(f"There is no metric named {name!r}. Known: {', '.join(METRICS)}.")
    return METRICS[name]


def score(pair: ScoredPair, names: Sequence[str] | None = None) -> dict[str, Tensor]:
    """Name → (B,), of all metrics or of some; regional ones only where the task hides pixels."""
    chosen = METRICS.values() if names is None else [metric(name) for name in names]
    return {m.name: m.value(pair) for m in chosen if not m.regional or pair.hole is not None}


def eight_bit(x: Tensor) -> Tensor:
    """What a PNG would give back."""
    return (x.clamp(0, 1) * 255).round() / 255
