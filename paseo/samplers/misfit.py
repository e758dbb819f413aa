"""How well a latent explains the measurement in pixels: y against A(D(z)), and its gradient in z.

Losses take the residual r = y − A(D(z)) and return one number per sample. `lifted_norm` is ‖B r‖ for B = I,
Aᵀ or A⁺: its gradient in r is BᵀB r / ‖B r‖, which is computed apart and enters as a constant, so that
neither the adjoint nor the solve behind A⁺ is ever differentiated. JPEG shows the derivative of its
differentiable twin.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from paseo.base import Codec, Degradation, FitsSize, LinearDegradation, Problem
from paseo.errors import Unsupported
from paseo.linalg import cg
from paseo.samplers.common import gradients, leaf, norms, per_sample

Loss = Callable[[Tensor], Tensor]  # residual (B, …) → (B,)
Lift = Literal["adjoint", "pinv", "none"]
PINV_BUDGET = 50  # CG iterations on AᵀA
PINV_TOLERANCE = 1e-5  # relative residual at which A⁺ counts as solved


def needs_pixels(problem: Problem) -> str | None:
    """The reason why a method that compares in pixels cannot run, or None."""
    needed = {"degradation": problem.degradation, "codec": problem.codec}
    missing = [name for name, part in needed.items() if part is None]
    if missing:
        names = " and ".join(missing)
        return f"it compares in pixels and needs the problem's {names}, which is None. Try SILO or PASEO."
    return None


def needs_adjoint(problem: Problem) -> str | None:
    """The same for a method that also needs Aᵀ."""
    if reason := needs_pixels(problem):
        return reason
    if not has_adjoint(problem):
        name = degradation_of(problem).name
        return f"it needs A.adjoint, and {name} has none because it is not linear. Try LDPS or GML-DPS."
    return None


def has_adjoint(problem: Problem) -> bool:
    return isinstance(problem.degradation, LinearDegradation) and bool(problem.degradation.linear)


def degradation_of(problem: Problem) -> Degradation:
    if problem.degradation is None:
        raise Unsupported("This problem has no degradation, so nothing can be compared in pixels.")
    return problem.degradation


def codec_of(problem: Problem) -> Codec:
    if problem.codec is None:
        raise Unsupported("This problem has no codec, so nothing can be decoded.")
    return problem.codec


def degrade(problem: Problem, image: Tensor) -> Tensor:
    """A(x̂). An image that is not finite gives NaN, which the sampler reports with its step, instead of the
    codec's error.
    """
    if not torch.isfinite(image).all():
        return torch.full_like(problem.y, math.nan) * image.sum()
    return degradation_of(problem)(image)


def explain(problem: Problem, z: Tensor) -> Tensor:
    """A(D(z))."""
    return degrade(problem, codec_of(problem).decode(z))


def encoded(problem: Problem) -> Tensor:
    """E(lift(y)): the measurement at image size, as a latent, in at least float32."""
    z = problem.y_z
    if tuple(z.shape) != problem.shape:
        z = codec_of(problem).encode(degradation_of(problem).lift(problem.y))
    return z.detach().to(torch.promote_types(z.dtype, torch.float32))


def half_square(r: Tensor) -> Tensor:
    """½‖r‖² per sample."""
    return 0.5 * r.flatten(1).square().sum(1)


def square(r: Tensor) -> Tensor:
    """‖r‖² per sample."""
    return r.flatten(1).square().sum(1)


def pixel_gradient(problem: Problem, z: Tensor, loss: Loss) -> Tensor:
    """∇_z loss(y − A(D(z))) per sample; the graph is gone when this returns."""
    with gradients():
        z = leaf(z)
        (g,) = torch.autograd.grad(loss(problem.y - explain(problem, z)).sum(), z)
    return g


def adjoint(problem: Problem, r: Tensor) -> Tensor:
    """Aᵀ r, at the image's size."""
    A = degradation_of(problem)
    if not isinstance(A, LinearDegradation):
        raise Unsupported(f"{A.name} has no adjoint. Use a method that needs none.")
    return A.adjoint(r, image_size(problem))


def image_size(problem: Problem) -> tuple[int, int] | None:
    """(H, W) of the image behind the latent; a codec that pads and crops knows its own."""
    if len(problem.shape) != 4:
        return None
    codec = problem.codec
    if isinstance(codec, FitsSize):
        return codec.size
    factor = 1 if codec is None else codec.factor
    return factor * problem.shape[-2], factor * problem.shape[-1]


def lifted_norm(problem: Problem, lift: Lift) -> Loss:
    """r ↦ ‖B r‖ with B = Aᵀ, A⁺ or the identity; a degradation without adjoint is compared as it is."""
    if lift == "none" or not has_adjoint(problem):
        return norms

    def loss(r: Tensor) -> Tensor:
        with torch.no_grad():
            Mr = gram(problem, r.detach(), lift)  # BᵀB r
            length = (r.detach() * Mr).flatten(1).sum(1).clamp_min(0).sqrt()  # ‖B r‖
            c = Mr / per_sample(length.clamp_min(torch.finfo(r.dtype).tiny), r)
        return (r * c).flatten(1).sum(1)

    return loss


def gram(problem: Problem, r: Tensor, lift: Lift) -> Tensor:
    """BᵀB r: A Aᵀ r for the adjoint; A (AᵀA)⁺ (AᵀA)⁺ Aᵀ r for A⁺, each pseudo-inverse by CG from zero."""
    A = degradation_of(problem)
    if lift == "adjoint":
        return A(adjoint(problem, r))

    def solve(x: Tensor) -> Tensor:
        return cg(lambda d: adjoint(problem, A(d)), x, PINV_BUDGET, PINV_TOLERANCE).v

    return A(solve(solve(adjoint(problem, r))))
