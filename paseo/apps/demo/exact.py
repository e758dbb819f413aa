"""The exact restoration: Gaussian clouds with a natural spectrum, seen through holes and through a blur.

Prior and operators are linear and Gaussian, so the posterior is known in closed form
(`paseo.priors.posterior`). The draws of the full sampler are shown beside its mean and its standard
deviation: what they should be, not what looks good. No weights are needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from paseo.apps.demo.report import MEASUREMENT, Demo, DemoRow, score
from paseo.codecs.identity import IdentityCodec
from paseo.images import to_unit
from paseo.noise import Noise
from paseo.operators.exact import LatentBlur, LatentMask
from paseo.priors import Gaussian, GaussianPrior, posterior
from paseo.samplers import PASEO
from paseo.sheet import TOP, contact_sheet, deviation_map
from paseo.street import Restored, restore

SIDE = 48  # pixels; a channel's exact posterior is a matrix of SIDE⁴ numbers
SIGMA_Y = 0.02  # in [0,1] units
CODEC = IdentityCodec(std=0.3)  # latents are the pixels in units of the clouds' standard deviation on [-1,1]
R = 2 * SIGMA_Y / CODEC.std  # the noise of a latent measurement


@dataclass(frozen=True)
class SeenThrough:
    """An exact operator as a degradation: the measurement has the image's size."""

    operator: Callable[[Tensor], Tensor]
    name: str
    linear: bool = True

    def __call__(self, x: Tensor) -> Tensor:
        return self.operator(x)

    def lift(self, y: Tensor, size: tuple[int, int] | None = None) -> Tensor:
        return y

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        return height, width


def clouds(channels: int) -> GaussianPrior:
    """Unit variance per pixel, amplitudes ∝ f^(−3/2), the channels independent."""
    return GaussianPrior.natural((channels, SIDE, SIDE), exponent=1.5)


def run_exact(draws: int = 8, seed: int = 0, advance: Callable[[], Any] = lambda: None) -> Demo:
    """Both tasks, `draws` times each; the first rows of the table are the measurement and the exact posterior
    mean.
    """
    prior, sampler = clouds(3), PASEO(operator_noise=R, cg_budget=3)
    z = prior.sample(Noise([1000 + seed]))
    operators = {
        "holes": LatentMask.holes((SIDE, SIDE), hidden=0.4, cell=4),
        "blur": LatentBlur.gaussian((SIDE, SIDE), std=1.5),
    }
    rows, cells, spreads = [], [], {}
    for task, operator in operators.items():
        y_z = operator(z) + R * Noise([2000 + seed]).like(z)
        truth, y = (to_unit(CODEC.decode(latent)) for latent in (z, y_z))
        result = restore(
            y,
            prior=prior,
            codec=CODEC,
            operator=operator,
            degradation=SeenThrough(operator, task),
            sampler=sampler,
            sigma_y=SIGMA_Y,
            seeds=range(seed, seed + draws),
        )
        mean, std = exact_answer(operator, y_z)
        rows += _rows(task, truth, y, mean, result)
        spreads[task] = float(
            (CODEC.std / 2 * result.latents).var(0).mean().sqrt() / std.square().mean().sqrt()
        )
        maps = [deviation_map(result.std), deviation_map(std)]
        cells.append([truth[0], y[0], *result.images[:3], result.mean, mean[0], *maps])
        advance()
    columns = [
        "truth",
        "measurement",
        *(f"draw {k + 1}" for k in range(min(3, draws))),
        "mean",
        "exact mean",
        "std",
        "exact std",
    ]
    footer = f"Standard deviations on one scale: black 0, yellow {TOP} and above."
    sheet = contact_sheet(cells, columns=columns, rows=list(operators), side=2 * SIDE, footer=footer)
    return Demo(
        rows, sheet, {"models": {"exact": {}}, "sigma_y": SIGMA_Y, "noise_unit": "unit", "spread": spreads}
    )


def exact_answer(operator: object, y_z: Tensor) -> tuple[Tensor, Tensor]:
    """Mean (1,3,H,W) and standard deviation (H,W) of the posterior, in [0,1] units; the channels are alike
    and independent.
    """
    exact = posterior(clouds(1), operator, y_z.transpose(0, 1), R)
    assert isinstance(exact, Gaussian)
    mean = to_unit(CODEC.decode(exact.mean.float().transpose(0, 1)))
    return mean, (exact.std().float() * CODEC.std / 2).squeeze().expand(SIDE, SIDE)


def _rows(task: str, truth: Tensor, y: Tensor, mean: Tensor, result: Restored) -> list[DemoRow]:
    fixed = [
        DemoRow("exact", task, name, "clouds", None, *score(x, truth)[0], 0, 0.0)
        for name, x in ((MEASUREMENT, y), ("exact mean", mean))
    ]
    each = round(result.seconds / len(result.images), 3)
    scores = score(result.images, truth.expand_as(result.images))
    return fixed + [
        DemoRow("exact", task, "paseo", "clouds", s, *both, result.nfe, each)
        for s, both in zip(result.seeds, scores, strict=True)
    ]
