"""The paper's check of the full sampler against known posteriors ("The full sampler with exact linear
operators").

PASEO with 28 steps, P = 1, ρ = 1, λ = 0, r = 0.01 on 16×64×64 latents, with H an exact random-hole mask (20 %
hidden, 2×2 cells) or an exact circular blur (Gaussian of one cell), for three anchors and C = 1 … 16 or an
exact solve. Where the paper has SD3.5, the prior is Gaussian: channels independent, zero mean, unit variance
per entry, amplitude ∝ 1/f as in natural images, on the SD3 grid with η = σ(1 − α). Its denoiser and its
posteriors are exact, so nothing is left to a network.

Truths are drawn twice: by the same 28-step sampler with nothing observed, as in the paper, and from the prior
itself, which shows the discretisation and the last denoising as well. Beside each stands the exact posterior
of the law that its truths come from. Measurements and seeds are shared by all rules, so differences are
paired.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

import torch
from torch import Tensor

from paseo.base import Problem
from paseo.errors import BadInput
from paseo.lab.paper import Figures
from paseo.lab.reproduce.calibration import BANDS, Evidence, evidence
from paseo.lab.reproduce.conditions import conditions
from paseo.lab.reproduce.lincheck_findings import SOLVES, Budget, findings, printed
from paseo.lab.reproduce.yardstick import exact_draws, sampler_power
from paseo.lab.text import Value, columns
from paseo.noise import Noise
from paseo.operators.exact import LatentBlur, LatentMask
from paseo.priors.gaussian import GaussianPrior
from paseo.samplers.anchor import Anchor
from paseo.samplers.paseo import PASEO
from paseo.samplers.weight import Weight
from paseo.schedule import SD3Flow, grid

Truth = Literal["sampler", "prior"]
TRUTHS: tuple[Truth, ...] = ("sampler", "prior")
ANCHORS: tuple[Anchor, ...] = ("fresh", "arc", "denoiser")
OPERATORS = ("mask", "blur")
HEADER = (
    *("anchor", "C", "spread", "±", "TV", *BANDS),
    *("paper spread", "paper TV", "paper finest", "paper images"),
)
Key = tuple[str, str, Budget, Truth]  # operator, anchor, C, truth


@dataclass(frozen=True)
class Options:
    """Sizes; the paper's are 100 images (64 for the sweep) with 20 draws each."""

    images: int = 2
    draws: int = 20
    channels: int = 16
    size: int = 64
    steps: int = 28
    r: float = 0.01
    exponent: float = 1.0  # of the 1/f amplitude
    seed: int = 0

    def __post_init__(self) -> None:
        if (
            min(self.images, self.channels) < 1
            or not 2 <= self.draws <= 900
            or self.size < 8
            or self.size % 2
        ):
            raise BadInput(
                f"images={self.images}, draws={self.draws}, channels={self.channels}, size={self.size} "
                "cannot be used: "
                "images and channels start at 1, draws lie in 2 … 900, and the size is even and at least 8."
            )

    @classmethod
    def quick(cls) -> Options:
        return cls(images=1, draws=10, channels=4, size=32)

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.channels, self.size, self.size


@dataclass(frozen=True, eq=False)
class LincheckRow:
    """One rule on one operator and one kind of truth; `anchor` is "posterior" for the exact one."""

    operator: str
    anchor: str
    budget: Budget
    truth: Truth
    evidence: Evidence

    def spread(self) -> float:
        return self.evidence.spread()[0]

    def spread_error(self) -> float:
        return self.evidence.spread()[1]

    def band(self, name: str = "finest") -> float:
        return self.evidence.band(name)[0]

    def paper(self, block: str = "sweep") -> Figures:
        """The published figures: a blur's from the sweep (64 images), or from the comparison (100 images)."""
        return printed(self.operator, self.anchor, self.budget, block) if self.truth == "sampler" else {}

    def to_json(self) -> dict[str, Any]:
        spread, spread_se = self.evidence.spread()
        bands = {name: self.evidence.band(name) for name in BANDS}
        return {
            "operator": self.operator,
            "anchor": self.anchor,
            "cg_budget": self.budget,
            "truth": self.truth,
            "spread": spread,
            "tv": self.evidence.tv(),
            "bands": {name: value for name, (value, _) in bands.items()},
            "finest_energy": bands["finest"][0],
            "standard_error": {
                "spread": _finite(spread_se),
                "bands": {name: _finite(e) for name, (_, e) in bands.items()},
            },
            "rank_histogram": self.evidence.histogram().tolist(),
            "paper": dict(self.paper()),
            "paper_comparison": dict(self.paper("compare")) if self.operator == "blur" else {},
        }


@dataclass(frozen=True, eq=False)
class LinCheck:
    """All rows, the paper's beside them, and what carries over."""

    options: Options
    found: tuple[LincheckRow, ...]
    seconds: float

    def rows(self) -> list[dict[str, Any]]:
        return [row.to_json() for row in self.found]

    def notes(self) -> dict[str, Any]:
        return {
            "conditions": {**conditions(), "seconds": self.seconds},
            "findings": [f.to_json() for f in findings(self.found)],
        }

    def pick(self, operator: str, truth: Truth = "sampler") -> list[LincheckRow]:
        return [row for row in self.found if (row.operator, row.truth) == (operator, truth)]

    def table(self) -> str:
        o = self.options
        lines = [
            f"{o.images} images × {o.draws} draws, {o.channels}×{o.size}×{o.size}, {o.steps} steps; ± one "
            "standard error"
        ]
        for operator in OPERATORS:
            for truth in TRUTHS:
                picked = self.pick(operator, truth)
                rows = [_line(row) for row in picked]
                rows += [_line(row, "compare") for row in picked if row.to_json()["paper_comparison"]]
                lines += ["", f"{operator}, truths from the {truth}", columns(HEADER, rows)]
        return "\n".join(
            [*lines, "", "What carries over from the paper", *(f.line() for f in findings(self.found))]
        )

    def plots(self, out: Path) -> list[Path]:
        from paseo.lab.reproduce.lincheck_plots import rank_figure, sweep_figure

        return [
            sweep_figure(self.found, out / "lincheck-sweep.png"),
            rank_figure(self.found, out / "lincheck-ranks.png"),
        ]


