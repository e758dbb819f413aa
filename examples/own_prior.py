"""A prior of one's own: any object with a schedule and x0(x, t). Here, the simplest that knows anything about
faces.

    python examples/own_prior.py --out out

Its denoiser is exact for latents that are independent Gaussians with the samples' mean and variance, cell by
cell. It knows where a face is and nothing of how its parts hang together, and the result looks like it; PASEO
does not mind.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

import paseo
from paseo.base import Prior
from paseo.images import find_images, read, save_png, to_signed
from paseo.models import ROOT
from paseo.schedule import Flow, Schedule
from paseo.sheet import contact_sheet


@dataclass(frozen=True, eq=False)
class CellwisePrior:
    """E[z | x_t = x] = μ + α v (x − α μ) / (α² v + σ²), for every cell by itself."""

    mean: Tensor  # μ, (c,h,w)
    variance: Tensor  # v, (c,h,w)
    schedule: Schedule

    def x0(self, x: Tensor, t: float) -> Tensor:
        point = self.schedule.point(t)
        alpha, sigma = point.alpha, point.sigma
        return self.mean + alpha * self.variance * (x - alpha * self.mean) / (
            alpha**2 * self.variance + sigma**2
        )


@torch.no_grad()
def main(out: Path, steps: int = 28) -> paseo.Restored:
    model, task = paseo.load_model("faces-128"), paseo.task("sr4")
    faces = torch.stack([read(p).rgb for p in find_images(ROOT / "faces-128/samples")])
    latents = model.codec.encode(to_signed(faces[1:]))  # the first one is kept for the test
    prior = CellwisePrior(latents.mean(0), latents.var(0), Flow())
    assert isinstance(prior, Prior)  # a protocol: nothing to inherit from

    y = task.measure(faces[:1], seeds=0)
    sampler = paseo.PASEO(steps=steps, cg_budget=3, operator_noise=0.05)
    result = paseo.restore(
        y,
        prior=prior,
        codec=model.codec,
        degradation=task,
        operator=model.operator("sr4"),
        sampler=sampler,
        seeds=[0],
    )
    save_png(
        out / "own_prior.png",
        contact_sheet([[y[0], result.images[0], faces[0]]], columns=["measurement", "restored", "original"]),
    )
    print(f"{result.nfe} calls of the prior, {out / 'own_prior.png'}")
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("out"))
    parser.add_argument("--steps", type=int, default=28)
    main(**vars(parser.parse_args()))
