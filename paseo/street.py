"""The one-way street: measurement in, restored images out. Any size, any number of draws.

    y ─ lift ─▶ pad ─ encode ─▶ y_z ─ sampler(prior, problem, noise) ─▶ z ─ decode ─▶ crop, clamp ─▶ x̂

Images are in [0,1] at both ends. Sizes that the latent grid cannot hold are mirrored up to the next multiple
before the encoder and cropped after the decoder, so every method works at every size.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn

from paseo.base import Codec, Counted, Degradation, LatentOperator, Prior, Problem, Sampler, Watch, ignore
from paseo.errors import BadInput, Unsupported, out_of_memory
from paseo.images import to_signed, to_tensor, to_unit
from paseo.noise import Noise


class LatentModel(Protocol):
    """A prior and a codec that share a latent space, such as `paseo.load_model` returns."""

    @property
    def prior(self) -> Prior: ...
    @property
    def codec(self) -> Codec: ...


@dataclass(frozen=True, eq=False)
class Restored:
    """Draws from the posterior, one per seed, and what they cost."""

    images: Tensor  # (B, 3, H, W) in [0,1]
    latents: Tensor  # (B, c, h, w), of the padded image
    seeds: tuple[int, ...]  # image i is the draw of seeds[i]
    nfe: int  # denoiser calls, each serving the whole batch
    seconds: float  # from encoding to decoding

    @property
    def mean(self) -> Tensor:
        """(3, H, W): the average of the draws, the sharpest honest guess of each pixel."""
        return self.images.mean(0)

    @property
    def std(self) -> Tensor:
        """(1, H, W): how far the draws disagree, the root of the variance averaged over the colours."""
        if len(self.images) < 2:
            raise BadInput("A standard deviation needs at least two draws; give more seeds.")
        return self.images.var(0).mean(0, keepdim=True).sqrt()


@torch.no_grad()
def restore(
    y: Tensor | Image.Image,
    *,
    operator: Any,
    degradation: Degradation,
    sampler: Sampler,
    model: LatentModel | None = None,
    prior: Prior | None = None,
    codec: Codec | None = None,
    sigma_y: float = 0.01,
    seeds: int | Sequence[int] | Sequence[torch.Generator] = 0,
    size: tuple[int, int] | None = None,
    watch: Watch = ignore,
) -> Restored:
    """Draw restorations of y (PIL, (3,h,w) or (B,3,h,w) in [0,1]; σ_y in the same units).

    One image and several seeds give as many draws of it. A batch takes one seed for each image, or a single
    integer that all of them use: an image alone and the same image in a batch have the same restoration.
    `size` is the (H, W) to restore, for measurements that do not tell it (a down-sampled image whose side was
    no multiple of the factor).
    """
    prior, codec = _parts(model, prior, codec)
    y, noise = _spread(_batch(y, sigma_y), seeds)
    y = to_signed(y.to(_device(codec)))
    start = time.perf_counter()
    degradation, sampler = (
        getattr(degradation, "degradation", degradation),
        getattr(sampler, "sampler", sampler),
    )  # of a task, of a preset
    lifted = degradation.lift(y, size)
    fitted = Padded(codec, (lifted.shape[-2], lifted.shape[-1]), getattr(prior, "multiple", 1))
    y_z = fitted.encode(lifted)
    problem = Problem(
        y,
        y_z,
        sigma_y,
        bound(operator, sigma_y),
        degradation,
        fitted,
        observed_cells(degradation, fitted, y_z),
    )
    if reason := sampler.unsupported(problem):
        raise Unsupported(f"{type(sampler).__name__} cannot run here: {reason}")
    counted = Counted(prior)
    with out_of_memory(
        f"the restoration of {len(y)} images of {fitted.size[0]}×{fitted.size[1]}",
        "Give fewer seeds or images at a time.",
    ):
        z = sampler(counted, problem, noise, watch)
        x = to_unit(fitted.decode(z)).clamp(0, 1)
    return Restored(x, z, tuple(noise.seeds), counted.nfe, time.perf_counter() - start)


class Padded:
    """A codec for images of one size: mirrors them up to the latent multiple before E and crops after D."""

    def __init__(self, codec: Codec, size: tuple[int, int], multiple: int = 1) -> None:
        self.codec = codec
        self.size = size  # (H, W) of the image
        self.factor = codec.factor
        step = (
            codec.factor * multiple
        )  # pixels: the codec's cell times what the prior's own down-sampling needs
        self.padded = (math.ceil(size[0] / step) * step, math.ceil(size[1] / step) * step)

    @property
    def latent_size(self) -> tuple[int, int]:
        return self.padded[0] // self.factor, self.padded[1] // self.factor

    def encode(self, x: Tensor) -> Tensor:
        return self.codec.encode(extend(x, self.padded))

    def decode(self, z: Tensor) -> Tensor:
        return self.codec.decode(z)[..., : self.size[0], : self.size[1]]

    def __getattr__(self, name: str) -> Any:  # hash, latent_space, …
        if name == "codec":  # not there yet: while being copied
            raise AttributeError(name)
        return getattr(self.codec, name)


def extend(x: Tensor, size: tuple[int, int]) -> Tensor:
    """Grow (B,C,H,W) at the bottom and the right: mirrored, or with the edge repeated where the image is too
    small to mirror.
    """
    for axis, target in ((-2, size[0]), (-1, size[1])):
        extra = target - x.shape[axis]
        if extra > 0:
            pad = (0, extra, 0, 0) if axis == -1 else (0, 0, 0, extra)
            x = F.pad(x, pad, mode="reflect" if extra < x.shape[axis] else "replicate")
    return x


def bound(operator: Any, sigma_y: float) -> LatentOperator:
    """H_ψ at the measurement's noise level; plain callables are taken as they are."""
    return operator.bind(sigma_y) if hasattr(operator, "bind") else operator


def observed_cells(degradation: Degradation, codec: Padded, y_z: Tensor) -> Tensor | None:
    """Latent cells that carry information, for tasks that hide some."""
    latent_cells = getattr(degradation, "latent_cells", None)
    cells: Tensor | None = latent_cells(codec.factor, codec.size) if latent_cells is not None else None
    return None if cells is None else extend(cells.to(y_z), codec.latent_size)


def _parts(model: LatentModel | None, prior: Prior | None, codec: Codec | None) -> tuple[Prior, Codec]:
    prior = prior if prior is not None else getattr(model, "prior", None)
    codec = codec if codec is not None else getattr(model, "codec", None)
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
    entries: list[Any] = [seeds] * len(y) if isinstance(seeds, int) else list(seeds)
    if not entries:
        raise BadInput("seeds is empty: give at least one.")
    if len(y) == 1:
        y = y.expand(len(entries), -1, -1, -1)
    if len(entries) != len(y):
        raise BadInput(
            f"{len(y)} images and {len(entries)} seeds: give one seed for each image, or one integer for all."
        )
    try:
        return y, Noise(entries)
    except ValueError as error:
        raise BadInput(str(error)) from None


def _device(codec: Codec) -> torch.device:
    if isinstance(
        place := getattr(codec, "device", None), torch.device
    ):  # where it works, also while its weights wait elsewhere
        return place
    parameter = next(codec.parameters(), None) if isinstance(codec, nn.Module) else None
    return parameter.device if parameter is not None else torch.device("cpu")
