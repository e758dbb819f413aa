"""Small real problems for sampler tests: exact Gaussian priors, the real degradations, a codec that loses
nothing.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from paseo.base import Noise, Problem
from paseo.codecs.identity import IdentityCodec
from paseo.degrade import task
from paseo.operators.exact import Chain, LatentMask
from paseo.priors import GaussianPrior
from paseo.samplers import METHODS
from paseo.schedule import VP, Flow, Schedule

SHAPE = (12, 8, 8)  # the latent of a 16×16 image with two pixels per cell and side
SCHEDULES: dict[str, Schedule] = {"flow": Flow(3.0), "vp": VP()}

STEP_SIZES = {  # of a size that this toy takes; the defaults belong to Stable Diffusion
    "silo": {"scale": 0.02, "shift": None},
    "resample": {"guidance": 0.05, "max_iterations": 5, "every": 2},
    "psld": {"guidance": 0.2, "gluing": 0.05},
    "gml-dps": {"guidance": 0.2, "goodness": 0.05},
    "ldps": {"guidance": 0.2},
    "daps": {"step_size": 1e-5, "mcmc_steps": 3},
    "red-diff": {"lr": 0.05},
    "flow-dps": {"step_size": 0.2},
    "flow-chef": {"step_size": 0.2, "inner_steps": 3},
    "pnp-flow": {"lr": 0.2, "samples": 2},
    "paseo": {"cg_budget": 2},
}
VARIANTS = {
    "paseo-recall": {"recall": 4},
    "paseo-finish": {"finish": 0.6},
}  # method-what: settings that make another algorithm of it


def base(name: str) -> str:
    """The method of a variant."""
    return name.partition("-")[0] if name in VARIANTS else name


def sampler(name: str, **changes):
    """A method or a variant with step sizes for the toy and few steps."""
    known = {**STEP_SIZES.get(base(name), {}), **VARIANTS.get(name, {})}
    return replace(METHODS[base(name)].default, **{"steps": 6, **known, **changes})


def prior(schedule: str = "flow", shape: tuple[int, ...] = SHAPE) -> GaussianPrior:
    return GaussianPrior.natural(shape, SCHEDULES[schedule])


def problem(
    name: str = "sr4", seeds: tuple[int, ...] = (0, 1), dtype: torch.dtype = torch.float32
) -> Problem:
    """A task of the paper on draws of the prior, measured with noise; item i depends on seeds[i] alone."""
    codec, degradation = IdentityCodec(2), task(name).degradation
    z = prior().sample(Noise(list(seeds))).to(dtype)
    clean = degradation(codec.decode(0.4 * z))
    y = clean + 0.02 * Noise([s + 1000 for s in seeds]).like(clean)
    y_z = codec.encode(degradation.lift(y))
    cells = degradation.latent_cells(2, (16, 16)) if hasattr(degradation, "latent_cells") else None
    return Problem(y, y_z, 0.02, Chain(codec, degradation), degradation, codec, cells)


def supported(name: str, found: Problem) -> Problem:
    """The problem as the method can take it: a mask for those that need one."""
    return (
        found
        if METHODS[base(name)].default.unsupported(found) is None
        else problem("inpaint", tuple(range(found.y.shape[0])))
    )


def mask_problem(mask: Tensor, y: Tensor, std: float) -> Problem:
    """y = M ∘ z + std·n on latents (B, 3, h, w), seen alike by latent and pixel methods (identity codec of
    factor 1).
    """
    from paseo.degrade import Mask

    return Problem(
        y, y, std, LatentMask(mask), Mask(mask[None, None]), IdentityCodec(1), mask.expand(y.shape)
    )
