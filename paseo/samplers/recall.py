"""Recall: the denoiser's covariance, read from the two calls that PASEO makes anyway (beyond the paper).

Line 8 calls the denoiser at the proxy and line 3 of the next step calls it at the corrected state, both at
one level L = σ/α and with the same noise estimate. Their difference is a secant of the denoiser, along the
correction:

    D = z − x̂₀′                         the correction
    d = x̂₀(x) − x̂₀′ ≈ g D               the denoiser's answer,   g = ∂x̂₀/∂z = Cov[z | x] / L²
    w = W J d                           what the measurement sees of it

A Gaussian prior has Cov⁻¹ d = D / L², so the last K pairs hold the prior's precision on span{dᵢ}. The
posterior mean of the unfrozen model inside that span is x̂₀′ + Σ cᵢ dᵢ with

    c = argmin ‖b − Σ cᵢ wᵢ‖² + (r²+λ)/L² (Σ cᵢ Dᵢ)·(Σ cᵢ dᵢ),        b = W (ỹ − H(x̂₀′))

a K×K system per sample, c ← γ c. Lines 3 and 4 become x̂₀ = x̂₀′ + Σ cᵢ dᵢ and x̂₁ = x̂₁′ + κ/L Σ cᵢ (Dᵢ − dᵢ);
the paper has κ = 1, c = 1 for the newest pair and 0 for the others. Pairs move on to the next level with
Cov⁻¹ = C⁻¹ + I/L²: D ← q D + (1−q) d, q = L_new²/L_old². No call more, and the denoiser is still not
differentiated. Derivation and figures: docs/recall.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from paseo.base import LatentOperator
from paseo.samplers.guard import Trace
from paseo.schedule import Point

PULL = 0.0  # κ, share of the noise estimate's own answer to the recalled step
FLOOR = 1e-3  # of the largest eigenvalue of the small system: what is smaller is rounding or asymmetry


class Secant(NamedTuple):
    """A secant of the denoiser; all three scale together."""

    D: Tensor  # L² Cov⁻¹ d, the correction
    d: Tensor  # the denoiser's answer
    w: Tensor  # W J d, in the measurement


class Seen(NamedTuple):
    """The measurement model at the first correction of a step."""

    H: LatentOperator
    J: Callable[[Tensor], Tensor]
    W: Tensor
    y: Tensor  # ỹ
    b: Tensor  # W (ỹ − H(z))
    z: Tensor | None  # where H was linearised; None: at the proxy's clean latent, or at an anchor beside it

    def residual(self, x0: Tensor) -> Tensor:
        """W (ỹ − H(x̂₀′)), by the linearisation."""
        return self.b if self.z is None else self.b - self.W * self.J(x0 - self.z)


class Proxy(NamedTuple):
    """The end of a step, which the next one looks back to."""

    x: Tensor  # the corrected state, where the denoiser will be asked next
    D: Tensor
    x0: Tensor  # x̂₀′ and x̂₁′, the estimates at the proxy
    x1: Tensor


class Recall:
    """The last `size` pairs of a run; size 0 remembers nothing and changes nothing."""

    def __init__(self, size: int, limit: float, trust: float, gain: float = 1.0) -> None:
        self.size, self.limit, self.trust, self.gain = size, limit, trust, gain
        self.pairs: list[Secant] = []
        self.level = 0.0  # of the pairs
        self.seen: Seen | None = None
        self.proxy: Proxy | None = None

    def see(self, seen: Seen) -> None:
        """A correction's model; the first one of a step is kept."""
        if self.size and self.seen is None:
            self.seen = seen

    def keep(self, x: Tensor, x_pxy: Tensor, x1_pxy: Tensor, s: Point) -> None:
        """The end of a step at s: x and x_pxy have one noise estimate, so that α D = x − x_pxy."""
        if self.size:
            x0_pxy = (x_pxy - s.sigma * x1_pxy) / s.alpha
            self.proxy = Proxy(x, (x - x_pxy) / s.alpha, x0_pxy, x1_pxy)

    def recall(
        self, x: Tensor, x0: Tensor, x1: Tensor, t: Point, trace: Trace | None = None
    ) -> tuple[Tensor, Tensor]:
        """(x̂₀, x̂₁) for line 5; as given in the first step and where a hook has replaced the state."""
        seen, proxy, self.seen, self.proxy = self.seen, self.proxy, None, None
        if seen is None or proxy is None or not (proxy.x is x or torch.equal(proxy.x, x)):
            return x0, x1
        self._move_to(t.level)
        d = x0 - proxy.x0
        along = answers(proxy.D, d)
        new = Secant(along * proxy.D, along * d, seen.W * seen.J(along * d))
        self.pairs = [*self.pairs, new][-self.size :]
        b = seen.residual(proxy.x0)
        c = self.gain * coefficients(self.pairs, b, self.trust / t.level**2)
        step = combined(c, [pair.d for pair in self.pairs])
        stretch = bounded(step, d, self.limit)
        c, step = stretch * c, stretch.view(-1, *[1] * (d.ndim - 1)) * step
        pulled = combined(c, [pair.D for pair in self.pairs]) - step
        if trace is not None:
            _record(trace, c, b, [pair.w for pair in self.pairs], seen.W * (seen.y - seen.H(proxy.x0 + step)))
            trace["recall_along"] = [along.flatten().bool().tolist()]
        recalled = proxy.x0 + step, proxy.x1 + PULL / t.level * pulled
        return torch.where(along > 0, recalled[0], x0), torch.where(along > 0, recalled[1], x1)

    def _move_to(self, level: float) -> None:
        """Cov⁻¹ = C⁻¹ + I/L², exact for a Gaussian prior."""
        if self.pairs:
            q = (level / self.level) ** 2
            self.pairs = [Secant(q * D + (1 - q) * d, d, w) for D, d, w in self.pairs]
        self.level = level


