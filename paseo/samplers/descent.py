"""A few steps of a torch optimiser on per-sample losses, each sample stopping by its own rule.

The optimisers are elementwise, so samples share one instance without knowing each other; a sample that has
stopped keeps its value while the others go on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor
from torch.optim import SGD, Adam, AdamW, Optimizer

from paseo.samplers.common import gradients, leaf, per_sample

OptimiserName = Literal["sgd", "adam", "adamw"]


def optimiser(name: OptimiserName, variable: Tensor, lr: float, weight_decay: float = 0.0) -> Optimizer:
    """A fresh optimiser of one tensor."""
    if name == "sgd":
        return SGD([variable], lr=lr, weight_decay=weight_decay)
    return (Adam if name == "adam" else AdamW)([variable], lr=lr, weight_decay=weight_decay)


def descend(
    start: Tensor,
    losses: Callable[[Tensor], Tensor],
    name: OptimiserName,
    lr: float,
    iterations: int,
    *,
    weight_decay: float = 0.0,
    stop_below: float = 0.0,
    patience: int | None = None,
) -> Tensor:
    """Minimise losses(v), (B,), from `start`.

    A sample stops when its loss falls below `stop_below`, or when it is no lower than `patience` iterations
    earlier.
    """
    v = leaf(start)
    if iterations == 0 or lr == 0:
        return v.detach()
    optimizer = optimiser(name, v, lr, weight_decay)
    live = torch.ones(v.shape[0], dtype=torch.bool, device=v.device)
    history: list[Tensor] = []
    for i in range(iterations):
        with gradients():
            value = losses(v)
            (v.grad,) = torch.autograd.grad(value.sum(), v)
        value = value.detach()
        live &= ~(value < stop_below)  # NaN stays live and is reported by the sampler
        if patience is not None:
            history.append(value)
            live &= ~(value > history[i - patience]) if i >= patience else live
        if not live.any():
            break
        before = v.detach().clone()
        optimizer.step()
        with torch.no_grad():
            v.copy_(torch.where(per_sample(live, v), v, before))
    return v.detach()
