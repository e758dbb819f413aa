"""Likelihood weights W = diag(w): how far each entry of the measurement is believed.

`soft` and `fixed` read w_i ∝ ‖J_i‖, the norm of the operator's i-th row, from Hutchinson probes: E[(J u)_i²]
= (J Jᵀ)_ii for random signs u. An entry that no latent can move (the hole of an inpainting mask) then does
not count.

`residual` goes beyond the paper: the noise r_i of entry i is proportional to the error the operator made
there on held-out images, w_i = r/r_i. Entries it predicts well (on JPEG: the smooth part) then count for more
than those it cannot know.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from paseo.base import KnowsResidual, Problem
from paseo.errors import BadInput
from paseo.linalg import linearize
from paseo.noise import Noise

Weight = Literal["ones", "soft", "fixed", "mask", "residual"]
PROBES = 4
THRESHOLD = 0.2  # of the largest weight, for `fixed`


def sensitivity(J: Callable[[Tensor], Tensor], z: Tensor, noise: Noise, probes: int = PROBES) -> Tensor:
    """Row norms of J at z, scaled to a largest entry of 1 in each sample."""
    squares = torch.stack([J(noise.signs(z)).square() for _ in range(probes)]).mean(0)
    w = squares.sqrt()
    return w / w.flatten(1).amax(1).clamp_min(torch.finfo(w.dtype).tiny).view(-1, *[1] * (w.ndim - 1))


def constant_weight(kind: Weight, problem: Problem, noise: Noise) -> Tensor | None:
    """The weight that holds for a whole run, or None where each correction has its own (`soft`)."""
    if kind == "soft":
        return None
    if kind == "ones":
        return torch.ones((), dtype=problem.y_z.dtype, device=problem.y_z.device)
    if kind == "mask":
        if problem.observed is None:
            raise BadInput(
                "weight='mask' needs problem.observed, the latent cells that are seen. Use weight='soft' "
                "to do without a mask."
            )
        return _fitting(problem.observed.to(problem.y_z), problem.y_z)
    if kind == "residual":
        error = residual(problem)
        if error is None:
            raise BadInput(
                "weight='residual' needs an operator that knows its errors per channel. Use weight='ones', "
                "or train it again."
            )
        return error.square().mean().sqrt() / error
    w = sensitivity(linearize(problem.operator, problem.y_z).J, problem.y_z, noise)
    return erode(w * (w >= THRESHOLD))


def residual(problem: Problem) -> Tensor | None:
    """The operator's own RMS error in each entry of the measurement, where it knows it; broadcasts to y_z."""
    error = problem.operator.residual if isinstance(problem.operator, KnowsResidual) else None
    return None if error is None else _fitting(error.to(problem.y_z), problem.y_z)


def noise_spread(kind: Weight, W: Tensor | None) -> Tensor | float:
    """r_i / r, the noise of each entry against the mean: only `residual` weights stand for unequal noise."""
    return 1 / W if kind == "residual" and W is not None else 1.0


def _fitting(w: Tensor, y_z: Tensor) -> Tensor:
    try:
        fits = torch.broadcast_shapes(w.shape, y_z.shape) == y_z.shape
    except RuntimeError:
        fits = False
    if not fits or not (torch.isfinite(w) & (w >= 0)).all():
        raise BadInput(
            f"The weights {tuple(w.shape)} do not fit a measurement {tuple(y_z.shape)}: expected a shape "
            "that broadcasts to it and finite entries from 0 (hidden) on."
        )
    return w


def erode(w: Tensor) -> Tensor:
    """Drop the one-cell rim of the region where w > 0, in the two spatial axes."""
    if w.ndim != 4:
        return w
    empty = F.pad((w <= 0).to(w.dtype), (1, 1, 1, 1), value=0.0)  # the image border is no rim
    return w * (F.max_pool2d(empty, 3, stride=1) == 0)
