"""The paper's check of one correction against a posterior that is known exactly ("A linear-Gaussian
problem").

Prior N(μ, η² I) with η = 1, d = 64; measurement y = H z + r ε with q = 32 rows, r = 0.3 and the entries of H
of variance 1/d. Every rule is `PASEO.correct`, the code that the sampler runs, called on a batch of draws:

    exact, C         anchor at the perturbed prior mean; exact solve or C conjugate-gradient iterations
    ρ                anchor at the expansion point, exact solve, a fraction ρ of the correction taken
    β                the arc anchor, exact solve, with bridge noise w' that is fresh for each draw, or fixed

All rules but truncated CG are affine in Gaussian noise, so their law N(m, V) is known. Drawing the same
number of samples from that law, several times, says what each statistic should be (`theory`) and how far it
wanders (`standard_error`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import NormalDist
from typing import Any

import torch
from torch import Tensor

from paseo.errors import BadInput
from paseo.files import atomic
from paseo.lab.paper import published
from paseo.lab.reproduce.conditions import conditions
from paseo.lab.text import Value, columns
from paseo.noise import Noise
from paseo.operators.exact import LatentMatrix
from paseo.priors.covariance import Isotropic
from paseo.priors.gaussian import Gaussian
from paseo.priors.posterior import dense_posterior
from paseo.samplers.anchor import coefficients
from paseo.samplers.paseo import PASEO
from paseo.setting import values_of

STATISTICS = ("mean_error", "cov_error", "coverage", "spread")
Figures = dict[str, float]
FRESH, FIXED = "fresh bridge noise", "fixed bridge noise"


@dataclass(frozen=True)
class Options:
    """The paper's sizes."""

    d: int = 64
    q: int = 32
    r: float = 0.3
    draws: int = 20_000
    fixed_draws: int = 2_000  # per fixed w'
    bridges: int = 20  # choices of w'
    replicates: int = 48  # repetitions from the known law, for the standard error
    seed: int = 0

    def __post_init__(self) -> None:
        sizes = values_of(self, "d", "q", "draws", "fixed_draws", "bridges", "replicates")
        small = {name: size for name, size in sizes.items() if size < 2}
        if small or self.r <= 0:
            raise BadInput(f"Sizes start at 2 and r is positive, got {small or {'r': self.r}}.")

    @classmethod
    def quick(cls) -> Options:
        return cls(draws=4_000, fixed_draws=500, bridges=8, replicates=24)


@dataclass(frozen=True)
class RuleRow:
    """One rule: what was measured, what its law says, what the paper printed."""

    group: str
    rule: str
    measured: Figures
    theory: Figures | None  # None for truncated CG, which is not affine
    standard_error: Figures | None
    exact: bool  # the rule's law is the posterior itself

    def to_json(self) -> dict[str, Any]:
        return {
            "rule": self.rule if self.group not in (FRESH, FIXED) else f"{self.rule}, {self.group}",
            "group": self.group,
            "exact": self.exact,
            **self.measured,
            "theory": self.theory,
            "standard_error": self.standard_error,
            "paper": dict(published("tractable").get((self.group, self.rule), {})),
        }

    def worst(self) -> float | None:
        """The largest distance from theory, in standard errors."""
        if self.theory is None or self.standard_error is None:
            return None
        return max(abs(self.measured[s] - self.theory[s]) / self.standard_error[s] for s in STATISTICS)


