"""The one-way street: measurement in, restored images out. Any size, any number of draws.

    y ─ pose ─▶ problem ─ sampler(prior, problem, noise) ─▶ z ─ decode ─▶ crop, carry over, clamp ─▶ x̂

Images are in [0,1] at both ends. A task or a preset may stand for its degradation or its sampler; it is
unwrapped here and nowhere behind.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Protocol

import torch
from PIL import Image
from torch import Tensor

from paseo.base import (
    BindsNoise,
    Codec,
    Counted,
    Degradation,
    LatentOperator,
    Prior,
    Problem,
    Sampler,
    Step,
    WantsTrace,
    Watch,
    ignore,
)
from paseo.degrade import Task
from paseo.degrade.carry import carry_over, found_share
from paseo.errors import BadInput, Unsupported, out_of_memory
from paseo.images import to_tensor
from paseo.memory import Choice, tiling
from paseo.noise import Noise
from paseo.problem import bound, device_of, encoded, fit
from paseo.restored import Restored as Restored
from paseo.seeds import for_batch
from paseo.settings.presets import Preset
from paseo.units import to_signed, to_unit


class LatentModel(Protocol):
    """A prior and a codec that share a latent space, such as `paseo.load_model` returns."""

    @property
    def prior(self) -> Prior: ...
    @property
    def codec(self) -> Codec: ...


@torch.no_grad()
def restore(
    y: Tensor | Image.Image,
    *,
    operator: LatentOperator | BindsNoise,
    degradation: Degradation | Task,
    sampler: Sampler | Preset,
    model: LatentModel | None = None,
    prior: Prior | None = None,
    codec: Codec | None = None,
    sigma_y: float = 0.01,
    seeds: int | Sequence[int] | Sequence[torch.Generator] = 0,
    size: tuple[int, int] | None = None,
    carry: float = 0.0,
    windows: Choice = "auto",
    watch: Watch = ignore,
) -> Restored:
    """Draw restorations of y (PIL, (3,h,w) or (B,3,h,w) in [0,1]; σ_y in the same units).

    One image and several seeds give as many draws of it. A batch takes one seed for each image, or a single
    integer that all of them use: an image alone and the same image in a batch have the same restoration.
    `size` is the (H, W) to restore, for measurements that do not tell it (a down-sampled image whose side was
    no multiple of the factor). `carry` is the share of the measurement's detail beyond the codec that is
    carried over (`paseo.degrade.carry`); a blind run takes that of what it found. `windows` says how a large
    canvas is walked: "auto" takes it whole where it fits into memory, "off" always, `Windows(side, halo,
    blend)` in windows of that many latent cells.
    """
    prior, codec = _parts(model, prior, codec)
    y, noise = _spread(_batch(y, sigma_y), seeds)
    start = time.perf_counter()
    degradation = degradation.degradation if isinstance(degradation, Task) else degradation
    sampler = sampler.sampler if isinstance(sampler, Preset) else sampler
    what = f"the restoration of {len(y)} images that were measured at {y.shape[-2]}×{y.shape[-1]}"
    with out_of_memory(what, way_out(len(y))):
        y = to_signed(y.to(device_of(codec)))
        lifted, fitted = fit(y, degradation, codec, prior, size)
        H = bound(operator, sigma_y, degradation, fitted)
        tiles = tiling(
            prior,
            codec,
            H,
            fitted.latent_size,
            len(y),
            choice=windows,
            grain=fitted.multiple,
            device=y.device,
        )
        fitted = fitted.around(tiles.codec(codec))
        problem = tiles.problem(encoded(y, lifted, fitted, H, degradation, sigma_y))
        counted = Counted(tiles.prior(prior))
        if reason := sampler.unsupported(problem):
            raise Unsupported(f"{type(sampler).__name__} cannot run here: {reason}")
        noted = Noted(watch)
        z = sampler(counted, problem, noise, noted)
        share = found_share(degradation, noted.found, sigma_y) if noted.found else carry
        x = decoded(problem, z, lifted, share)
    seconds = time.perf_counter() - start
    return Restored(x, z, tuple(noise.seeds), counted.nfe, seconds, noted.found, tiles.windows)


class Noted:
    """A hook that also remembers which parameters of the degradation were found."""

    def __init__(self, watch: Watch) -> None:
        self.watch, self.found = watch, dict[str, list[float]]()
        self.wants_trace = isinstance(watch, WantsTrace) and watch.wants_trace

    def __call__(self, step: Step) -> Tensor | None:
        self.found = step.found
        return self.watch(step)


def way_out(images: int) -> str:
    """What really needs less memory."""
    fewer = "Give fewer seeds or images at a time, " if images > 1 else ""
    rest = "use smaller windows (windows=Windows(side=64)), a smaller factor, or crop the picture."
    return fewer + "or " + rest if fewer else rest[0].upper() + rest[1:]


def decoded(problem: Problem, z: Tensor, lifted: Tensor, carry: Tensor | float = 0.0) -> Tensor:
    """A latent of the problem as images (B,3,H,W) in [0,1], with a share of the detail of the measurement at
    image size that no latent holds.
    """
    if problem.codec is None:
        raise BadInput("This problem has no codec, so nothing can be decoded.")
    x = problem.codec.decode(z)
    share = torch.as_tensor(carry).to(x)
    if bool(share.any()):
        x = carry_over(x, lifted, problem.codec.decode(problem.y_z), share)
    return to_unit(x).clamp(0, 1)


def _parts(model: LatentModel | None, prior: Prior | None, codec: Codec | None) -> tuple[Prior, Codec]:
    if model is not None:
        prior = model.prior if prior is None else prior
        codec = model.codec if codec is None else codec
    if prior is None or codec is None:
        raise BadInput(
            "restore() needs a model, or a prior and a codec: restore(y, model=paseo.load_model(), …)."
        )
    return prior, codec


def _batch(y: Tensor | Image.Image, sigma_y: float) -> Tensor:
    """(B,3,h,w) in [0,1] units, checked."""
    if not (math.isfinite(sigma_y) and sigma_y >= 0):
        raise BadInput(
            f"sigma_y={sigma_y} cannot be used: it is the standard deviation of the noise on [0,1] images, "
            "such as 0.01."
        )
    y = to_tensor(y) if isinstance(y, Image.Image) else y
    y = y[None] if y.ndim == 3 else y
    if y.ndim != 4 or y.shape[1] != 3 or 0 in y.shape:
        raise BadInput(f"A measurement is (3,h,w) or (B,3,h,w), got {tuple(y.shape)}.")
    if not torch.isfinite(y).all():
        raise BadInput("The measurement holds NaN or infinite values.")
    slack = 0.25 + 6 * sigma_y  # bicubic overshoot and noise
    if float(y.min()) < -slack or float(y.max()) > 1 + slack:
        raise BadInput(
            f"The measurement runs from {float(y.min()):.3g} to {float(y.max()):.3g}; images are in [0,1] "
            "here. Scale it first."
        )
    return y if y.is_floating_point() else y.to(torch.float32)


def _spread(y: Tensor, seeds: int | Sequence[int] | Sequence[torch.Generator]) -> tuple[Tensor, Noise]:
    """One row of y and one generator for each draw."""
    entries = for_batch(seeds, len(y))
    if len(y) == 1:
        y = y.expand(len(entries), -1, -1, -1)
    try:
        return y, Noise(entries)
    except ValueError as error:
        raise BadInput(str(error)) from None
