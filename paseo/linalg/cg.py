"""Conjugate gradients for a stack of independent systems, one per sample, started at zero.

Inner products, step lengths and stopping are per sample: a sample alone equals the same sample in a batch.
The budget is part of the method (early stopping regularises), so there is no hidden minimum or maximum of
iterations, and what was left of the residual is reported instead of raised.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

Map = Callable[[Tensor], Tensor]


class Solve(NamedTuple):
    """What a solver returns: the solution, iterations used and ‖r‖/‖b‖ left, per sample."""

    v: Tensor
    iterations: Tensor  # (B,)
    residual: Tensor | None  # (B,), None where it was not asked for


def dot(a: Tensor, b: Tensor) -> Tensor:
    """Inner product per sample, shaped (B, 1, …, 1) to broadcast."""
    return (a * b).flatten(1).sum(1).view(-1, *[1] * (a.ndim - 1))


def cg(S: Map, b: Tensor, budget: int, tolerance: float = 1e-5) -> Solve:
    """Solve S v = b for symmetric positive definite S with at most `budget` products."""
    v, r, p = torch.zeros_like(b), b, b
    rr = bb = dot(b, b)
    used = torch.zeros_like(rr)
    for _ in range(budget):
        live = _unfinished(rr, bb, tolerance)
        if not live.any():
            break
        Sp = S(p)
        a = torch.where(live, rr / _positive(dot(p, Sp)), 0.0)
        v, r, used = v + a * p, r - a * Sp, used + live
        rr, old = torch.where(live, dot(r, r), rr), rr
        p = r + rr / _positive(old) * p
    return Solve(v, used.flatten().long(), (rr / _positive(bb)).sqrt().flatten())


def gain_cg(
    J: Map,
    JT: Map,
    W: Tensor,
    b: Tensor,
    *,
    eta2: float,
    trust: float,
    budget: int,
    tolerance: float = 1e-5,
    report: bool = False,
) -> Solve:
    """The same iterates for S = trust·I + η² W J Jᵀ W, returning JᵀW v instead of v, with fewer products.

    pᵀSp = trust‖p‖² + η²‖JᵀWp‖² needs only the VJP, so the last iteration needs no JVP; and JᵀWv = Σ a_i
    JᵀWp_i is already at hand. C iterations: C VJPs and C − 1 JVPs (`report` spends the saved JVP on the last
    residual).
    """
    g, r, p = None, b, b
    rr = bb = dot(b, b)
    used = torch.zeros_like(rr)
    for i in range(budget):
        live = _unfinished(rr, bb, tolerance)
        if not live.any():
            break
        q = JT(W * p)
        a = torch.where(live, rr / _positive(trust * dot(p, p) + eta2 * dot(q, q).view_as(rr)), 0.0)
        step = a.view(-1, *[1] * (q.ndim - 1)) * q  # latents and measurements may differ in rank
        g, used = step if g is None else g + step, used + live
        if i == budget - 1 and not report:
            break
        r = r - a * (trust * p + eta2 * (W * J(q)))
        rr, old = torch.where(live, dot(r, r), rr), rr
        p = r + rr / _positive(old) * p
    residual = (rr / _positive(bb)).sqrt().flatten() if report else None
    return Solve(torch.zeros_like(JT(W * b)) if g is None else g, used.flatten().long(), residual)


def exact_gain(
    solve: Callable[[Tensor, float, float], Tensor],
    J: Map,
    JT: Map,
    W: Tensor,
    b: Tensor,
    *,
    eta2: float,
    trust: float,
    report: bool = False,
) -> Solve:
    """Jᵀ v for (trust·I + η² J Jᵀ) v = b, from an operator's own closed form `solve(b, trust, eta2)`; W
    is 1.
    """
    v = solve(b, trust, eta2)
    g = JT(v)
    residual = None
    if report:
        left = b - trust * v - eta2 * J(g)
        residual = (dot(left, left) / _positive(dot(b, b))).sqrt().flatten()
    return Solve(g, torch.zeros(b.shape[0], dtype=torch.long, device=b.device), residual)


def _unfinished(rr: Tensor, bb: Tensor, tolerance: float) -> Tensor:
    """Samples that go on. What is not finite goes on as well, so that it shows in the result instead of
    passing for solved.
    """
    return (rr > tolerance**2 * bb) | ~torch.isfinite(rr)


def _positive(x: Tensor) -> Tensor:
    return x.clamp_min(torch.finfo(x.dtype).tiny)
