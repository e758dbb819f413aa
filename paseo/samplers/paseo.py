"""PASEO: perturb and solve (Algorithm 2 of the paper; the numbers at line ends are its line numbers).

Each reverse step is a Gaussian inference problem over the clean latent z:

    prior        z ~ N(μ_z, η_z² I)                 two denoiser calls set μ_z, the schedule sets η_z
    measurement  y_z = H(z) + ε,  ε ~ N(0, r² I)    H is the learned operator, linearised at the current estimate
    draw         z* = z_a + η_z² JᵀW v,   ((r²+λ) I + η_z² W J Jᵀ W) v = W (ỹ_z − H(z) − J (z_a − z))

Adding each part's own noise to its mean before the solve turns the posterior mean into a posterior draw. A few
conjugate-gradient iterations from zero are the method, not an approximation of it: they fit what the measurement shows
clearly and leave the rest to the prior. The denoiser is never differentiated; only the small network H is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from paseo.base import Prior, Problem, Step, Watch, ignore
from paseo.errors import BadInput, NotFinite
from paseo.linalg import gain_cg, linearize
from paseo.noise import Noise
from paseo.samplers.anchor import Anchor, coefficients
from paseo.samplers.weight import Weight, constant_weight, sensitivity
from paseo.schedule import EtaRule, grid

Start = Literal["proxy", "mean"]


@dataclass(frozen=True)
class PASEO:
    """The sampler of the paper; `anchor="fresh"` is PASEO†. Variations are values: `replace(sampler, relaxation=0.1)`."""

    steps: int = 28  # time points K+1; NFE = 2·steps − 3
    inner_steps: int = 1  # P, linearisations and corrections per step
    cg_budget: int | None = 2  # C, CG iterations per correction; None asks a linear operator for its exact solve
    relaxation: float = 1.0  # ρ, fraction of each correction that is taken
    damping: float = 0.0  # λ, added to r² in the solve
    operator_noise: float = 0.02  # r, std of the latent measurement model
    anchor: Anchor = "arc"  # z_a, where a correction starts from
    weight: Weight = "ones"  # W, how far each entry of the measurement is believed
    start: Start = "proxy"  # z⁰, the first expansion point: the proxy's clean latent or μ_z
    eta: EtaRule = "ddpm"  # η_k, the width of the bridge
    perturb_prior: bool = True  # ξ_z
    perturb_measurement: bool = True  # ξ_y
    cg_tolerance: float = 1e-5  # relative residual at which a sample's CG stops early

    def __post_init__(self) -> None:
        for name, allowed in (("anchor", Anchor), ("weight", Weight), ("start", Start), ("eta", EtaRule)):
            if getattr(self, name) not in get_args(allowed):
                raise BadInput(f"{name}={getattr(self, name)!r} is not one of {', '.join(get_args(allowed))}.")
        for name, ok, want in self._conditions():
            if not ok:
                raise BadInput(f"{name}={getattr(self, name)} cannot be used: {want}.")

    def _conditions(self) -> Iterator[tuple[str, bool, str]]:
        yield "steps", self.steps >= 3, "a run needs at least 3 time points (the paper uses 28)"
        yield "inner_steps", self.inner_steps >= 1, "P counts corrections per step and starts at 1"
        yield "cg_budget", self.cg_budget is None or self.cg_budget >= 1, "C counts CG iterations and starts at 1"
        yield "relaxation", 0 < self.relaxation <= 1, "ρ lies in (0, 1]"
        yield "damping", self.damping >= 0, "λ is not negative"
        yield "operator_noise", self.operator_noise >= 0, "r is a standard deviation"
        yield "operator_noise", self.operator_noise**2 + self.damping > 0, "r = 0 with λ = 0 leaves the solve singular; give one of them"
        yield "cg_tolerance", self.cg_tolerance >= 0, "the relative tolerance is not negative"

    @property
    def nfe(self) -> int:
        return 2 * self.steps - 3

    def unsupported(self, problem: Problem) -> str | None:
        if self.weight == "mask" and problem.observed is None:
            return "weight='mask' needs the observed latent cells, and this task has none. Try weight='soft' or 'ones'."
        if self.cg_budget is None and not hasattr(problem.operator, "solve"):
            return "cg_budget=None needs an operator with an exact solve. Give a number of CG iterations."
        return None

    @torch.no_grad()
    def __call__(self, prior: Prior, problem: Problem, noise: Noise, watch: Watch = ignore) -> Tensor:
        _check(self, problem)
        H, y_z, r = problem.operator, problem.y_z, self.operator_noise
        points = grid(prior.schedule, self.steps, self.eta)
        eta_z_min = min(s.eta_z for s in points[1:-1])
        W = constant_weight(self.weight, problem, noise)
        x = points[0].scale * noise.normal(problem.shape).to(y_z)  # 1
        for k, (t, s) in enumerate(pairwise(points[:-1])):  # 2
            x0 = prior.x0(x, t.t)  # 3
            x1 = (x - t.alpha * x0) / t.sigma  # 4
            m = s.alpha * x0 + max(s.sigma**2 - s.eta**2, 0.0) ** 0.5 * x1  # 5
            x_pxy = m + s.eta * noise.like(x)  # 6, 7
            x1_pxy = (x_pxy - s.alpha * prior.x0(x_pxy, s.t)) / s.sigma  # 8
            mu_z, eta_z = (m - s.sigma * x1_pxy) / s.alpha, s.eta_z  # 9
            z = (x_pxy - s.sigma * x1_pxy) / s.alpha if self.start == "proxy" else mu_z  # 10
            y_tilde = y_z + r * noise.like(y_z) if self.perturb_measurement else y_z  # 11, 12
            mu_tilde = mu_z + eta_z * noise.like(x) if self.perturb_prior else mu_z  # 11, 12
            c1, c2 = coefficients(self.anchor, eta_z_min / eta_z)  # 13
            trace: dict[str, Any] = {}
            for _ in range(self.inner_steps):  # 14
                z_a = mu_z + c1 * (z - mu_z) + c2 * (mu_tilde - mu_z)  # 15
                z_star = self.correct(H, z, z_a, y_tilde, eta_z, W, noise, trace if getattr(watch, "wants_trace", False) else None)
                z = z + self.relaxation * (z_star - z)  # 22
            x = s.alpha * z + s.sigma * x1_pxy  # 24
            if not torch.isfinite(x).all():
                raise NotFinite(
                    f"The latent became non-finite at step {k + 1} of {self.steps - 2} (t={s.t:.4g}). Try fewer CG iterations, a smaller relaxation or more damping."
                )
            watch(Step(k, self.steps - 2, s, x, z, trace))
        return prior.x0(x, points[-2].t)  # 26

    def correct(
        self,
        H: Any,
        z: Tensor,
        z_a: Tensor,
        y_tilde: Tensor,
        eta_z: float,
        W: Tensor | None,
        noise: Noise,
        trace: dict[str, Any] | None = None,
    ) -> Tensor:
        """z*, one perturbed solve linearised at z and taken from the anchor z_a (lines 16 to 21)."""
        h, J, JT = linearize(H, z)  # 16, 17
        if h.shape != y_tilde.shape:
            raise BadInput(
                f"The operator maps the latent to {tuple(h.shape)}, but the encoded measurement is {tuple(y_tilde.shape)}. Is it an operator of another model?"
            )
        W = sensitivity(J, z, noise) if W is None else W  # 18
        b = W * (y_tilde - h - J(z_a - z))  # 19
        trust = self.operator_noise**2 + self.damping
        if self.cg_budget is None:
            return z_a + eta_z**2 * JT(W * H.solve(b, trust, eta_z**2))  # 20, 21 in closed form
        solve = gain_cg(
            J, JT, W, b, eta2=eta_z**2, trust=trust, budget=self.cg_budget, tolerance=self.cg_tolerance, report=trace is not None
        )
        z_star = z_a + eta_z**2 * solve.v  # 20, 21
        if trace is not None:
            _record(trace, eta_z=eta_z, iterations=solve.iterations, residual=solve.residual, step_norm=(z_star - z).flatten(1).norm(dim=1))
        return z_star


def _record(trace: dict[str, Any], **values: Any) -> None:
    for name, value in values.items():
        trace.setdefault(name, []).append(value.tolist() if isinstance(value, Tensor) else value)


def _check(sampler: PASEO, problem: Problem) -> None:
    if reason := sampler.unsupported(problem):
        raise BadInput(reason)
    if not torch.isfinite(problem.y_z).all():
        raise BadInput("The encoded measurement holds NaN or infinite values. Check the input image.")
    if problem.shape[0] != problem.y_z.shape[0]:
        raise BadInput(f"The latent batch {problem.shape[0]} and the measurement batch {problem.y_z.shape[0]} differ.")