@dataclass(frozen=True)
class Tractable:
    """The table."""

    options: Options
    found: tuple[RuleRow, ...]

    def rows(self) -> list[dict[str, Any]]:
        return [row.to_json() for row in self.found]

    def notes(self) -> dict[str, Any]:
        return {"conditions": conditions()}

    def table(self) -> str:
        header = ("rule", "group", *(h for s in STATISTICS for h in (s, "paper")), "worst / s.e.")
        lines: list[list[Value]] = []
        for row in self.found:
            paper = published("tractable").get((row.group, row.rule), {})
            cells = [v for s in STATISTICS for v in (row.measured[s], paper.get(s))]
            lines.append([row.rule, row.group, *cells, row.worst()])
        return columns(header, lines) + "\nTruncated CG has no closed form to be compared with."

    def plots(self, out: Path) -> list[Path]:
        """Spread and coverage of every rule beside the paper's."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9, 4), layout="constrained")
        labels = [row.to_json()["rule"] for row in self.found]
        for axis, name, ideal in zip(
            figure.subplots(1, 2, sharey=True), ("spread", "coverage"), (1.0, 0.9), strict=True
        ):
            axis.axvline(ideal, color="0.7", linewidth=1)
            axis.plot([row.measured[name] for row in self.found], labels, "o", label="measured")
            axis.plot(
                [row.to_json()["paper"].get(name, float("nan")) for row in self.found],
                labels,
                "x",
                label="paper",
            )
            axis.set_xlabel(name)
        figure.axes[0].legend()
        figure.axes[0].invert_yaxis()
        path = out / "tractable.png"
        with atomic(path) as file:
            figure.savefig(file, format="png", dpi=150)
        return [path]


@dataclass(frozen=True, eq=False)
class LinearGaussian:
    """One linear-Gaussian problem and its posterior, in float64."""

    H: LatentMatrix
    y: Tensor  # (1, q)
    r: float
    target: Gaussian

    @property
    def K(self) -> Tensor:
        H = self.H.H
        return torch.linalg.solve(self.r**2 * torch.eye(H.shape[0], dtype=H.dtype) + H @ H.T, H).T

    def bridge_law(self, c1: float, c2: float, bridge: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """(m, V) of a correction with anchor c1 w' + c2 ξ: over w' too, or with w' fixed (the paper's mean
        and covariance).
        """
        m, K = self.target.mean[0], self.K
        rest = torch.eye(m.numel(), dtype=m.dtype) - K @ self.H.H
        spread = c2**2 if bridge is not None else c1**2 + c2**2
        shift = c1 * rest @ bridge if bridge is not None else torch.zeros_like(m)
        return m + shift, spread * rest @ rest.T + self.r**2 * K @ K.T

    def relaxed_law(self, rho: float) -> tuple[Tensor, Tensor]:
        """(m, V) of z + ρK(ỹ − Hz) with z ~ N(0, I): a fraction ρ of the correction."""
        m, K = self.target.mean[0], self.K
        rest = torch.eye(m.numel(), dtype=m.dtype) - rho * K @ self.H.H
        return rho * m, rest @ rest.T + (rho * self.r) ** 2 * K @ K.T

    def statistics(self, draws: Tensor) -> Figures:
        """The paper's four figures; the prior mean is 0."""
        m, S = self.target.mean[0], self.target.covariance.matrix()
        covariance = torch.cov(draws.T)
        half = NormalDist().inv_cdf(0.95) * S.diagonal().sqrt()
        return {
            "mean_error": ((draws.mean(0) - m).norm() / m.norm()).item(),
            "cov_error": ((covariance - S).norm() / S.norm()).item(),
            "coverage": ((draws - m).abs() <= half).double().mean().item(),
            "spread": (covariance.trace() / S.trace()).sqrt().item(),
        }


def run(options: Options | None = None) -> Tractable:
    """Measure every row of the table."""
    o = options or Options()
    random = torch.Generator().manual_seed(o.seed)
    setup = problem(o, random)
    exact = PASEO(anchor="fresh", operator_noise=o.r, cg_budget=None, cg_tolerance=0.0)
    posterior = _expected(setup, setup.bridge_law(0.0, 1.0), o, random)  # what every exact rule should show
    found = [RuleRow("ideal", "exact solve", _measure(setup, exact, 1.0, o, random), *posterior, exact=True)]
    for C in (1, 2, 4, 8, 16):
        known = posterior if C == 16 else (None, None)  # 16 iterations leave less than 1e-6 of the residual
        measured = _measure(setup, replace(exact, cg_budget=C), 1.0, o, random)
        found.append(RuleRow("approximate", f"CG C={C}", measured, *known, exact=C == 16))
    for rho in (0.6, 0.3):
        known = _expected(setup, setup.relaxed_law(rho), o, random)
        measured = _measure(setup, replace(exact, relaxation=rho), 0.0, o, random)
        found.append(RuleRow("approximate", f"ρ={rho:g}", measured, *known, exact=False))
    for beta in (1.0, 0.5, 0.25, 0.0):
        found.append(
            RuleRow(FRESH, f"β={beta:g}", _measure(setup, exact, beta, o, random), *posterior, exact=True)
        )
    for beta in (1.0, 0.5, 0.25, 0.0):
        found.append(_fixed(f"β={beta:g}", setup, exact, beta, o, random))
    return Tractable(o, tuple(found))


