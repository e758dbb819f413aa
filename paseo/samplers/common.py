"""What every method beside PASEO shares: the start, gradients, the end of a step.

Norms, clamps and stopping are per sample, so that one sample alone equals the same sample in a batch, and all
methods start from the same noise: for one seed they differ in the method only.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import torch
from torch import Tensor

from paseo.base import Problem, Sampler, Step, Watch
from paseo.errors import NotFinite, Unsupported
from paseo.noise import Noise
from paseo.samplers.guard import check_pixels, check_problem, show
from paseo.schedule import Point


def begin(sampler: Sampler, problem: Problem, noise: Noise) -> None:
    """Refuse what the method cannot express and what is not a measurement."""
    if reason := sampler.unsupported(problem):
        raise Unsupported(f"{type(sampler).__name__} cannot run here: {reason}")
    check_problem(sampler, problem, noise)
    check_pixels(problem)


def first_state(point: Point, problem: Problem, noise: Noise) -> Tensor:
    """Pure noise at the first level, in at least float32; the same draw for every method."""
    dtype = torch.promote_types(problem.y_z.dtype, torch.float32)
    return point.scale * noise.normal(problem.shape).to(problem.y_z.device, dtype)


def end_step(watch: Watch, index: int, total: int, point: Point, x: Tensor, z: Tensor, hint: str) -> Tensor:
    """A finite state, or an error that names the step and a setting to try; then the hook, once.

    Returns the state to go on from.
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
