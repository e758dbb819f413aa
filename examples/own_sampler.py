"""A sampler of one's own: a frozen dataclass of settings that can be called.

    python examples/own_sampler.py --out out

Denoise, take one gradient step of ‖y_z − H(z)‖² on the clean estimate, and walk on with the same noise. It
draws all its randomness from `noise`, tells `watch` of every step, and says itself where it cannot run;
restore() does the rest.
"""

import argparse
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor

import paseo
from paseo.base import Noise, Prior, Problem, Step, Watch, ignore
from paseo.images import read, save_png
from paseo.linalg import linearize
from paseo.models import ROOT
from paseo.schedule import grid
from paseo.setting import check_settings, setting
from paseo.sheet import contact_sheet


@dataclass(frozen=True)
class GradientSteps:
    steps: int = setting(40, "", "time points; NFE = steps − 1", "[2, 10000]")
    step_size: float = setting(0.5, "κ", "length of a gradient step", "[0, 1000]")

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def nfe(self) -> int:
        return self.steps - 1

    def unsupported(self, problem: Problem) -> str | None:
        return (
            None
            if problem.shape == tuple(problem.y_z.shape)
            else "it needs a measurement encoded as a latent."
        )

    @torch.no_grad()
    def __call__(self, prior: Prior, problem: Problem, noise: Noise, watch: Watch = ignore) -> Tensor:
        points = grid(prior.schedule, self.steps, "ddpm")
        x = points[0].scale * noise.normal(problem.shape).to(problem.y_z)
        z = x
        for k, (t, s) in enumerate(pairwise(points)):
            x0 = prior.x0(x, t.t)  # E[z | x_t]
            x1 = (x - t.alpha * x0) / t.sigma  # the noise that belongs to it
            h, _, JT = linearize(problem.operator, x0)
            z = x0 + self.step_size * JT(problem.y_z - h)
            x = s.alpha * z + s.sigma * x1
            watch(Step(k, self.steps - 1, s, x, z))
        return z


def main(out: Path, steps: int = 40) -> paseo.Restored:
    model, task = paseo.load_model("faces-128"), paseo.task("blur")
    x = read(ROOT / "faces-128/samples/2000004.jpg").rgb
    y = task.measure(x[None], seeds=0)
    sampler = GradientSteps(steps)
    result = paseo.restore(
        y, model=model, degradation=task, operator=model.operator("blur"), sampler=sampler, seeds=[0]
    )
    assert result.nfe == sampler.nfe
    save_png(
        out / "own_sampler.png",
        contact_sheet([[y[0], result.images[0], x]], columns=["measurement", "restored", "original"]),
    )
    print(f"{result.nfe} denoiser calls, {out / 'own_sampler.png'}")
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("out"))
    parser.add_argument("--steps", type=int, default=40)
    main(**vars(parser.parse_args()))