def problem(o: Options, random: torch.Generator) -> LinearGaussian:
    """A dense random H and a measurement of a draw of the prior."""
    H = torch.randn(o.q, o.d, generator=random, dtype=torch.float64) / o.d**0.5
    truth = torch.randn(1, o.d, generator=random, dtype=torch.float64)
    y = truth @ H.T + o.r * torch.randn(1, o.q, generator=random, dtype=torch.float64)
    prior = Gaussian(torch.zeros(o.d, dtype=torch.float64), Isotropic(1.0, (o.d,)))
    return LinearGaussian(LatentMatrix(H), y, o.r, dense_posterior(prior, H, y, o.r))


def correction(
    setup: LinearGaussian, sampler: PASEO, beta: float, bridge: Tensor, random: torch.Generator
) -> Tensor:
    """Lines 10 to 22 of Algorithm 2 for a batch of bridge noises w', with μ_z = 0 and η_z = 1."""
    z = bridge
    y_tilde = setup.y + setup.r * torch.randn(len(z), setup.y.shape[1], generator=random, dtype=z.dtype)
    mu_tilde = torch.randn(z.shape, generator=random, dtype=z.dtype)
    c1, c2 = coefficients("arc", beta)
    z_star = sampler.correct(
        setup.H, z, c1 * z + c2 * mu_tilde, y_tilde, 1.0, torch.ones((), dtype=z.dtype), Noise(0)
    )
    return z + sampler.relaxation * (z_star - z)


def _measure(
    setup: LinearGaussian, sampler: PASEO, beta: float, o: Options, random: torch.Generator
) -> Figures:
    bridge = torch.randn(o.draws, o.d, generator=random, dtype=torch.float64)
    return setup.statistics(correction(setup, sampler, beta, bridge, random))


def _expected(
    setup: LinearGaussian, law: tuple[Tensor, Tensor], o: Options, random: torch.Generator
) -> tuple[Figures, Figures]:
    return _wander(lambda: setup.statistics(_from(law, o.draws, random)), o.replicates)


def _fixed(
    rule: str, setup: LinearGaussian, sampler: PASEO, beta: float, o: Options, random: torch.Generator
) -> RuleRow:
    bridges = torch.randn(o.bridges, o.d, generator=random, dtype=torch.float64)
    c1, c2 = coefficients("arc", beta)

    def measure(w: Tensor) -> Figures:
        return setup.statistics(correction(setup, sampler, beta, w.expand(o.fixed_draws, -1), random))

    def simulate(w: Tensor) -> Figures:
        return setup.statistics(_from(setup.bridge_law(c1, c2, w), o.fixed_draws, random))

    theory, error = _wander(lambda: _mean([simulate(w) for w in bridges]), max(o.replicates // 2, 2))
    return RuleRow(FIXED, rule, _mean([measure(w) for w in bridges]), theory, error, exact=beta == 1.0)


def _from(law: tuple[Tensor, Tensor], count: int, random: torch.Generator) -> Tensor:
    m, V = law
    values, vectors = torch.linalg.eigh(V)
    white = torch.randn(count, m.numel(), generator=random, dtype=m.dtype)
    return m + (white * values.clamp_min(0.0).sqrt()) @ vectors.T


def _wander(simulate: Callable[[], Figures], times: int) -> tuple[Figures, Figures]:
    """Mean of a simulated statistic, and the standard error of one measurement of it (with the mean's own
    added).
    """
    found = [simulate() for _ in range(times)]
    spread = {s: torch.tensor([f[s] for f in found], dtype=torch.float64).std().item() for s in STATISTICS}
    return _mean(found), {s: e * (1.0 + 1.0 / times) ** 0.5 for s, e in spread.items()}


def _mean(found: list[Figures]) -> Figures:
    return {s: sum(f[s] for f in found) / len(found) for s in STATISTICS}
