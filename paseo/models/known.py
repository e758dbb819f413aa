"""What a model says of the pictures it knows (`known.json` in its folder): words for people, and limits.

A drawing or a page of text differs from a photograph before any network looks at it: most of it has one
brightness, neighbours are equal, and what is not even is a sharp edge. Four numbers of the measurement at the
result's size,

    even        log odds of the share of pixels within a band of brightness that holds most of them
    flat        log odds of the share of neighbours that hardly differ
    peaked      log of the kurtosis of these differences
    extreme     share of pixels that are black or white,

weighed as in a logistic regression, tell them apart; the sum is above zero for a picture the model does not
know. `denoised` is a limit for how far the model's own denoiser moves the picture, for a model that knows one
subject alone. docs/troubleshooting.md has the rates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from paseo.errors import BadInput
from paseo.files import read_json
from paseo.models import Model
from paseo.units import to_signed

FILE = "known.json"
PHOTOGRAPHS = "photographs"  # what a model that says nothing is made for
BAND = 15  # of 256 levels of brightness
HARDLY = 0.012  # difference of neighbours, in [0,1]
LEVEL = 2.0  # σ/α at which the denoiser is asked


def known_pictures(model: Model) -> str:
    """Which pictures a model is made for, in words."""
    return str(_entries(model).get("pictures", PHOTOGRAPHS))


def unknown_picture(model: Model, picture: Tensor) -> str | None:
    """Why this picture (3,H,W) in [0,1] is none that the model knows, or None. It may still be degraded."""
    entries = _entries(model)
    weights = entries.get("look")
    if weights is not None and min(picture.shape[-2:]) >= 8 and looks_drawn(picture, weights) > 0:
        return (
            f"it looks like a drawing or a page of text, and {model.name} knows {known_pictures(model)}: "
            "details may be invented."
        )
    limit = entries.get("denoised")
    if limit is not None and strangeness(model, picture) > float(limit):
        pictures = known_pictures(model)
        return f"it is unlike what {model.name} knows, which is {pictures}: details may be invented."
    return None


def looks_drawn(picture: Tensor, weights: Mapping[str, float]) -> float:
    """The weighed sum; above zero for a drawing."""
    numbers = look_of(picture)
    return float(weights["bias"]) + sum(float(weights[name]) * value for name, value in numbers.items())


def look_of(picture: Tensor) -> dict[str, float]:
    """The four numbers of a picture (3,H,W) in [0,1]."""
    grey = picture.mean(0).double()
    levels = torch.bincount((grey * 255).round().long().flatten().clamp(0, 255), minlength=256).double()
    across, down = grey.diff(dim=1).abs().flatten(), grey.diff(dim=0).abs().flatten()
    d = torch.cat([across, down])
    fourth, spread = (d - d.mean()).pow(4).mean(), d.var()
    return {
        "even": _log_odds(float(levels.unfold(0, BAND, 1).sum(1).max() / levels.sum())),
        "flat": _log_odds(float((d < HARDLY).double().mean())),
        "peaked": math.log(float(fourth / spread.square().clamp_min(1e-12)) + 1e-9),
        "extreme": float(((grey < 0.04) | (grey > 0.96)).double().mean()),
    }


@torch.no_grad()
def strangeness(model: Model, picture: Tensor) -> float:
    """RMS of x̂₀(αz + σε) − z at a middle noise level, for the picture at the trained size."""
    x = F.interpolate(picture[None], (model.size, model.size), mode="area")
    z = model.codec.encode(to_signed(x).to(_device(model)))
    noise = torch.randn(z.shape, generator=torch.Generator().manual_seed(0)).to(z)
    point = model.prior.schedule.at_level(LEVEL)
    found = model.prior.x0(point.alpha * z + point.sigma * noise, point.t)
    return float((found - z).square().mean().sqrt())


def _log_odds(share: float) -> float:
    return math.log((share + 1e-9) / (1 - share + 1e-3))


def _device(model: Model) -> torch.device:
    codec = model.codec
    found = next(codec.parameters(), None) if isinstance(codec, torch.nn.Module) else None
    return found.device if found is not None else torch.device("cpu")


def _entries(model: Model) -> dict[str, Any]:
    path = model.folder / FILE if model.folder is not None else Path()
    if not path.is_file():
        return {}
    entries = read_json(path)
    if not isinstance(entries, dict):
        raise BadInput(f"{path} does not describe what the model knows. Remove it, or copy it again.")
    return entries