@dataclass(frozen=True, eq=False)
class ImageCase:
    """One image: a truth, its measurement, and what is needed to judge draws."""

    operator: LatentMask | LatentBlur
    truth: Tensor  # (1, c, h, w)
    y: Tensor  # (1, c, h, w)
    region: Tensor | None  # where distances and ranks are taken: the holes, for a mask
    seeds: range

    def problem(self) -> Problem:
        y = self.y.expand(len(self.seeds), *self.y.shape[1:])
        seen = self.operator.mask[None, None] if isinstance(self.operator, LatentMask) else None
        return Problem(y=y, y_z=y, sigma_y=0.0, operator=self.operator, observed=seen)

    def rule(self, sampler: PASEO, anchor: Anchor, budget: Budget) -> PASEO:
        """A mask weights the measurement by itself: the noise of hidden cells is no information, and one CG
        iteration is then the exact solve.
        """
        if budget == "exact":
            return replace(sampler, anchor=anchor, cg_budget=None)  # solves cell by cell, without weights
        weight: Weight = "mask" if isinstance(self.operator, LatentMask) else "ones"
        return replace(sampler, anchor=anchor, cg_budget=budget, weight=weight)

    def judge(self, draws: Tensor) -> Evidence:
        return evidence(draws, self.truth, self.region)


def run(options: Options | None = None) -> LinCheck:
    """Measure every row; a bar on stderr counts runs of the sampler."""
    from tqdm import tqdm

    o, start = options or Options(), perf_counter()
    total = o.images * len(TRUTHS) * len(OPERATORS) * (1 + len(ANCHORS) * len(SOLVES))
    found: dict[Key, Evidence] = {}
    for key, more in tqdm(_measure(o), total=total, desc="lincheck", unit="run", disable=None, leave=False):
        found[key] = found[key] + more if key in found else more
    return LinCheck(
        o, tuple(LincheckRow(*key, evidence) for key, evidence in found.items()), perf_counter() - start
    )


def _measure(o: Options) -> Iterator[tuple[Key, Evidence]]:
    """One run after the other, over all truths, operators, images, anchors and budgets."""
    sampler, prior = make_sampler(o), make_prior(o)
    own = prior.covariance.values.view(o.shape)
    powers = {"prior": own, "sampler": sampler_power(own, grid(prior.schedule, o.steps, sampler.eta))}
    for truth in TRUTHS:
        for name in OPERATORS:
            for case in cases(o, sampler, prior, name, truth):
                draws = exact_draws(powers[truth], case.operator, case.y, o.r, Noise(case.seeds))
                yield (name, "posterior", "exact", truth), case.judge(draws)
                for anchor, budget in product(ANCHORS, SOLVES):
                    rule = case.rule(sampler, anchor, budget)
                    yield (
                        (name, anchor, budget, truth),
                        case.judge(rule(prior, case.problem(), Noise(case.seeds))),
                    )


def make_sampler(o: Options) -> PASEO:
    return PASEO(steps=o.steps, operator_noise=o.r, eta="square")


def make_prior(o: Options) -> GaussianPrior:
    return GaussianPrior.natural(o.shape, SD3Flow(), o.exponent)


def cases(o: Options, sampler: PASEO, prior: GaussianPrior, name: str, truth: Truth) -> Iterator[ImageCase]:
    for image in range(o.images):
        first = (
            o.seed * 1000 + image
        ) * 1000  # a thousand seeds per image: truth, measurement, holes, then the draws
        z = prior.sample(Noise(first)) if truth == "prior" else unobserved(sampler, prior, first)
        operator = (
            LatentMask.holes((o.size, o.size), seed=first + 2)
            if name == "mask"
            else LatentBlur.gaussian((o.size, o.size))
        )
        region = operator.mask < 0.5 if isinstance(operator, LatentMask) else None
        y = operator(z) + o.r * Noise(first + 1).like(z)
        yield ImageCase(operator, z, y, region, range(first + 3, first + 3 + o.draws))


def unobserved(sampler: PASEO, prior: GaussianPrior, seed: int) -> Tensor:
    """One draw of the sampler with nothing observed."""
    y = torch.zeros(1, *prior.shape)
    return replace(sampler, cg_budget=1)(
        prior, Problem(y=y, y_z=y, sigma_y=0.0, operator=LatentMask.nothing()), Noise(seed)
    )


def _line(row: LincheckRow, block: str = "sweep") -> list[Value]:
    """With the paper's figures of one block: the sweep has 64 images, mask and comparison have 100."""
    spread, error = row.evidence.spread()
    paper = row.paper(block)
    sweep = row.operator == "blur" and block == "sweep"
    images = {True: 64, False: 100}[sweep] if paper else None
    published = [paper.get(name) for name in ("spread", "tv", "finest")]
    bands = [row.band(name) for name in BANDS]
    return [
        row.anchor,
        str(row.budget),
        spread,
        _finite(error),
        row.evidence.tv(),
        *bands,
        *published,
        images,
    ]


def _finite(value: float) -> float | None:
    return value if value < float("inf") else None  # one unit alone has no standard error
