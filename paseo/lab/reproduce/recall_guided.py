"""Recall under classifier-free guidance, where everything is known: x̂₀ = x̂₀_∅ + w (x̂₀_c − x̂₀_∅).

Four classes of 3×8×8 latents, each Gaussian with a natural covariance around a mean of its own, with half of
the variance each. x̂₀_c is the exact denoiser of the first class, x̂₀_∅ that of the mixture of all four; truths
come from the first class, and its posterior is known. With w = 1 a secant is that class's covariance. With
w > 1 it is a difference of two, g_∅ + w (g_c − g_∅), which no law has: where the classes overlap it may be
too narrow or negative. Operators, rule and figures are those of `recall`; all rows have the same measurements
and seeds. `against` is the share of pairs with D·d ≤ 0, along which the denoiser answers backwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from paseo.base import Prior, Step
from paseo.errors import BadInput
from paseo.lab.reproduce.conditions import conditions
from paseo.lab.reproduce.posterior_cases import SHAPE
from paseo.lab.reproduce.recall import operators, problem, statistics
from paseo.noise import Noise
from paseo.priors.covariance import Stationary, natural_spectrum
from paseo.priors.gaussian import Gaussian, GaussianPrior
from paseo.priors.mixture import MixturePrior
from paseo.priors.posterior import posterior
from paseo.samplers.paseo import PASEO
from paseo.schedule import Flow, Schedule

CLASSES = 4
SHOWN = ("mean_error", "seen", "hidden", "coverage", "spread", "finest", "against")


@dataclass(frozen=True)
class Options:
    truths: int = 24
    draws: int = 12  # per truth
    steps: int = 28
    r: float = 0.05
    recall: int = 4  # K of the rows that remember
    guidance: str = "1,2,4"  # w, with commas
    seed: int = 0

    def __post_init__(self) -> None:
        if self.truths < 1 or self.draws < 2 or self.steps < 4 or self.r <= 0 or self.recall < 1:
            raise BadInput("At least 1 truth, 2 draws, 4 steps and recall=1 are needed, and r is positive.")
        try:
            fit = all(w >= 0 for w in self.scales)
        except ValueError:
            fit = False
        if not fit:
            raise BadInput(f"guidance={self.guidance!r} is no list of numbers such as 1,2,4.")

    @property
    def scales(self) -> list[float]:
        return [float(w) for w in self.guidance.split(",")]

    @classmethod
    def quick(cls) -> Options:
        return cls(truths=4, draws=6, guidance="1,4")


@dataclass(frozen=True, eq=False)
class Guided:
    """Two exact denoisers mixed, as a network with a prompt mixes its own two."""

    full: Prior
    empty: Prior
    scale: float
    schedule: Schedule = field(default_factory=Flow)

    def x0(self, x: Tensor, t: float) -> Tensor:
        empty = self.empty.x0(x, t)
        return empty + self.scale * (self.full.x0(x, t) - empty)


class SignWatch:
    """A hook that reads the pairs' signs from the trace."""

    wants_trace = True

    def __init__(self) -> None:
        self.signs: list[Tensor] = []

    def __call__(self, step: Step) -> None:
        if "recall_along" in step.trace:
            self.signs.append(torch.tensor(step.trace["recall_along"]))

    def against(self) -> float:
        return float((~torch.cat(self.signs)).double().mean()) if self.signs else 0.0


@dataclass(frozen=True)
class GuidedTable:
    options: Options
    found: tuple[dict[str, Any], ...]

    def rows(self) -> list[dict[str, Any]]:
        return list(self.found)

    def notes(self) -> dict[str, Any]:
        return {"conditions": conditions()}

    def table(self) -> str:
        lines = [f"{'operator':<10}{'w':>5}{'K':>3}" + "".join(f"{name:>12}" for name in SHOWN)]
        for row in self.found:
            head = f"{row['operator']:<10}{row['guidance']:>5g}{row['recall']:>3}"
            lines.append(head + "".join(f"{row[name]:12.3f}" for name in SHOWN))
        return "\n".join(lines)

    def plots(self, out: Path) -> list[Path]:
        return []


def run(options: Options | None = None) -> GuidedTable:
    o = options or Options()
    return GuidedTable(o, tuple(_rows(o)))


def classes(seed: int) -> tuple[GaussianPrior, MixturePrior]:
    """The first class, and all of them together."""
    covariance = Stationary(0.5 * natural_spectrum(SHAPE))
    means = Gaussian(torch.zeros(SHAPE), covariance).sample(Noise([seed + 500 + k for k in range(CLASSES)]))
    parts = tuple(Gaussian(mean, covariance) for mean in means)
    return GaussianPrior(means[0], covariance), MixturePrior(torch.ones(CLASSES), parts)


def _rows(o: Options) -> Iterator[dict[str, Any]]:
    one, every = classes(o.seed)
    truths = one.sample(Noise([o.seed + k for k in range(o.truths)]))
    for name, operator in operators().items():
        clean = operator(truths.float())
        y = clean + o.r * Noise([o.seed + 10_000 + k for k in range(o.truths)]).like(clean)
        law = posterior(one, operator, y, o.r)
        assert isinstance(law, Gaussian)
        for scale in o.scales:
            for size in (0, o.recall):
                sampler = PASEO(steps=o.steps, operator_noise=o.r, cg_budget=3, recall=size)
                pairs = SignWatch()
                noise = Noise(range(o.truths * o.draws))
                z = sampler(Guided(one, every, scale), problem(operator, y, o.draws), noise, pairs)
                figures = {**statistics(law, one, truths, z), "against": pairs.against()}
                yield {"operator": name, "guidance": scale, "recall": size, **figures}
