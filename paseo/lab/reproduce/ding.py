"""What DING is given: the encoded measurement E(y), or the encoded truth E(x), whose cells beside the hole
have seen what is hidden (the paper's "carrying a pixel mask into the latent").

    hole, visible   PSNR and LPIPS of the two regions; E(x) is not admissible and stands here to show what
                    it gives away
    relative ℓ1     Σ|E(x) − E(y)| ÷ Σ|E(x)| over the visible cells, and the largest difference of a cell
    ceiling         PSNR of the visible region after encoding and decoding the truth
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from paseo.errors import BadInput
from paseo.images import to_signed, to_unit
from paseo.lab.bench.pictures import Truth
from paseo.lab.bench.scores import ScoredPair, eight_bit, score
from paseo.lab.bench.setup import Setup
from paseo.lab.paper import PRIORS, figure
from paseo.lab.reproduce.findings import PaperFinding
from paseo.lab.reproduce.result import Report
from paseo.lab.reproduce.truths import load_truths
from paseo.lab.text import Value
from paseo.noise import Noise
from paseo.samplers.ding import DING

__all__ = ["Options", "run"]

METRICS = ("psnr_hole", "lpips_hole", "psnr_visible")
HEADER = ("given", "PSNR hole", "LPIPS hole", "PSNR visible", "relative ℓ1", "largest")
TASK = "inpaint"


@dataclass(frozen=True)
class Options:
    model: str = "faces-128"
    data: str = "samples"
    part: str = "test"
    images: int = 20
    steps: int = 41  # 79 calls
    seed: int = 0

    def __post_init__(self) -> None:
        if self.images < 1 or self.steps < 3:
            raise BadInput(f"images={self.images} and steps={self.steps}: images start at 1, steps at 3.")

    @classmethod
    def quick(cls) -> Options:
        return cls(images=2, steps=5)


def run(o: Options) -> Report:
    setup = Setup(o.model, TASK)
    pictures = load_truths(o.model, o.data, o.part, o.images)
    each = [_one(setup, DING(steps=o.steps), picture, o.seed) for picture in pictures]
    here = {name: statistics.fmean(row[name] for row in each) for name in each[0]}
    lines: list[list[Value]] = []
    for given in ("E(y)", "E(x)"):
        apart = [here["relative"], max(row["most"] for row in each)] if given == "E(y)" else [None, None]
        lines.append([given, *(here[f"{given} {m}"] for m in METRICS), *apart])
    lines.append(["ceiling", None, None, here["ceiling"], None, None])
    for prior in PRIORS:
        printed = [figure("text", "ding", prior, column=m) for m in METRICS]
        leak = [figure("text", "leak", prior, column=c) for c in ("relative_l1", "most")]
        lines.append([f"E(y), paper {prior}", *printed, *leak])
    title = f"DING on E(y) and on E(x): {len(pictures)} images"
    return Report(title, HEADER, lines, findings(here), {"images": len(pictures)})


@torch.no_grad()
def _one(setup: Setup, sampler: DING, picture: Truth, seed: int) -> dict[str, float]:
    problem = setup.problem(picture)
    truth = picture.tensor[None].to(problem.y_z.device)
    assert problem.codec is not None  # a mask has both
    assert problem.observed is not None
    z = problem.codec.encode(to_signed(truth))
    seen = problem.observed.expand_as(z) > 0.5
    apart = (z - problem.y_z)[seen].abs()
    found = {"relative": (apart.sum() / z[seen].abs().sum()).item(), "most": apart.max().item()}
    noise = picture.seed("sample", seed)
    for given, y_z in (("E(y)", problem.y_z), ("E(x)", z)):
        drawn = sampler(setup.model.prior, replace(problem, y_z=y_z), Noise(noise))
        scored = _scores(setup, problem.codec.decode(drawn), truth)
        found |= {f"{given} {m}": scored[m] for m in METRICS}
    return {**found, "ceiling": _scores(setup, problem.codec.decode(z), truth)["psnr_visible"]}


def _scores(setup: Setup, image: Tensor, truth: Tensor) -> dict[str, float]:
    pair = ScoredPair(eight_bit(to_unit(image).cpu()), truth.cpu(), setup.task)
    return {name: value.item() for name, value in score(pair, METRICS).items()}


def findings(here: dict[str, float]) -> list[PaperFinding]:
    gap = here["ceiling"] - here["E(y) psnr_visible"]
    told = here["E(x) psnr_hole"] - here["E(y) psnr_hole"]
    return [
        PaperFinding(
            "The visible region comes back at the autoencoder's ceiling.",
            "29.57 dB (RV-v5.1), 34.29 dB (SD3.5)",
            f"{here['E(y) psnr_visible']:.2f} dB, ceiling {here['ceiling']:.2f} dB",
            gap < 1.0,
        ),
        PaperFinding(
            "The encoded truth gives part of the hole away.",
            "not measured",
            f"{told:+.2f} dB in the hole",
            told > 0,
        ),
    ]
