"""linearize(H, z) → (h, J, Jᵀ): the value and the two products with the Jacobian at z, never a matrix.

Works for any differentiable callable: VJPs run backwards through one retained graph, JVPs are forward-mode dual passes.
An operator that brings a method `linearize(z)` is asked instead; the 1.2M CNN has one whose products cost one forward.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

Map = Callable[[Tensor], Tensor]


class Linearization(NamedTuple):
    """H(z') ≈ h + J(z' − z)."""

    h: Tensor
    J: Map
    JT: Map


def linearize(H: Callable[[Tensor], Tensor], z: Tensor) -> Linearization:
    """Linearise H at z; gradients are enabled only in here."""
    own = getattr(H, "linearize", None)
    return Linearization(*own(z)) if own is not None else autograd_linearize(H, z)


def autograd_linearize(H: Callable[[Tensor], Tensor], z: Tensor) -> Linearization:
    """The general case, by automatic differentiation."""
    z = z.detach()
    with torch.enable_grad():
        z_in = z.clone().requires_grad_(True)
        h = H(z_in)

    def JT(u: Tensor) -> Tensor:
        if not h.requires_grad:  # H does not depend on z
            return torch.zeros_like(z)
        (g,) = torch.autograd.grad(h, z_in, u, retain_graph=True, allow_unused=True)
        return torch.zeros_like(z) if g is None else g

    def J(v: Tensor) -> Tensor:
        return torch.func.jvp(H, (z,), (v,))[1].detach()

    return Linearization(h.detach(), J, JT)


def power_norm(J: Map, JT: Map, v: Tensor, iterations: int = 20) -> Tensor:
    """‖J‖₂ per sample by power iteration on JᵀJ, started at v."""
    for _ in range(iterations):
        v = v / v.flatten(1).norm(dim=1).clamp_min(1e-30).view(-1, *[1] * (v.ndim - 1))
        v = JT(J(v))
    return v.flatten(1).norm(dim=1).sqrt()
