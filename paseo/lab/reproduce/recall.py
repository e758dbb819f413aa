"""What recall does to calibration, where the posterior is known: the rows of `posterior` and `lincheck` with
K pairs remembered and with none.

PASEO with 28 steps on 3×8×8 latents of a natural Gaussian prior, whose denoiser is exact, seen through a mask
(a half hidden), a circular blur or a dense random matrix with half as many rows as the latent has entries.
Truths come from the prior, several draws for each, all rules with the same measurements and seeds:

    mean_error    ‖mean of the draws − posterior mean‖ / ‖posterior mean − prior mean‖, RMS over truths,
                  without the part that a finite number of draws of the posterior would have
    seen, hidden  √(variance of the draws / posterior variance), along the directions that the measurement
                  shows and along the others; 1 is right, below 1 is over-confident
    coverage      how often an entry of a draw lies in the posterior's central 90 %
    spread        RMS distance between two draws ÷ RMS distance from a draw to the truth; 1 when calibrated
    tv            of the truth's rank among the draws from the uniform law
    finest        energy of the draws in the finest Fourier band ÷ energy of the truths

`tractable` has no such rows: it is one correction, and recall acts between two steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import NormalDist
from typing import Any

import torch
from torch import Tensor

from paseo.base import Problem
from paseo.errors import BadInput
from paseo.files import atomic
from paseo.lab.reproduce.calibration import evidence
from paseo.lab.reproduce.conditions import conditions
from paseo.lab.reproduce.posterior_cases import SCHEDULES, SHAPE
from paseo.noise import Noise
from paseo.operators.exact import LatentBlur, LatentMask, LatentMatrix
from paseo.priors.gaussian import Gaussian, GaussianPrior
from paseo.priors.posterior import posterior
from paseo.samplers.paseo import PASEO

STATISTICS = ("mean_error", "seen", "hidden", "coverage", "spread", "tv", "finest")
RULES: dict[str, dict[str, Any]] = {  # anchors and budgets as the paper has them
    "arc, C=1": {"anchor": "arc", "cg_budget": 1},
    "arc, C=3": {"anchor": "arc", "cg_budget": 3},
    "arc, C=3, ρ=0.5": {"anchor": "arc", "cg_budget": 3, "relaxation": 0.5},
    "fresh, C=3": {"anchor": "fresh", "cg_budget": 3},
}
Operator = LatentMask | LatentBlur | LatentMatrix


@dataclass(frozen=True)
class Options:
    truths: int = 24
    draws: int = 24  # per truth
    steps: int = 28
    r: float = 0.05
    recall: str = "0,1,4"  # K, with commas
    recall_gain: float = 1.0  # γ and τ of all rows
    late_noise: float = 1.0
    schedule: str = "flow"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.truths < 1 or self.draws < 2 or self.steps < 3 or self.r <= 0:
            raise BadInput("At least 1 truth, 2 draws and 3 steps are needed, and r is positive.")
        if self.schedule not in SCHEDULES:
            raise BadInput(f"schedule={self.schedule!r} is not one of {', '.join(SCHEDULES)}.")
        if not all(k.strip().isdigit() for k in self.recall.split(",")):
            raise BadInput(f"recall={self.recall!r} is no list of whole numbers such as 0,1,4.")

    @property
    def sizes(self) -> list[int]:
        return [int(k) for k in self.recall.split(",")]

    @classmethod
    def quick(cls) -> Options:
        return cls(truths=6, draws=8, recall="0,4")


@dataclass(frozen=True)
class RecallRow:
    operator: str
    rule: str
    recall: int
    measured: dict[str, float]

    def to_json(self) -> dict[str, Any]:
        return {"operator": self.operator, "rule": self.rule, "recall": self.recall, **self.measured}


@dataclass(frozen=True)
class Calibration:
    options: Options
    found: tuple[RecallRow, ...]

    def rows(self) -> list[dict[str, Any]]:
        return [row.to_json() for row in self.found]

    def notes(self) -> dict[str, Any]:
        return {"conditions": conditions()}

    def table(self) -> str:
        lines = [f"{'rule':<18}{'K':>3}" + "".join(f"{s:>12}" for s in STATISTICS)]
        operator = ""
        for row in self.found:
            if row.operator != operator:
                operator = row.operator
                lines.append(f"-- {operator}")
            cells = "".join(f"{row.measured[s]:12.3f}" for s in STATISTICS)
            lines.append(f"{row.rule:<18}{row.recall:>3}{cells}")
        return "\n".join(lines)

    def plots(self, out: Path) -> list[Path]:
        """Error of the mean against spread along hidden directions, an arrow from no recall to the most."""
        from matplotlib.figure import Figure

        names = list(dict.fromkeys(row.operator for row in self.found))
        figure = Figure(figsize=(4.2 * len(names), 4), layout="constrained")
        for axis, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
            axis.axvline(1.0, color="0.8", linewidth=1)
            for rule in dict.fromkeys(row.rule for row in self.found):
                path = [r.measured for r in self.found if (r.operator, r.rule) == (name, rule)]
                axis.plot([p["hidden"] for p in path], [p["mean_error"] for p in path], "o-", label=rule)
            axis.set(title=name, xlabel="spread along hidden directions", ylabel="error of the mean")
        axis.legend(fontsize=7)
        target = out / "recall.png"
        with atomic(target) as file:
            figure.savefig(file, format="png", dpi=150)
        return [target]


def run(options: Options | None = None) -> Calibration:
    o = options or Options()
    return Calibration(o, tuple(_rows(o)))


def _rows(o: Options) -> Iterator[RecallRow]:
    prior = GaussianPrior.natural(SHAPE, SCHEDULES[o.schedule])
    truths = prior.sample(Noise([o.seed + k for k in range(o.truths)]))
    base = PASEO(steps=o.steps, operator_noise=o.r, recall_gain=o.recall_gain, late_noise=o.late_noise)
    for name, operator in operators().items():
        clean = operator(truths.float())
        y = clean + o.r * Noise([o.seed + 10_000 + k for k in range(o.truths)]).like(clean)
        law = posterior(prior, operator, y, o.r)
        assert isinstance(law, Gaussian)
        task = problem(operator, y, o.draws)
        for rule, settings in RULES.items():
            for size in o.sizes:
                sampler = replace(base, **settings, recall=size)
                z = sampler(prior, task, Noise(range(o.truths * o.draws)))
                yield RecallRow(name, rule, size, statistics(law, prior, truths, z))


def operators() -> dict[str, Operator]:
    half = torch.zeros(SHAPE[1:])
    half[:, : SHAPE[2] // 2] = 1.0
    d = math.prod(SHAPE)
    matrix = torch.randn(d // 2, d, generator=torch.Generator().manual_seed(5)) / math.sqrt(d)
    return {
        "mask": LatentMask(half),
        "blur": LatentBlur.gaussian(SHAPE[1:], 0.7),
        "matrix": LatentMatrix(matrix, SHAPE),
    }


def problem(operator: Operator, y: Tensor, draws: int) -> Problem:
    """All draws of all truths as one batch."""
    y = y.repeat_interleave(draws, 0)
    return Problem(y=y, y_z=y, sigma_y=0.0, operator=operator, latent_shape=(len(y), *SHAPE))


def statistics(law: Gaussian, prior: Gaussian, truths: Tensor, z: Tensor) -> dict[str, float]:
    """The figures of a row from draws (T·K, …) of the posteriors with means (T, …)."""
    T = len(truths)
    draws = z.double().view(T, -1, *SHAPE)
    flat, means = draws.flatten(2), law.mean.double().flatten(1)
    covariance, wide = law.covariance.matrix(), prior.covariance.matrix()
    want, U = torch.linalg.eigh(covariance)
    have = (flat @ U).var(1).mean(0)  # over draws, then over truths
    seen = want < 0.25 * (U * (wide @ U)).sum(0)
    off = (flat.mean(1) - means).square().sum() - have.sum() * T / flat.shape[1]
    half = NormalDist().inv_cdf(0.95) * covariance.diagonal().sqrt()
    found = evidence(draws[0], truths[:1])
    for k in range(1, T):
        found = found + evidence(draws[k], truths[k : k + 1])
    return {
        "mean_error": math.sqrt(max(float(off / (means - prior.mean.flatten()).square().sum()), 0.0)),
        "seen": _ratio(have, want, seen),
        "hidden": _ratio(have, want, ~seen),
        "coverage": float(((flat - means[:, None]).abs() <= half).double().mean()),
        "spread": found.spread()[0],
        "tv": found.tv(),
        "finest": found.band("finest")[0],
    }


def _ratio(have: Tensor, want: Tensor, which: Tensor) -> float:
    return math.sqrt(float(have[which].sum() / want[which].sum())) if which.any() else math.nan
