"""Is the operator's nonlinearity needed? The network against the best affine operator of the same reach
(the paper: an affine one fits the latent measurement 4.8 to 8.1 dB worse on super-resolution).

The affine operator is a convolution with bias, k×k cells over all channels, fitted in closed form by least
squares (with a little ridge) to the pairs (E(x), E(lift(A(x) + n))) of the training images. Both are scored
on other images:

    dB = 10 log₁₀(mean square error of the affine one ÷ that of the network)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from paseo.errors import BadInput
from paseo.images import to_signed
from paseo.lab.bench.pictures import Truth, stack
from paseo.lab.bench.setup import Setup
from paseo.lab.paper import figure
from paseo.lab.reproduce.findings import PaperFinding, span
from paseo.lab.reproduce.result import Report
from paseo.lab.reproduce.truths import load_truths
from paseo.lab.text import Value

__all__ = ["Options", "run"]

HEADER = ("task", "RMS network", "RMS affine", "dB worse", "paper from", "paper to")
RIDGE = 1e-4  # of the mean diagonal of XᵀX
BATCH = 8


@dataclass(frozen=True)
class Options:
    model: str = "faces-128"
    data: str = "samples"  # a folder of images: its training part is fitted, its test part scored
    part: str = "test"  # of a folder, scored; "all" halves it
    images: int = 64  # scored
    fitted: int = 256  # images that the affine operator is fitted to
    kernel: int = 7  # cells
    tasks: str = "sr4,sr8"

    def __post_init__(self) -> None:
        if self.kernel < 1 or self.kernel % 2 == 0 or min(self.images, self.fitted) < 1:
            raise BadInput(
                f"kernel={self.kernel}, images={self.images}, fitted={self.fitted}: the kernel is "
                "odd, and at least one image is fitted and one scored."
            )

    @classmethod
    def quick(cls) -> Options:
        return cls(images=4, fitted=6, kernel=3)


def run(o: Options) -> Report:
    fit, test = images(o)
    lines: list[list[Value]] = []
    gaps: list[float] = []
    low, high = (figure("text", "affine", "worse", column=c) for c in ("low_db", "high_db"))
    for name in (t.strip() for t in o.tasks.split(",")):
        setup = Setup(o.model, name)
        weight = fit_affine([pair(setup, part) for part in batches(fit)], o.kernel)
        network, affine = errors(setup, weight, o.kernel, test)
        gaps.append(10 * math.log10(affine / network))
        lines.append([name, math.sqrt(network), math.sqrt(affine), gaps[-1], low, high])
    found = PaperFinding(
        "A matched affine operator fits the latent measurement worse.",
        f"by {low} to {high} dB",
        f"by {span(gaps, 1)} dB",
        min(gaps) > 0,
    )
    where = f"fitted to {len(fit)} images, scored on {len(test)}"
    title = f"Network against affine operator ({o.kernel}×{o.kernel}): {where}"
    return Report(title, HEADER, lines, [found], {"images": len(test), "fitted": len(fit)})


def images(o: Options) -> tuple[list[Truth], list[Truth]]:
    """Those to fit and those to score; the samples beside a model are halved."""
    if o.data != "samples" and o.part != "all":
        fit = load_truths(o.model, o.data, "train", o.fitted)
        return fit, load_truths(o.model, o.data, o.part, o.images)
    found = load_truths(o.model, o.data, "all", o.fitted + o.images)
    half = max(1, min(o.fitted, len(found) // 2))
    return found[:half], found[half : half + o.images] or found[:1]


def batches(pictures: Sequence[Truth]) -> list[Sequence[Truth]]:
    return [pictures[i : i + BATCH] for i in range(0, len(pictures), BATCH)]


@torch.no_grad()
def pair(setup: Setup, pictures: Sequence[Truth]) -> tuple[Tensor, Tensor]:
    """Clean latents and encoded measurements, (B,c,h,w) each."""
    lifted = setup.task.degradation.lift(to_signed(setup.measure(pictures)), pictures[0].size)
    encode = setup.model.codec.encode
    return encode(to_signed(stack(pictures))), encode(lifted)


def patches(z: Tensor, kernel: int) -> Tensor:
    """(N, c·k² + 1): the neighbourhood of every cell, and 1."""
    rows = F.unfold(z.double(), kernel, padding=kernel // 2).mT.flatten(0, 1)
    return torch.cat([rows, torch.ones_like(rows[:, :1])], dim=1)


def fit_affine(pairs: Sequence[tuple[Tensor, Tensor]], kernel: int) -> Tensor:
    """Least squares over all cells of all images: (c·k² + 1, c)."""
    gram, right = torch.zeros(()), torch.zeros(())
    for z, y in pairs:
        X = patches(z, kernel)
        gram = gram + X.mT @ X
        right = right + X.mT @ y.double().flatten(2).mT.flatten(0, 1)
    return torch.linalg.solve(gram + RIDGE * gram.diagonal().mean() * torch.eye(len(gram)), right)


@torch.no_grad()
def errors(setup: Setup, weight: Tensor, kernel: int, pictures: Sequence[Truth]) -> tuple[float, float]:
    """Mean square error of the network and of the affine operator."""
    network: list[Tensor] = []
    affine: list[Tensor] = []
    for part in batches(pictures):
        z, y = pair(setup, part)
        problem = setup.problem(part[0])
        network.append((problem.operator(z) - y).double().square().flatten())
        target = y.double().flatten(2).mT.flatten(0, 1)
        affine.append((patches(z, kernel) @ weight - target).square().flatten())
    return torch.cat(network).mean().item(), torch.cat(affine).mean().item()
