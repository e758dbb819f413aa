"""linearize(H, z) → (h, J, Jᵀ): the value and the two products with the Jacobian at z, never a matrix.

Works for any differentiable callable: VJPs run backwards through one retained graph, JVPs are forward-mode
dual passes, or, where a layer has no forward mode (a custom autograd.Function), two VJPs: u ↦ Jᵀu is linear,
and its own transpose is J. Attention is computed without its fused kernels, which have neither. An operator
that brings a method `linearize(z)` is asked instead; the 1.2M CNN has one whose products cost one forward.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

Map = Callable[[Tensor], Tensor]


class Linearization(NamedTuple):
    """H(z') ≈ h + J(z' − z)."""

    h: Tensor
    J: Map
    JT: Map


@runtime_checkable
class Linearizes(Protocol):
    """An operator that brings its own derivative."""

    def linearize(self, z: Tensor, /) -> tuple[Tensor, Map, Map]:
        """(H(z), v ↦ J v, u ↦ Jᵀ u) at z."""
        ...


def linearize(H: Callable[[Tensor], Tensor], z: Tensor) -> Linearization:
    """Linearise H at z; gradients are enabled only in here."""
    return Linearization(*H.linearize(z)) if isinstance(H, Linearizes) else autograd_linearize(H, z)


def autograd_linearize(H: Callable[[Tensor], Tensor], z: Tensor) -> Linearization:
    """The general case, by automatic differentiation."""
    with torch.inference_mode(False), torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
        z = z.detach().clone()
        z_in = z.clone().requires_grad_(True)
        h = H(z_in)
    forward_mode = True

    def JT(u: Tensor) -> Tensor:
        return _pull(h, z_in, u).detach()

    def J(v: Tensor) -> Tensor:
        nonlocal forward_mode
        if forward_mode:
            try:
                # torch 2.6 gives zeros inside inference mode
                with torch.inference_mode(False), sdpa_kernel(SDPBackend.MATH):
                    return torch.func.jvp(H, (z,), (v.clone(),))[1].detach()
            except torch.OutOfMemoryError:
                raise
            except (NotImplementedError, RuntimeError):
                forward_mode = False
        with torch.inference_mode(False), torch.enable_grad():
            u = torch.zeros_like(h).requires_grad_(True)
            return _pull(_pull(h, z_in, u, create_graph=True), u, v.clone()).detach()

    return Linearization(h.detach(), J, JT)


def _pull(out: Tensor, at: Tensor, u: Tensor, create_graph: bool = False) -> Tensor:
    """Jᵀu of the graph from `at` to `out`; zero where there is none."""
    if not out.requires_grad:
        return torch.zeros_like(at)
    (g,) = torch.autograd.grad(out, at, u, retain_graph=True, create_graph=create_graph, allow_unused=True)
    return torch.zeros_like(at) if g is None else g


def power_norm(J: Map, JT: Map, v: Tensor, iterations: int = 20) -> Tensor:
    """‖J‖₂ per sample by power iteration on JᵀJ, started at v."""
    for _ in range(iterations):
        v = v / v.flatten(1).norm(dim=1).clamp_min(1e-30).view(-1, *[1] * (v.ndim - 1))
        v = JT(J(v))
    return v.flatten(1).norm(dim=1).sqrt()
