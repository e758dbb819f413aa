"""What the last correction in pixels (`finish`) gives a method that does not have it, as its last act.

    python benchmarks/finish.py --data FACES --methods silo --tasks inpaint --images 64
    python benchmarks/finish.py --model photos --data photos-256/validation.tar --part all --tasks sr4

z ← E(D(z) + a (lift(y) − lift(A(D(z))))) once, after a method's run, a as PASEO's kept settings have it or as
given. Beside it stands PASEO as kept and without it. LPIPS, one draw for each picture, paired differences
from the method's own result.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor

from paseo.base import Prior, Problem, Sampler, Watch, ignore
from paseo.lab.bench.pictures import load_pictures
from paseo.lab.bench.setup import Setup
from paseo.noise import Noise
from paseo.samplers import PASEO
from paseo.samplers.finish import finished


@dataclass(frozen=True)
class Ended:
    """A method, and one correction in pixels after it."""

    sampler: Sampler
    share: float

    def unsupported(self, problem: Problem) -> str | None:
        return self.sampler.unsupported(problem)

    def __call__(self, prior: Prior, problem: Problem, noise: Noise, watch: Watch = ignore) -> Tensor:
        with torch.no_grad():
            return finished(problem, self.sampler(prior, problem, noise, watch), self.share)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="faces-128")
    parser.add_argument("--data", required=True)
    parser.add_argument("--part", default="validation", choices=("all", "validation", "test"))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--images", type=int, default=64)
    parser.add_argument("--tasks", type=lambda s: s.split(","), default=["inpaint"])
    parser.add_argument("--methods", type=lambda s: s.split(","), default=["silo"])
    parser.add_argument("--budget", type=int, default=79, help="denoiser calls of the methods beside PASEO")
    parser.add_argument("--share", type=float, help="a; the kept settings' unless given")
    parser.add_argument("--batch", type=int, default=8)
    o = parser.parse_args()
    torch.set_num_threads(1)
    pictures = load_pictures(o.data, o.part, o.first, o.images, 128)

    def lpips(setup: Setup, sampler: Sampler) -> Tensor:
        blocks = (pictures[i : i + o.batch] for i in range(0, len(pictures), o.batch))
        return torch.cat([setup.scores(sampler, block, ["lpips"])["lpips"] for block in blocks])

    def line(name: str, found: Tensor, own: Tensor) -> None:
        off = 100 * (found - own) / own.mean()
        error = off.std() / len(off) ** 0.5
        print(f"{name:28s} {found.mean():.4f}  {off.mean():+.1f} ± {error:.1f} %", flush=True)

    for task in o.tasks:
        own = Setup(o.model, task)
        kept = cast(PASEO, own.recipe.sampler)
        share = kept.finish if o.share is None else o.share
        print(f"{task}, a = {share:g}, {len(pictures)} pictures from number {o.first} of {o.part}")
        bare = lpips(own, replace(kept, finish=0.0))
        line("paseo without", bare, bare)
        line("paseo as kept", lpips(own, kept), bare)
        for method in o.methods:
            setup = Setup(o.model, task, method=method, budget=o.budget)
            plain = lpips(setup, setup.recipe.sampler)
            line(f"{method} {o.budget}", plain, plain)
            line(f"{method} {o.budget} and the same", lpips(setup, Ended(setup.recipe.sampler, share)), plain)


if __name__ == "__main__":
    main()