def coefficients(pairs: list[Secant], b: Tensor, ridge: float) -> Tensor:
    """c (B, K) of A c = wᵀb, A = w wᵀ + ridge · ½ (D dᵀ + d Dᵀ), small eigenvalues floored; in float64."""
    D, d, w = (torch.stack(part, 1).flatten(2) for part in zip(*pairs, strict=True))  # (B, K, N)
    Dd = D @ d.mT
    A = (w @ w.mT + ridge / 2 * (Dd + Dd.mT)).cpu().double()
    rhs = (w @ b.flatten(1).unsqueeze(2)).cpu().double()
    size = A.diagonal(dim1=1, dim2=2).abs().sqrt().clamp_min(torch.finfo(torch.float32).tiny)  # (B, K)
    A = A / (size.unsqueeze(1) * size.unsqueeze(2))  # pairs of any length weigh the same
    values, vectors = torch.linalg.eigh(A)
    values = values.maximum(FLOOR * values[:, -1:]).clamp_min(torch.finfo(torch.float32).tiny)
    c = vectors @ ((vectors.mT @ (rhs / size.unsqueeze(2))) / values.unsqueeze(2))
    return (c.squeeze(2) / size).to(b)


def answers(D: Tensor, d: Tensor) -> Tensor:
    """(B, 1, …): 1 where D·d > 0, as with any covariance. Elsewhere (only guided denoisers have been seen to
    do that) the pair is forgotten and the step is the paper's.
    """
    return ((D * d).flatten(1).sum(1) > 0).to(d).view(-1, *[1] * (d.ndim - 1))


def combined(c: Tensor, parts: list[Tensor]) -> Tensor:
    """Σ cᵢ partᵢ per sample."""
    return (c.view(*c.shape, *[1] * (parts[0].ndim - 1)) * torch.stack(parts, 1)).sum(1)


def bounded(step: Tensor, newest: Tensor, limit: float) -> Tensor:
    """(B, 1): the factor that keeps ‖step‖ between the newest pair's ‖d‖, the paper's own step, and `limit`
    times that.
    """
    length, own = step.flatten(1).norm(dim=1), newest.flatten(1).norm(dim=1)
    tiny = torch.finfo(step.dtype).tiny
    factor = length.clamp(own, limit * own) / length.clamp_min(tiny)
    return torch.where(length > tiny, factor, 1.0).unsqueeze(1)


def _record(trace: Trace, c: Tensor, b: Tensor, w: list[Tensor], left: Tensor) -> None:
    """Pairs used, c, and by how much the squared misfit falls: as the secants say, and as H says."""

    def square(r: Tensor) -> Tensor:
        return r.flatten(1).square().sum(1)

    trace["recall_pairs"] = [c.shape[1]]
    trace["recall_c"] = [c.tolist()]
    trace["recall_predicted"] = [(square(b) - square(b - combined(c, w))).tolist()]
    trace["recall_actual"] = [(square(b) - square(left)).tolist()]
