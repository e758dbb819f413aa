"""What is checked before, during and after a run, so that a sampler's own file is its algorithm.

Every message names the value, what was expected and the way out.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from paseo.base import Problem, Sampler, Step, Watch
from paseo.errors import BadInput, NotFinite
from paseo.linalg import Solve
from paseo.noise import Noise
from paseo.schedule import EtaRule, Point

Trace = dict[str, list[Any]]


def check_problem(sampler: Sampler, problem: Problem, noise: Noise) -> None:
    """A measurement that can be used, and as many seeds as there are samples."""
    y_z = problem.y_z
    if not y_z.is_floating_point() or y_z.ndim < 2:
        raise BadInput(
            f"The encoded measurement is {y_z.dtype} of shape {tuple(y_z.shape)}; expected a batch (B, …) "
            "of floats."
        )
    if not torch.isfinite(y_z).all():
        raise BadInput(
            "The encoded measurement holds NaN or infinite values. Check the input image and the codec."
        )
    if not problem.shape[0] == y_z.shape[0] == len(noise):
        raise BadInput(
            f"{problem.shape[0]} latents, {y_z.shape[0]} measurements and {len(noise)} seeds do not go "
            "together; give one each."
        )
    if reason := sampler.unsupported(problem):
        raise BadInput(reason)


def check_pixels(problem: Problem) -> None:
    """The measurement itself, for those who use it."""
    if problem.y.shape[0] != problem.shape[0] or not torch.isfinite(problem.y).all():
        raise BadInput(
            f"The measurement {tuple(problem.y.shape)} must be finite, with one entry for each of "
            f"{problem.shape[0]} latents."
        )


def check_finite(x: Tensor, k: int, total: int, s: Point) -> None:
    """After step k (from 0) of `total`, which arrived at s."""
    if not torch.isfinite(x).all():
        raise NotFinite(
            f"The latent became non-finite at step {k + 1} of {total} (t={s.t:.4g}). Try a smaller cg_budget "
            "or relaxation, or more damping; if the prior itself returned it, run the prior in float32."
        )


def narrowest_prior(points: list[Point], rule: EtaRule) -> float:
    """η_z,min of a run; a bridge without width leaves nothing to infer."""
    narrowest = min(points[1:-1], key=lambda s: s.eta_z)
    if not narrowest.eta > 0:
        raise BadInput(
            f"eta={rule!r} gives a bridge of width 0 at t={narrowest.t:.4g} on this schedule; use eta='ddpm'."
        )
    return narrowest.eta_z


def show(watch: Watch, step: Step) -> Tensor:
    """Show the hook a step, once; the state the run goes on from is what it returned, or the step's own."""
    new = watch(step)
    if new is None or new is step.x:
        return step.x
    if new.shape != step.x.shape:
        raise BadInput(
            f"The hook returned a state of shape {tuple(new.shape)} at step {step.index + 1}; expected "
            f"{tuple(step.x.shape)}, or None to change nothing."
        )
    return new.detach().to(step.x, copy=True)  # the hook may go on using its own


def record(trace: Trace, solve: Solve, eta_z: float, step: Tensor) -> None:
    """Append one correction's figures, each a list with one entry per sample."""
    trace.setdefault("eta_z", []).append(eta_z)
    trace.setdefault("iterations", []).append(solve.iterations.tolist())
    trace.setdefault("residual", []).append([] if solve.residual is None else solve.residual.tolist())
    trace.setdefault("step_norm", []).append(step.flatten(1).norm(dim=1).tolist())
