"""What every method beside PASEO shares: field checks, the start, gradients, one report per step.

Norms, clamps and stopping are per sample, so that one sample alone equals the same sample in a batch, and all
methods start from the same noise: for one seed they differ in the method only.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, Literal, get_origin, get_type_hints

import torch
from torch import Tensor

from paseo.base import Problem, Step, Watch
from paseo.errors import BadInput, NotFinite, Unsupported
from paseo.noise import Noise
from paseo.samplers.guard import check_problem, check_settings, show
from paseo.schedule import Point


def check_fields(sampler: Any, *conditions: tuple[str, bool, str], least_steps: int = 3) -> None:
    """Words among those of their Literal, enough steps, and the method's own conditions (field, holds, what
    it should be).
    """
    hints = get_type_hints(type(sampler))
    choices = {f.name: hints[f.name] for f in fields(sampler) if get_origin(hints[f.name]) is Literal}
    steps = ("steps", sampler.steps >= least_steps, f"this method needs at least {least_steps}")
    check_settings(sampler, choices, [steps, *conditions])


def not_negative(sampler: Any, *names: str) -> list[tuple[str, bool, str]]:
    """The commonest condition."""
    return [(name, getattr(sampler, name) >= 0, "it is not negative") for name in names]


def share(sampler: Any, *names: str) -> list[tuple[str, bool, str]]:
    return [(name, 0 <= getattr(sampler, name) <= 1, "it lies between 0 and 1") for name in names]


def begin(sampler: Any, problem: Problem, noise: Noise) -> None:
    """Refuse what the method cannot express and what is not a measurement."""
    if reason := sampler.unsupported(problem):
        raise Unsupported(f"{type(sampler).__name__} cannot run here: {reason}")
    check_problem(sampler, problem, noise)
    if problem.y.shape[0] != problem.shape[0] or not torch.isfinite(problem.y).all():
        raise BadInput(
            f"The measurement {tuple(problem.y.shape)} must be finite, with one entry for each of "
            f"{problem.shape[0]} latents."
        )


def first_state(point: Point, problem: Problem, noise: Noise) -> Tensor:
    """Pure noise at the first level, in at least float32; the same draw for every method."""
    dtype = torch.promote_types(problem.y_z.dtype, torch.float32)
    return point.scale * noise.normal(problem.shape).to(problem.y_z.device, dtype)


def report(watch: Watch, index: int, total: int, point: Point, x: Tensor, z: Tensor, hint: str) -> Tensor:
    """End of a step: a finite state, or an error that names the step and a setting to try; then the hook,
    once. Returns the state to go on from.
    """
    if not (torch.isfinite(x).all() and torch.isfinite(z).all()):
        raise NotFinite(
            f"The latent became non-finite at step {index + 1} of {total} (t={point.t:.4g}). Try {hint}."
        )
    return show(watch, Step(index, total, point, x, z))


@contextmanager
def gradients() -> Generator[None]:
    """Autograd on, whatever the caller switched off."""
    with torch.inference_mode(False), torch.enable_grad():
        yield


def leaf(x: Tensor) -> Tensor:
    """A copy of x with respect to which gradients are taken."""
    with torch.inference_mode(False):
        return x.detach().clone().requires_grad_(True)


def per_sample(values: Tensor, like: Tensor) -> Tensor:
    """(B,) shaped to broadcast over `like`."""
    return values.view(-1, *[1] * (like.ndim - 1))


def norms(x: Tensor) -> Tensor:
    """Euclidean norm per sample, (B,); its gradient at zero is zero."""
    return x.flatten(1).norm(dim=1)
