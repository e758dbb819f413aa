"""PASEO: perturb and solve (Algorithm 2 of the paper; the numbers at line ends are its line numbers).

Each reverse step is a Gaussian inference problem over the clean latent z:

    prior        z ~ N(μ_z, η_z² I)                 two denoiser calls set μ_z, the schedule sets η_z
    measurement  y_z = H(z) + ε,  ε ~ N(0, r² I)    H is the learned operator, linearised at the estimate
    draw         z* = z_a + η_z² JᵀW v,   ((r²+λ) I + η_z² W J Jᵀ W) v = W (ỹ_z − H(z) − J (z_a − z))

Adding each part's own noise to its mean before the solve turns the posterior mean into a posterior draw. A
few conjugate-gradient iterations from zero are the method, not an approximation of it: they fit what the
measurement shows clearly and leave the rest to the prior. The denoiser is never differentiated; only the
small network H is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor

from paseo.base import LatentOperator, Prior, Problem, SolvesExactly, Step, WantsTrace, Watch, ignore
from paseo.errors import BadInput
from paseo.linalg import exact_gain, gain_cg
from paseo.noise import Noise
from paseo.samplers.anchor import NEAR, Anchor, coefficients
from paseo.samplers.blind import Name, find, unknown_names
from paseo.samplers.correction import PARTS, Parts, Solver
from paseo.samplers.defect import defect, defect_is_due
from paseo.samplers.finish import LAST, finished
from paseo.samplers.guard import (
    Trace,
    check_finite,
    check_pixels,
    check_problem,
    narrowest_prior,
    record,
    show,
)
from paseo.samplers.misfit import needs_pixels
from paseo.samplers.recall import Recall, Seen
from paseo.samplers.weight import Weight, constant_weight, noise_spread, residual, sensitivity
from paseo.schedule import EtaRule, grid, warped
from paseo.setting import check_settings, setting

Start = Literal["proxy", "mean"]
Expand = Literal["estimate", "anchor"]


@dataclass(frozen=True)
class PASEO:
    """The sampler of the paper; `anchor="fresh"` is PASEO†. Variations are values:
    `replace(sampler, relaxation=0.1)`.
    """

    steps: int = setting(28, "K+1", "time points; NFE = 2·steps − 3", "[3, 10000]")
    inner_steps: int = setting(1, "P", "linearisations and corrections per step", "[1, 1000]", tune="1:4")
    # None asks a linear operator for its exact solve
    cg_budget: int | None = setting(2, "C", "CG iterations per correction", "[1, 10000]", tune="1:8:log")
    relaxation: float = setting(1.0, "ρ", "fraction of each correction taken", "(0, 1]", tune="0.15:1.0:log")
    damping: float = setting(0.0, "λ", "added to r²", "[0, 1e6]", tune="0.0,0.001,0.005,0.02,0.05,0.2")
    operator_noise: float = setting(0.02, "r", "std of y_z given z", "[0, 1e6]", tune="0.005:1.0:log")
    anchor: Anchor = setting("arc", "z_a", "where a correction starts from", tune="arc,denoiser")
    weight: Weight = setting("ones", "W", "how far each entry of y_z is believed", tune="soft,fixed,mask")
    start: Start = setting("proxy", "z⁰", "first expansion point: the proxy's or μ_z", tune="proxy,mean")
    # at z as in the paper, or at a z_a that lies beside it, which saves a JVP
    expand: Expand = setting("estimate", "", "where H is linearised")
    eta: EtaRule = setting("ddpm", "η_k", "the width of the bridge", tune="ddpm,square,sqrt")
    # on any prior (SD3.5's own is 3); None walks the prior's grid
    shift: float | None = setting(None, "k", "shift of a flow grid", "(0, 1000]", tune="none,2.0,3.0")
    # beyond the paper (defect.py); 0 never measures it
    recheck: int = setting(0, "", "steps between two corrections of H by its error at z", "[0, 10000]")
    sketch: bool = setting(False, "", "recheck by the codec's quick decoder, where it has one")
    # beyond the paper (recall.py); 0 is the paper
    recall: int = setting(0, "K", "secants of the denoiser remembered", "[0, 64]")
    recall_limit: float = setting(16.0, "", "longest recalled step, in steps of the paper", "[1, 1e6]")
    recall_gain: float = setting(1.0, "γ", "recalled step, in units of its solve's", "(0, 2]")
    # beyond the paper: what the last denoiser calls cannot take out again is not put in; 1 is the paper
    late_noise: float = setting(1.0, "τ", "share of a proxy's noise in the second half of a run", "(0, 2]")
    # beyond the paper (finish.py); 0 is the paper
    finish: float = setting(0.0, "a", "share of the pixels' misfit that the last correction takes", "[0, 2]")
    # beyond the paper (blind.py); without any it is the paper
    blind: tuple[Name, ...] = setting((), "c", "parameters of the degradation to find")
    perturb_prior: bool = setting(True, "ξ_z", "draw from the prior of a step, not its mean")
    perturb_measurement: bool = setting(True, "ξ_y", "give the measurement its own noise again")
    cg_tolerance: float = setting(1e-5, "", "relative residual at which a sample's CG stops early", "[0, 1]")
    # beyond the paper: while the prior is broad little is needed; None spends C everywhere
    cg_broad: float | None = setting(None, "", "η_z above which CG has 1 iteration, 2 above half", "(0, 1e6]")

    def __post_init__(self) -> None:
        check_settings(self)
        object.__setattr__(self, "blind", tuple(self.blind))  # a record has a list
        if self.trust == 0:
            raise BadInput("operator_noise=0: r = 0 with λ = 0 leaves the solve singular; give one of them.")

    @property
    def trust(self) -> float:
        return self.operator_noise**2 + self.damping  # r² + λ

    @property
    def nfe(self) -> int:
        return 2 * self.steps - 3

    @property
    def rechecks(self) -> int:
        return 0 if self.blind else self.recheck  # there is no degradation yet to compare H with

    def unsupported(self, problem: Problem) -> str | None:
        if self.weight == "mask" and problem.observed is None:
            return "weight='mask' needs the observed latent cells, which this task lacks. Try weight='soft'."
        if self.weight == "fixed" and problem.shape != tuple(problem.y_z.shape):
            return "weight='fixed' expands the operator at y_z, which here is no latent. Try weight='soft'."
        if self.weight == "residual" and residual(problem) is None:
            return "weight='residual' needs an operator that knows its errors per channel. Try weight='ones'."
        if self.recheck and (reason := needs_pixels(problem)):
            return f"recheck={self.recheck} compares H with the degradation: {reason} Or set recheck=0."
        if self.finish and (reason := needs_pixels(problem)):
            return f"finish={self.finish} ends in pixels: {reason} Or set finish=0."
        if self.blind and (reason := unknown_names(self.blind, problem)):
            return reason
        if self.cg_budget is None and not isinstance(problem.operator, SolvesExactly):
            return "cg_budget=None needs an operator with an exact solve. Give a number of CG iterations."
        if self.cg_budget is None and self.weight != "ones":
            return f"cg_budget=None solves without weights, not with {self.weight!r}. Give a number."
        return None

    @torch.no_grad()
    def __call__(
        self, prior: Prior, problem: Problem, noise: Noise, watch: Watch = ignore, parts: Parts = PARTS
    ) -> Tensor:
        check_problem(self, problem, noise)
        if self.finish:
            check_pixels(problem)
        # not in the paper: the parameters of the degradation that are to be found
        problem, found = find(self.blind, problem)
        H = problem.operator
        y_z = problem.y_z.to(torch.promote_types(problem.y_z.dtype, torch.float32))  # η_z needs float32
        points = grid(warped(prior.schedule, self.shift), self.steps, self.eta)
        eta_z_min = narrowest_prior(points, self.eta)
        W = constant_weight(self.weight, replace(problem, y_z=y_z), noise)
        # std of ξ_y, which is drawn in any case
        r_y = self.operator_noise * self.perturb_measurement * noise_spread(self.weight, W)
        p_z = float(self.perturb_prior)
        memory = Recall(self.recall, self.recall_limit, self.trust, self.recall_gain)
        d: Tensor | float = 0.0  # the operator's error, as last measured
        x = points[0].scale * noise.normal(problem.shape).to(y_z)  # 1
        for k, (t, s) in enumerate(pairwise(points[:-1])):  # 2
            trace: Trace | None = {} if isinstance(watch, WantsTrace) and watch.wants_trace else None
            x0 = prior.x0(x, t.t)  # 3
            x1 = (x - t.alpha * x0) / t.sigma  # 4
            x0, x1 = memory.recall(x, x0, x1, t, trace)  # not in the paper
            m = s.alpha * x0 + max(s.sigma**2 - s.eta**2, 0.0) ** 0.5 * x1  # 5
            x_pxy = m + self.share_of_noise(k) * s.eta * noise.like(x)  # 6, 7
            x1_pxy = (x_pxy - s.alpha * prior.x0(x_pxy, s.t)) / s.sigma  # 8
            mu_z, eta_z = (m - s.sigma * x1_pxy) / s.alpha, s.eta_z  # 9
            z = (x_pxy - s.sigma * x1_pxy) / s.alpha if self.start == "proxy" else mu_z  # 10
            y_tilde = y_z - d + r_y * noise.like(y_z)  # 11, 12
            mu_tilde = mu_z + p_z * eta_z * noise.like(x)  # 11, 12
            c1, c2 = coefficients(self.anchor, eta_z_min / eta_z)  # 13
            in_pixels = self.finishes(k)
            for _ in range(0 if in_pixels else self.inner_steps):  # 14
                z_a = mu_z + c1 * (z - mu_z) + c2 * (mu_tilde - mu_z)  # 15
                z_star = self.correct(H, z, z_a, y_tilde, eta_z, W, noise, trace, parts, memory)  # 16 to 21
                z = z + self.relaxation * (z_star - z)  # 22
            if in_pixels:
                z = finished(problem, z, self.finish)  # not in the paper
            x = s.alpha * z + s.sigma * x1_pxy  # 24
            check_finite(x, k, self.steps - 1, s)
            memory.keep(x, x_pxy, x1_pxy, s)  # not in the paper
            if defect_is_due(k, self.steps, self.rechecks):
                d = defect(problem, z, self.sketch)  # not in the paper
            x = show(watch, Step(k, self.steps - 2, s, x, z, trace or {}, found))
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
        # beyond the paper: J (z_a − z) vanishes, and H(z_a) is exact
        at_anchor = self.expand == "anchor" and self.anchor in NEAR
        h, J, JT = parts.linearize(H, z_a if at_anchor else z)  # 16, 17
        if h.shape != y_tilde.shape:
            raise BadInput(
                f"The operator maps the latent {tuple(z.shape)} to {tuple(h.shape)}, but the encoded "
                f"measurement is {tuple(y_tilde.shape)}. Is it an operator of another model or task?"
            )
        W = sensitivity(J, z, noise) if W is None else W  # 18
        b = W * (y_tilde - h if at_anchor else y_tilde - h - J(z_a - z))  # 19
        if memory is not None:
            beside = at_anchor or self.start == "proxy"
            memory.see(Seen(H, J, W, y_tilde, W * (y_tilde - h), None if beside else z))
        solver = parts.solver or self.solver(H, eta_z)
        solve = solver(J, JT, W, b, eta2=eta_z**2, trust=self.trust, report=trace is not None)  # 20
        z_star = z_a + eta_z**2 * solve.v  # 21
        if trace is not None:
            record(trace, solve, eta_z, z_star - z)
        return z_star

    def finishes(self, k: int) -> bool:
        """Whether step k is the last and its correction is taken in pixels; a blind run knows no A."""
        return self.finish > 0 and not self.blind and k == self.steps - LAST

    def share_of_noise(self, k: int) -> float:
        """τ in the second half of the steps, 1 in the first."""
        return self.late_noise if 2 * k >= self.steps - 2 else 1.0

    def iterations(self, eta_z: float) -> int | None:
        """C, or less while the prior is broad: one above `cg_broad`, one more with every halving of η_z."""
        if self.cg_budget is None or self.cg_broad is None:
            return self.cg_budget
        return min(self.cg_budget, 1 + max(0, math.ceil(math.log2(self.cg_broad / eta_z))))

    def solver(self, H: LatentOperator, eta_z: float) -> Solver:
        """Line 20 as these settings have it: at most C iterations, or the operator's closed form."""
        if (budget := self.iterations(eta_z)) is not None:
            return partial(gain_cg, budget=budget, tolerance=self.cg_tolerance)
        if isinstance(H, SolvesExactly):
            return partial(exact_gain, H.solve)
        raise BadInput(
            "cg_budget=None needs an operator with an exact solve. Give a number of CG iterations."
        )
