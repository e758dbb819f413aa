"""PASEO: perturb and solve (Algorithm 2 of the paper; the numbers at line ends are its line numbers).

Each reverse step is a Gaussian inference problem over the clean latent z:

    prior        z ~ N(μ_z, η_z² I)                 two denoiser calls set μ_z, the schedule sets η_z
    measurement  y_z = H(z) + ε,  ε ~ N(0, r² I)    H is the learned operator, linearised at the current estimate
    draw         z* = z_a + η_z² JᵀW v,   ((r²+λ) I + η_z² W J Jᵀ W) v = W (ỹ_z − H(z) − J (z_a − z))

Adding each part's own noise to its mean before the solve turns the posterior mean into a posterior draw. A
few conjugate-gradient iterations from zero are the method, not an approximation of it: they fit what the
measurement shows clearly and leave the rest to the prior. The denoiser is never differentiated; only the
small network H is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from math import inf
from typing import Literal

import torch
from torch import Tensor

from paseo.base import LatentOperator, Prior, Problem, SolvesExactly, Step, Watch, ignore
from paseo.errors import BadInput
from paseo.linalg import exact_gain, gain_cg
from paseo.noise import Noise
from paseo.samplers.anchor import NEAR, Anchor, coefficients
from paseo.samplers.correction import PARTS, Parts, Solver
from paseo.samplers.defect import defect, looks
from paseo.samplers.guard import (
    Trace,
    check_finite,
    check_problem,
    check_settings,
    narrowest_prior,
    record,
    show,
    whole,
)
from paseo.samplers.misfit import needs_pixels
from paseo.samplers.recall import Recall, Seen
from paseo.samplers.weight import Weight, constant_weight, noise_spread, residual, sensitivity
from paseo.schedule import EtaRule, grid, warped

Start = Literal["proxy", "mean"]
Expand = Literal["estimate", "anchor"]
CHOICES = {"anchor": Anchor, "weight": Weight, "start": Start, "expand": Expand, "eta": EtaRule}


@dataclass(frozen=True)
class PASEO:
    """The sampler of the paper; `anchor="fresh"` is PASEO†. Variations are values: `replace(sampler,
    relaxation=0.1)`.
    """

    steps: int = 28  # time points K+1; NFE = 2·steps − 3
    inner_steps: int = 1  # P, linearisations and corrections per step
    # C, CG iterations per correction; None asks a linear operator for its exact solve
    cg_budget: int | None = 2
    relaxation: float = 1.0  # ρ, fraction of each correction that is taken
    damping: float = 0.0  # λ, added to r² in the solve
    operator_noise: float = 0.02  # r, std of the latent measurement model
    anchor: Anchor = "arc"  # z_a, where a correction starts from
    weight: Weight = "ones"  # W, how far each entry of the measurement is believed
    start: Start = "proxy"  # z⁰, the first expansion point: the proxy's clean latent or μ_z
    # where H is linearised: at z as in the paper, or at a z_a that lies beside it, which saves a JVP
    expand: Expand = "estimate"
    eta: EtaRule = "ddpm"  # η_k, the width of the bridge
    # k of a flow grid, on any prior (SD3.5's own is 3); None walks the prior's grid
    shift: float | None = None
    # beyond the paper: every so many steps H is set right by its error at z (defect.py); 0 never looks
    recheck: int = 0
    # beyond the paper: K, secants of the denoiser that are remembered (recall.py); 0 is the paper
    recall: int = 0
    recall_limit: float = 16.0  # longest recalled step, in steps of the paper
    perturb_prior: bool = True  # ξ_z
    perturb_measurement: bool = True  # ξ_y
    cg_tolerance: float = 1e-5  # relative residual at which a sample's CG stops early

    def __post_init__(self) -> None:
        check_settings(self, CHOICES, self._conditions())

    def _conditions(self) -> Iterator[tuple[str, bool, str]]:
        yield "steps", whole(self.steps, 3), "a run needs at least 3 time points (the paper uses 28)"
        yield "inner_steps", whole(self.inner_steps, 1), "P counts corrections per step and starts at 1"
        yield (
            "cg_budget",
            self.cg_budget is None or whole(self.cg_budget, 1),
            "C counts CG iterations and starts at 1",
        )
        yield "relaxation", 0 < self.relaxation <= 1, "ρ lies in (0, 1]"
        yield "damping", 0 <= self.damping < inf, "λ is finite and not negative"
        yield "operator_noise", 0 <= self.operator_noise < inf, "r is a standard deviation"
        yield "operator_noise", self.trust > 0, "r = 0 with λ = 0 leaves the solve singular; give one of them"
        yield (
            "shift",
            self.shift is None or 0 < self.shift < inf,
            "the shift is positive, or None for the prior's grid",
        )
        yield (
            "recheck",
            whole(self.recheck, 0),
            "it counts the steps between two looks at the operator's error; 0 never looks",
        )
        yield "recall", whole(self.recall, 0), "it counts the secants that are remembered; 0 is the paper"
        yield "recall_limit", 1 <= self.recall_limit < inf, "it is a length in steps of the paper, from 1 on"
        yield "cg_tolerance", self.cg_tolerance >= 0, "the relative tolerance is not negative"

    @property
    def trust(self) -> float:
        return self.operator_noise**2 + self.damping  # r² + λ

    @property
    def nfe(self) -> int:
        return 2 * self.steps - 3

    def unsupported(self, problem: Problem) -> str | None:
        if self.weight == "mask" and problem.observed is None:
            return "weight='mask' needs the observed latent cells, and this task has none. Try weight='soft' or 'ones'."
        if self.weight == "fixed" and problem.shape != tuple(problem.y_z.shape):
            return "weight='fixed' expands the operator at the encoded measurement, which here is no latent. Try weight='soft'."
        if self.weight == "residual" and residual(problem) is None:
            return "weight='residual' needs an operator that knows its errors per channel, and this one does not. Try weight='ones'."
        if self.recheck and (reason := needs_pixels(problem)):
            return f"recheck={self.recheck} compares the operator with the degradation: {reason} Or set recheck=0."
        if self.cg_budget is None and not isinstance(problem.operator, SolvesExactly):
            return "cg_budget=None needs an operator with an exact solve. Give a number of CG iterations."
        if self.cg_budget is None and self.weight != "ones":
            return f"cg_budget=None solves without weights, and weight={self.weight!r}. Give a number of CG iterations."
        return None

    @torch.no_grad()
    def __call__(
        self, prior: Prior, problem: Problem, noise: Noise, watch: Watch = ignore, parts: Parts = PARTS
    ) -> Tensor:
        check_problem(self, problem, noise)
        H = problem.operator
        y_z = problem.y_z.to(
            torch.promote_types(problem.y_z.dtype, torch.float32)
        )  # η_z never meets half precision
        points = grid(warped(prior.schedule, self.shift), self.steps, self.eta)
        eta_z_min = narrowest_prior(points, self.eta)
        W = constant_weight(self.weight, replace(problem, y_z=y_z), noise)
        r_y = (
            self.operator_noise * self.perturb_measurement * noise_spread(self.weight, W)
        )  # std of ξ_y, drawn in any case
        p_z = float(self.perturb_prior)
        memory = Recall(self.recall, self.recall_limit, self.trust)
        d: Tensor | float = 0.0  # the operator's error, as far as it was looked at
        x = points[0].scale * noise.normal(problem.shape).to(y_z)  # 1
        for k, (t, s) in enumerate(pairwise(points[:-1])):  # 2
            trace: Trace | None = {} if getattr(watch, "wants_trace", False) else None
            x0 = prior.x0(x, t.t)  # 3
            x1 = (x - t.alpha * x0) / t.sigma  # 4
            x0, x1 = memory.recall(x, x0, x1, t, trace)  # not in the paper
            m = s.alpha * x0 + max(s.sigma**2 - s.eta**2, 0.0) ** 0.5 * x1  # 5
            x_pxy = m + s.eta * noise.like(x)  # 6, 7
            x1_pxy = (x_pxy - s.alpha * prior.x0(x_pxy, s.t)) / s.sigma  # 8
            mu_z, eta_z = (m - s.sigma * x1_pxy) / s.alpha, s.eta_z  # 9
            z = (x_pxy - s.sigma * x1_pxy) / s.alpha if self.start == "proxy" else mu_z  # 10
            y_tilde = y_z - d + r_y * noise.like(y_z)  # 11, 12
            mu_tilde = mu_z + p_z * eta_z * noise.like(x)  # 11, 12
            c1, c2 = coefficients(self.anchor, eta_z_min / eta_z)  # 13
            for _ in range(self.inner_steps):  # 14
                z_a = mu_z + c1 * (z - mu_z) + c2 * (mu_tilde - mu_z)  # 15
                z_star = self.correct(H, z, z_a, y_tilde, eta_z, W, noise, trace, parts, memory)  # 16 to 21
                z = z + self.relaxation * (z_star - z)  # 22
            x = s.alpha * z + s.sigma * x1_pxy  # 24
            check_finite(x, k, self.steps - 1, s)
            memory.keep(x, x_pxy, x1_pxy, s)  # not in the paper
            d = defect(problem, z) if looks(k, self.steps, self.recheck) else d  # not in the paper
            x = show(watch, Step(k, self.steps - 2, s, x, z, trace or {}))
        z = prior.x0(x, points[-2].t)  # 26
        check_finite(z, self.steps - 2, self.steps - 1, points[-2])
        return z

    def correct(
        self,
        H: LatentOperator,
        z: Tensor,
        z_a: Tensor,
        y_tilde: Tensor,
        eta_z: float,
        W: Tensor | None,
        noise: Noise,
        trace: Trace | None = None,
        parts: Parts = PARTS,
        memory: Recall | None = None,
    ) -> Tensor:
        """z*, one perturbed solve linearised at z (or z_a) and taken from the anchor z_a; W = None estimates
        the weights there.
        """
        at_anchor = (
            self.expand == "anchor" and self.anchor in NEAR
        )  # beyond the paper: J (z_a − z) vanishes, and H(z_a) is exact
        h, J, JT = parts.linearize(H, z_a if at_anchor else z)  # 16, 17
        if h.shape != y_tilde.shape:
            raise BadInput(
                f"The operator maps the latent {tuple(z.shape)} to {tuple(h.shape)}, but the encoded "
                "measurement is "
                f"{tuple(y_tilde.shape)}. Is it an operator of another model or task?"
            )
        W = sensitivity(J, z, noise) if W is None else W  # 18
        b = W * (y_tilde - h if at_anchor else y_tilde - h - J(z_a - z))  # 19
        if memory is not None:
            beside = at_anchor or self.start == "proxy"
            memory.see(Seen(H, J, W, y_tilde, W * (y_tilde - h), None if beside else z))
        solver = parts.solver or self.solver(H)
        solve = solver(J, JT, W, b, eta2=eta_z**2, trust=self.trust, report=trace is not None)  # 20
        z_star = z_a + eta_z**2 * solve.v  # 21
        if trace is not None:
            record(trace, solve, eta_z, z_star - z)
        return z_star

    def solver(self, H: LatentOperator) -> Solver:
        """Line 20 as these settings have it: at most C iterations, or the operator's closed form."""
        if self.cg_budget is not None:
            return partial(gain_cg, budget=self.cg_budget, tolerance=self.cg_tolerance)
        if isinstance(H, SolvesExactly):
            return partial(exact_gain, H.solve)
        raise BadInput(
            "cg_budget=None needs an operator with an exact solve. Give a number of CG iterations."
        )
