"""From a measurement to what a sampler is given: the only place that lifts, pads, encodes, binds the operator
to the noise level and finds the observed cells.

    y in [0,1] ─ to_signed ─ lift ─ pad ─ encode ─▶ y_z          σ = 2σ_y, on the same scale as y

Sizes that the latent grid cannot hold are mirrored up to the next multiple before the encoder and cropped
after the decoder, so every method works at every size.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from paseo.base import (
    BindsDegradation,
    BindsNoise,
    Codec,
    Degradation,
    HasLatentSpace,
    HidesPixels,
    LatentOperator,
    NeedsMultiple,
    OnDevice,
    Prior,
    Problem,
    sketched,
)
from paseo.degrade.family import condition_of
from paseo.units import signed_std, to_signed


def pose(
    y: Tensor,
    *,
    prior: Prior,
    codec: Codec,
    operator: LatentOperator | BindsNoise,
    degradation: Degradation,
    sigma_y: float,
    size: tuple[int, int] | None = None,
) -> Problem:
    """The problem of a measurement y (B,3,h,w) in [0,1] with noise σ_y in the same units.

    `size` is the (H, W) of the image behind it, where y does not tell.
    """
    y = to_signed(y.to(device_of(codec)))
    lifted, fitted = fit(y, degradation, codec, prior, size)
    return encoded(y, lifted, fitted, bound(operator, sigma_y, degradation, fitted), degradation, sigma_y)


def encoded(
    y: Tensor,
    lifted: Tensor,
    fitted: Padded,
    operator: LatentOperator,
    degradation: Degradation,
    sigma_y: float,
) -> Problem:
    """The problem of a measurement y in [-1,1] that `fit` has brought to the image's size."""
    y_z = fitted.encode(lifted)
    cells = observed_cells(degradation, fitted, y_z)
    return Problem(y, y_z, signed_std(sigma_y), operator, degradation, fitted, cells)


def fit(
    y: Tensor, degradation: Degradation, codec: Codec, prior: Prior, size: tuple[int, int] | None = None
) -> tuple[Tensor, Padded]:
    """The measurement at the image's size, and the codec for images of that size."""
    lifted = degradation.lift(y, size)
    return lifted, Padded(codec, (lifted.shape[-2], lifted.shape[-1]), multiple_of(prior))


class Padded:
    """A codec for images of one size: mirrors them up to the latent multiple before E and crops after D."""

    def __init__(self, codec: Codec, size: tuple[int, int], multiple: int = 1) -> None:
        self.codec = codec
        self.size = size  # (H, W) of the image
        self.factor = codec.factor
        self.multiple = multiple
        step = codec.factor * multiple  # pixels: the codec's cell times what the prior's own halvings need
        self.padded = (math.ceil(size[0] / step) * step, math.ceil(size[1] / step) * step)

    def around(self, codec: Codec) -> Padded:
        """The same sizes with another codec inside."""
        return Padded(codec, self.size, self.multiple)

    @property
    def latent_size(self) -> tuple[int, int]:
        return self.padded[0] // self.factor, self.padded[1] // self.factor

    def encode(self, x: Tensor) -> Tensor:
        return self.codec.encode(extend(x, self.padded))

    def decode(self, z: Tensor) -> Tensor:
        return self.codec.decode(z)[..., : self.size[0], : self.size[1]]

    def sketch(self, z: Tensor) -> Tensor:
        return sketched(self.codec, z)[..., : self.size[0], : self.size[1]]

    @property
    def latent_space(self) -> str:
        return self.codec.latent_space if isinstance(self.codec, HasLatentSpace) else ""

    @property
    def device(self) -> torch.device:
        return device_of(self.codec)


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


def bound(
    operator: LatentOperator | BindsNoise, sigma_y: float, degradation: Degradation, fitted: Padded
) -> LatentOperator:
    """H_ψ at the measurement's noise level ([0,1] units) and, of a family, for this degradation; plain
    callables are taken as they are.
    """
    if isinstance(operator, BindsDegradation) and operator.serves_family:
        condition = condition_of(degradation, fitted.factor, fitted.size, fitted.padded)
        return operator.bind(sigma_y, condition)
    return operator.bind(sigma_y) if isinstance(operator, BindsNoise) else operator


def observed_cells(degradation: Degradation, codec: Padded, y_z: Tensor) -> Tensor | None:
    """Latent cells that carry information, for tasks that hide some."""
    if not isinstance(degradation, HidesPixels):
        return None
    return extend(degradation.latent_cells(codec.factor, codec.size).to(y_z), codec.latent_size)


def multiple_of(prior: Prior) -> int:
    """Cells whose multiples the sides of a latent must be."""
    return prior.multiple if isinstance(prior, NeedsMultiple) else 1


def device_of(codec: Codec) -> torch.device:
    """Where a codec works."""
    if isinstance(codec, OnDevice) and isinstance(codec.device, torch.device):
        return codec.device
    parameter = next(codec.parameters(), None) if isinstance(codec, nn.Module) else None
    return parameter.device if parameter is not None else torch.device("cpu")
