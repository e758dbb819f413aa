"""How far each method's draws are from the posterior, where it is known in closed form.

Every method restores the same measurements of `paseo.lab.reproduce.posterior_cases` with the exact denoiser,
at the paper's budgets (PASEO 53 denoiser calls, all others at most 79), many draws per measurement:

    mean_error    ‖mean of the draws − posterior mean‖ / ‖posterior mean − prior mean‖
    spread        √(variance of the draws / posterior variance), along the directions that the measurement
                  shows (seen) and along the others (hidden); 1 is right, below 1 is over-confident
    coverage      how often an entry of a draw lies in the posterior's central 90 % (of a Gaussian with its
                  mean and variance)
    distance      of means and of widths along the posterior's principal directions, √(Σ Δm² + Δs²), over
                  the posterior's width
    modes         total variation between the weights of the modes among draws and in the posterior (mixture
                  only)

Draws of the posterior itself (`exact`) say what a finite number of draws can show at best. A method's step
size, for PASEO its number of CG iterations, is chosen on another measurement by `distance`, the same number
of trials for each; where a method takes the noise level of the measurement it is told the true one, and DING
and DDNM have nothing else to choose.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import NormalDist, fmean
from typing import Any

import torch
from torch import Tensor

from paseo.base import Counted, Sampler
from paseo.errors import BadInput, NotFinite
from paseo.files import atomic
from paseo.lab.reproduce.conditions import conditions
from paseo.lab.reproduce.posterior_cases import SCHEDULES, PosteriorCase, R, Target, cases
from paseo.lab.text import Value, columns
from paseo.noise import Noise
from paseo.priors.mixture import Mixture
from paseo.samplers import METHODS, within
from paseo.setting import values_of

BUDGET = {"paseo": 53, "paseo-dagger": 53}  # all others 79, as in the paper
STATISTICS = ("mean_error", "spread_seen", "spread_hidden", "coverage", "distance", "modes")
RATIO = 4.0  # between two trials of a step size

SETTINGS: dict[str, dict[str, object]] = {  # what is known about the problem, and the middle of the search
    "paseo": {"operator_noise": R, "cg_budget": 3},
    "paseo-dagger": {"operator_noise": R, "cg_budget": 3, "anchor": "fresh"},
    "ding": {"observation_noise": R, "eta": "ddpm"},
    "silo": {"scale": 0.1, "shift": None},
    "resample": {"lr_latent": 0.005},
    "psld": {"guidance": 0.3, "gluing": 0.03},
    "gml-dps": {"guidance": 0.3, "goodness": 0.03},
    "ldps": {"guidance": 0.3},
    "daps": {"step_size": 0.1 * R**2, "tau": R},
    "red-diff": {"lr": 0.05},
    "flow-dps": {"step_size": 0.5},
    "flow-chef": {"step_size": 0.1},
    "pnp-flow": {"lr": 0.5},
    "dds": {"gamma": 1.0},
    "diffpir": {"lam": 1.0, "measurement_noise": R},
    "ddnm": {"plus": True, "measurement_noise": R},
}
NOTHING_TO_TUNE = {"ding", "ddnm"}
CG_BUDGETS = (1, 2, 3, 4, 6, 8, 12)  # what PASEO is tuned by: it has no step size


@dataclass(frozen=True)
class Options:
    draws: int = 400  # per measurement
    measurements: int = 2
    trials: int = 7  # step sizes tried per method
    trial_draws: int = 64
    schedule: str = "flow"
    methods: str = "all"  # or names with commas
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.draws, self.trial_draws) < 2 or min(self.measurements, self.trials) < 1:
            raise BadInput("At least 2 draws, 2 trial_draws, 1 measurement and 1 trial are needed.")
        if self.schedule not in SCHEDULES:
            raise BadInput(f"schedule={self.schedule!r} is not one of {', '.join(SCHEDULES)}.")
        if unknown := set(self.names) - set(SETTINGS):
            raise BadInput(
                f"There is no method named {', '.join(sorted(unknown))}. Known: {', '.join(SETTINGS)}."
            )

    @property
    def names(self) -> list[str]:
        return list(SETTINGS) if self.methods == "all" else [n.strip() for n in self.methods.split(",")]

    @classmethod
    def quick(cls) -> Options:
        return cls(draws=48, measurements=1, trials=3, trial_draws=16)


@dataclass(frozen=True)
class PosteriorRow:
    case: str
    method: str
    nfe: int
    setting: dict[str, float]  # what was chosen by search
    measured: dict[str, float]  # NaN where it does not apply
    seconds: float
    reason: str = ""  # why there is no figure

    def to_json(self) -> dict[str, Any]:
        figures = {name: None if math.isnan(v) else v for name, v in self.measured.items()}
        return {
            **{"case": self.case, "method": self.method, "nfe": self.nfe, "setting": self.setting},
            **figures,
            **{"seconds": round(self.seconds, 3), "reason": self.reason},
        }


@dataclass(frozen=True)
class Posteriors:
    options: Options
    found: tuple[PosteriorRow, ...]

    def rows(self) -> list[dict[str, Any]]:
        return [row.to_json() for row in self.found]

    def notes(self) -> dict[str, Any]:
        return {"conditions": conditions()}

    def table(self) -> str:
        lines: list[list[Value]] = []
        for row in self.found:
            figures = [None if math.isnan(row.measured[s]) else row.measured[s] for s in STATISTICS]
            chosen = " ".join(f"{k}={v:.3g}" for k, v in row.setting.items())
            lines.append([row.case, row.method, row.nfe or None, *figures, row.reason or chosen])
        return columns(("case", "method", "NFE", *STATISTICS, "chosen, or why not"), lines)

    def plots(self, out: Path) -> list[Path]:
        """Mean error against spread, one panel per case."""
        from matplotlib.figure import Figure

        names = list(dict.fromkeys(row.case for row in self.found))
        figure = Figure(figsize=(4.2 * len(names), 4), layout="constrained")
        for axis, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
            axis.axvline(1.0, color="0.8", linewidth=1)
            for row in (r for r in self.found if r.case == name and not r.reason):
                x, y = row.measured["spread_hidden"], max(row.measured["mean_error"], 1e-3)
                axis.plot(
                    x, y, "k*" if row.method == "exact" else "o", markersize=9 if "paseo" in row.method else 5
                )
                axis.annotate(row.method, (x, y), textcoords="offset points", xytext=(4, 3), fontsize=7)
            axis.set(
                yscale="log", title=name, xlabel="spread along hidden directions", ylabel="error of the mean"
            )
        path = out / "posterior.png"
        with atomic(path) as file:
            figure.savefig(file, format="png", dpi=150)
        return [path]


def run(options: Options | None = None) -> Posteriors:
    """Every method on every case it can express."""
    o = options or Options()
    found: list[PosteriorRow] = []
    for case in cases(o.schedule):
        found.append(exact(case, o))
        found.extend(measure(case, name, o) for name in o.names)
    return Posteriors(o, tuple(found))


def method_named(name: str) -> Sampler:
    """The sampler with what is known about these problems, at its budget; step sizes in the middle of the
    search.
    """
    base = METHODS["paseo" if name == "paseo-dagger" else name].default
    return within(replace(base, **SETTINGS[name]), BUDGET.get(name, 79))


def exact(case: PosteriorCase, o: Options) -> PosteriorRow:
    """Draws of the posterior itself."""
    start, figures = time.perf_counter(), []
    for k in range(o.measurements):
        target = case.target(case.measure(o.seed + k))
        draws = target.law.sample(Noise(list(range(o.draws))))
        figures.append(statistics(target, draws.flatten(1).double(), case))
    return PosteriorRow(case.name, "exact", 0, {}, _mean(figures), time.perf_counter() - start)


def measure(case: PosteriorCase, name: str, o: Options) -> PosteriorRow:
    """One row: the reason why not, or the search and then the figures."""
    sampler = method_named(name)
    if reason := sampler.unsupported(case.problem(case.measure(o.seed), 1)):
        return PosteriorRow(case.name, name, 0, {}, dict.fromkeys(STATISTICS, math.nan), 0.0, reason)
    try:
        sampler, setting = search(case, name, sampler, o)
        start = time.perf_counter()
        outcomes = [_figures(case, sampler, o.seed + k, o.draws) for k in range(o.measurements)]
    except NotFinite as error:
        return PosteriorRow(case.name, name, 0, {}, dict.fromkeys(STATISTICS, math.nan), 0.0, str(error))
    return PosteriorRow(
        case.name, name, outcomes[0][1], setting, _mean([f for f, _ in outcomes]), time.perf_counter() - start
    )


def search(case: PosteriorCase, name: str, sampler: Sampler, o: Options) -> tuple[Sampler, dict[str, float]]:
    """The step size with the smallest distance on another measurement; trials are a factor of four apart."""
    if name in NOTHING_TO_TUNE:
        return sampler, {}
    field, values = trial_values(name, sampler, o.trials)
    best, least = sampler, math.inf
    for value in values:
        candidate = replace(sampler, **{field: value})
        try:
            figures, _ = _figures(case, candidate, o.seed + 500, o.trial_draws)
        except NotFinite:
            continue
        if figures["distance"] < least:
            best, least = candidate, figures["distance"]
    return best, values_of(best, field)


def trial_values(name: str, sampler: Sampler, trials: int) -> tuple[str, list[float]]:
    """The field that is searched and the values that are tried."""
    if name.startswith("paseo"):
        return "cg_budget", list(CG_BUDGETS[:trials])
    field = METHODS[name].tune[0]
    middle = values_of(sampler, field)[field]
    return field, [middle * RATIO ** (k - (trials - 1) / 2) for k in range(trials)]


def _figures(case: PosteriorCase, sampler: Sampler, seed: int, draws: int) -> tuple[dict[str, float], int]:
    y = case.measure(seed)
    counted = Counted(case.denoiser)
    z = sampler(counted, case.problem(y, draws), Noise(list(range(draws))))
    return statistics(case.target(y), z.flatten(1).double(), case), counted.nfe


def statistics(target: Target, draws: Tensor, case: PosteriorCase) -> dict[str, float]:
    """The figures of the table from draws (N, d)."""
    off, U = draws.mean(0) - target.mean, target.directions
    have, want = (draws @ U).var(0), (U * (target.covariance @ U)).sum(0)  # variance along each eigenvector
    half = NormalDist().inv_cdf(0.95) * target.covariance.diagonal().sqrt()
    gap = off.square().sum() + (have.sqrt() - want.clamp_min(0).sqrt()).square().sum()
    return {
        "mean_error": float(off.norm() / (target.mean - _prior_mean(case)).norm()),
        "spread_seen": _ratio(have, want, target.seen),
        "spread_hidden": _ratio(have, want, ~target.seen),
        "coverage": float(((draws - target.mean).abs() <= half).double().mean()),
        "distance": math.sqrt(float(gap / want.sum())),
        "modes": _mode_error(target, draws, case),
    }


def _prior_mean(case: PosteriorCase) -> Tensor:
    mean = case.prior.mean() if isinstance(case.prior, Mixture) else case.prior.mean
    return mean.double().flatten()


def _ratio(have: Tensor, want: Tensor, which: Tensor) -> float:
    return math.sqrt(float(have[which].sum() / want[which].sum())) if which.any() else math.nan


def _mode_error(target: Target, draws: Tensor, case: PosteriorCase) -> float:
    """Each draw belongs to the nearest of the prior's modes."""
    if not isinstance(case.prior, Mixture) or not isinstance(target.law, Mixture):
        return math.nan
    means = torch.stack([c.mean.double().flatten() for c in case.prior.components])
    nearest = torch.cdist(draws, means).argmin(1)
    have = torch.bincount(nearest, minlength=len(means)).double() / len(draws)
    return 0.5 * float((have - _posterior_weights(target.law, means)).abs().sum())


def _posterior_weights(law: Mixture, means: Tensor) -> Tensor:
    """The posterior's weights on the prior's modes: each of its components belongs to the nearest."""
    weights = torch.zeros(len(means), dtype=torch.float64)
    for w, part in zip(law.weights, law.components, strict=True):
        weights[torch.cdist(part.mean.double().flatten()[None], means).argmin()] += w
    return weights


def _mean(figures: list[dict[str, float]]) -> dict[str, float]:
    return {name: fmean(f[name] for f in figures) for name in STATISTICS}
