"""The figure of docs/methods.md: what one measurement step recovers along directions that the operator
weakens by s.

    python docs/figures/methods.py docs/images/methods.png

A diagonal operator with gains s ∈ (0, 1], a latent of ones, the anchor at zero and no noise: the step's
result along a direction is the part of the latent that it recovers. 1 is all of it, s²τ/(1 + s²τ) the exact
step, s²τ its first-order truncation. Every curve is made by the code of the method named in the legend.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor

from paseo.base import Noise, Problem
from paseo.codecs.identity import IdentityCodec
from paseo.lab.reproduce.posterior_cases import AsDegradation
from paseo.operators.exact import LatentMask
from paseo.samplers import PASEO, DiffPIR
from paseo.samplers.linear import linear_model
from paseo.samplers.misfit import half_square, pixel_gradient

SHAPE = (1, 3, 4, 8)
GAINS = torch.logspace(-2, 0, 96, dtype=torch.float64)


def recovered(tau: float) -> dict[str, tuple[Tensor, str]]:
    """Method → (recovered part along each direction, line style), for a trust of τ = η_z²/r²."""
    H = LatentMask(GAINS.view(SHAPE))
    z, y = torch.zeros(SHAPE, dtype=torch.float64), H(torch.ones(SHAPE, dtype=torch.float64))
    problem = Problem(y, y, 0.0, H, AsDegradation(H, "diagonal"), IdentityCodec(1))
    latent = linear_model(Problem(y, y, 0.0, H))
    one, r = torch.ones((), dtype=torch.float64), tau**-0.5

    def paseo(C: int | None) -> Tensor:
        return PASEO(operator_noise=r, cg_budget=C).correct(H, z, z, y, 1.0, one, Noise([0]))

    return {
        "PASEO, C = 1": (paseo(1), "C0:"),
        "PASEO, C = 2": (paseo(2), "C0--"),
        "PASEO, C = 3": (paseo(3), "C0-"),
        "PASEO, exact": (paseo(None), "k-"),
        "DiffPIR, ρ = 1/τ": (DiffPIR().fit(latent, z, 1.0 / tau), "C4:"),
        "DDS, γ = τ, 5 iterations": (latent.correct(z, tau, 1.0, 5, 0.0), "C1--"),
        "DDNM": (latent.correct(z, 1.0, 0.0, 1000, 1e-12), "C2-"),
        "PnP-Flow, lr = τ": (z - tau * pixel_gradient(problem, z, half_square), "C3-."),
    }


def draw() -> Figure:
    figure = Figure(figsize=(10, 3.4), layout="constrained")
    for axis, tau in zip(figure.subplots(1, 2, sharey=True), (0.5, 50.0), strict=True):
        for name, (part, style) in recovered(tau).items():
            axis.semilogx(GAINS, part.flatten(), style, label=name, linewidth=1.4)
        axis.set(
            title=f"trust τ = {tau:g}", xlabel="gain s of the operator along a direction", ylim=(-0.05, 1.6)
        )
        axis.grid(alpha=0.3)
    figure.axes[0].set_ylabel("part recovered by one step")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), fontsize=8, loc="outside right center")
    return figure


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "methods.png")
    target.parent.mkdir(parents=True, exist_ok=True)
    draw().savefig(target, dpi=110)
