"""Page one: the nouns of the library and what they promise each other.

    x ─ degrade ─▶ y ─ codec.encode(lift(y)) ─▶ y_z ─ sampler(prior, problem, noise) ─▶ z ─ codec.decode ─▶ x̂

Images next to a codec are float (B,3,H,W) in [-1,1]; at every public boundary they are in [0,1] or PIL.
What only some of the nouns can do has a name of its own (`HasAdjoint`, `HidesPixels`, …), asked for where an
object comes in: `isinstance(degradation, HidesPixels)`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field, dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from paseo.noise import Noise
from paseo.schedule import Point, Schedule
from paseo.windows import Area

LatentOperator = Callable[[Tensor], Tensor]
"""H_ψ: clean latent → encoding of the degraded image, already bound to the measurement's noise level."""


@runtime_checkable
class LocalOperator(Protocol):
    """An operator that can stand at one window of a larger canvas."""

    def __call__(self, z: Tensor, /) -> Tensor: ...
    def at(self, area: Area, canvas: tuple[int, int]) -> LatentOperator:
        """H on the window `area` of a canvas of (h, w) cells."""
        ...


@runtime_checkable
class Sized(Protocol):
    """A part that knows its memory: peak bytes per latent cell and image while it runs."""

    @property
    def cell_bytes(self) -> int: ...


@runtime_checkable
class Sees(Protocol):
    """A network that knows how many cells to each side it sees; None: the whole picture."""

    @property
    def receptive_field(self) -> int | None: ...


@runtime_checkable
class Prior(Protocol):
    """A denoiser with prompt and guidance already bound."""

    @property
    def schedule(self) -> Schedule: ...
    def x0(self, x: Tensor, t: float) -> Tensor:
        """E[z | x_t = x] at native time t; one call is one NFE."""
        ...


class Counted:
    """A prior that counts its calls, so that a reported NFE is what was really spent."""

    def __init__(self, prior: Prior) -> None:
        self.prior = prior
        self.nfe = 0

    @property
    def schedule(self) -> Schedule:
        return self.prior.schedule

    def x0(self, x: Tensor, t: float) -> Tensor:
        self.nfe += 1
        return self.prior.x0(x, t)


@runtime_checkable
class Codec(Protocol):
    """An autoencoder between images and the prior's latents."""

    @property
    def factor(self) -> int: ...  # image pixels per latent cell and side
    def encode(self, x: Tensor) -> Tensor:
        """(B,3,H,W) in [-1,1] → (B,c,H/f,W/f) in the prior's units, the mean."""
        ...

    def decode(self, z: Tensor) -> Tensor: ...


@runtime_checkable
class Sketches(Protocol):
    """A codec with a second, quicker decoder, for looks on the way and never for a result."""

    def sketch(self, z: Tensor) -> Tensor:
        """D(z), roughly; D(z) itself where no quicker decoder is at hand."""
        ...


def sketched(codec: Codec, z: Tensor) -> Tensor:
    """D(z) by the quickest decoder that a codec has."""
    return codec.sketch(z) if isinstance(codec, Sketches) else codec.decode(z)


@runtime_checkable
class Degradation(Protocol):
    """A in pixels, without noise, on images in [-1,1]. Linear ones are also a `LinearDegradation`."""

    @property
    def name(self) -> str: ...
    @property
    def linear(self) -> bool: ...
    def __call__(self, x: Tensor) -> Tensor: ...
    def lift(self, y: Tensor, size: tuple[int, int] | None = None) -> Tensor:
        """Measurement → image size, so that it can be encoded; `size` (H, W) where y does not tell it."""
        ...

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        """Size of the measurement of an image."""
        ...


# What some of them can do as well


@runtime_checkable
class HasAdjoint(Protocol):
    """A linear map with its transpose."""

    def adjoint(self, y: Tensor, /) -> Tensor: ...


@runtime_checkable
class LinearDegradation(Protocol):
    """A degradation that may be linear, which `linear` says, with its transpose Aᵀ."""

    @property
    def linear(self) -> bool: ...
    def __call__(self, x: Tensor, /) -> Tensor: ...
    def adjoint(self, y: Tensor, size: tuple[int, int] | None = None) -> Tensor:
        """Aᵀ y at the image's `size`, where y does not tell it."""
        ...


@runtime_checkable
class HidesPixels(Protocol):
    """A degradation that leaves some pixels unseen."""

    def observed_at(self, height: int, width: int) -> Tensor:
        """(1 or B, 1, H, W): 1 = seen."""
        ...

    def latent_cells(self, factor: int, size: tuple[int, int] | None = None) -> Tensor:
        """(1 or B, 1, H/f, W/f): 1 where every pixel of the cell is seen."""
        ...


@runtime_checkable
class HasParams(Protocol):
    """What is needed to build it again, for records."""

    @property
    def params(self) -> dict[str, object]: ...


@runtime_checkable
class HoldsDegradation(Protocol):
    """A task, which stands for the degradation inside it."""

    @property
    def degradation(self) -> Degradation: ...


@runtime_checkable
class BindsNoise(Protocol):
    """An operator for many noise levels, such as `OperatorNet`."""

    def bind(self, sigma_y: float) -> LatentOperator:
        """H_ψ at one noise level, which is given for images in [0,1]."""
        ...


@runtime_checkable
class BindsDegradation(Protocol):
    """An operator that may serve a family of degradations and is then told the one at hand."""

    @property
    def serves_family(self) -> bool: ...
    def bind(self, sigma_y: float, condition: Condition | None = None) -> LatentOperator:
        """H_ψ at one noise level and, of a family, for one degradation."""
        ...


SPREAD = "_std"  # of a found parameter, beside it under its name


@dataclass(frozen=True)
class Knob:
    """A parameter of a degradation, in the coordinate in which a search for it takes its steps."""

    value: float  # at hand
    low: float
    high: float
    read: Callable[[float], float] = float  # the coordinate ↦ the number as people know it
    # (coordinate, ω of rows, ω of columns) ↦ |H| in the spectrum of the measurement; None: not seen there
    transfer: Callable[[float, Tensor, Tensor], Tensor] | None = None


@runtime_checkable
class HasKnobs(Protocol):
    """An operator that can stand at other parameters of its degradation."""

    def knobs(self) -> dict[str, Knob]:
        """The parameters that can be turned, by name."""
        ...

    def turned(self, values: dict[str, float]) -> LatentOperator:
        """The operator with these coordinates; those that are not named stay."""
        ...


@runtime_checkable
class KnowsResidual(Protocol):
    """An operator that knows its own RMS error in each entry of the measurement; None: not this one."""

    @property
    def residual(self) -> Tensor | None: ...


@runtime_checkable
class HasNetwork(Protocol):
    """An operator around a network, such as `BoundOperator`."""

    @property
    def net(self) -> nn.Module: ...


@runtime_checkable
class HasMatrix(Protocol):
    """A linear operator that can be written down."""

    def matrix(self, shape: tuple[int, ...], /) -> Tensor:
        """H on flattened latents of `shape`, as (q, d) in float64."""
        ...


@runtime_checkable
class DiagonalInFourier(Protocol):
    """A circular convolution."""

    @property
    def transfer(self) -> Tensor: ...  # (…, h, w): its value at each frequency


@runtime_checkable
class SolvesExactly(Protocol):
    """An operator whose correction has a closed form."""

    def solve(self, b: Tensor, trust: float, eta2: float) -> Tensor:
        """(trust·I + eta2·H Hᵀ)⁻¹ b."""
        ...


@runtime_checkable
class NeedsMultiple(Protocol):
    """A prior whose latents have sides that are multiples of a number of cells."""

    @property
    def multiple(self) -> int: ...


@runtime_checkable
class OnDevice(Protocol):
    """A codec that says where it works, also while its weights wait elsewhere."""

    @property
    def device(self) -> torch.device: ...


@runtime_checkable
class HasLatentSpace(Protocol):
    """A codec that can name its latent space, such as "faces-128" or "sd3.5"."""

    @property
    def latent_space(self) -> str: ...


@runtime_checkable
class HasHash(Protocol):
    """A codec with a SHA-256 that tells its latent space from every other one."""

    @property
    def hash(self) -> str: ...


@runtime_checkable
class HasStd(Protocol):
    """A codec whose latents are pixels in units of a standard deviation."""

    @property
    def std(self) -> float: ...


@runtime_checkable
class FitsSize(Protocol):
    """A codec around another one for images of one size, which are mirrored up to `padded` before E and
    cropped after D.
    """

    @property
    def codec(self) -> Codec: ...
    @property
    def size(self) -> tuple[int, int]: ...
    @property
    def padded(self) -> tuple[int, int]: ...


@dataclass(frozen=True, eq=False)
class Condition:
    """What an operator for a family of degradations is told of the one at hand, besides the noise level."""

    numbers: dict[str, float]  # c by name; what is not named is 0 and was not done
    # (1 or B, n², h, w): share of seen pixels in n×n parts of each latent cell; None = all are seen
    seen: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Problem:
    """All that a sampler may know: no ground truth inside. `paseo.problem.pose` makes one."""

    y: Tensor  # the measurement, in [-1,1] units, at its own size
    y_z: Tensor  # (B, c, H/f, W/f): its encoding, in the prior's units
    sigma_y: float  # std of its noise on the same scale: twice the public number, which belongs to [0,1]
    operator: LatentOperator  # H_ψ
    degradation: Degradation | None = None  # A, for methods that work in pixels
    codec: Codec | None = None
    # latent cells that carry information, 1 = seen; for weight="mask" and DING
    observed: Tensor | None = None
    latent_shape: tuple[int, ...] | None = None  # (B, …) of z where it differs from y_z's

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the latent that is sought."""
        return self.latent_shape or tuple(self.y_z.shape)


@dataclass(frozen=True, eq=False)
class Step:
    """What a `watch` hook is shown once per step; `trace` only if the hook asks for it with `wants_trace =
    True`.
    """

    index: int  # 0 … total − 1
    total: int
    point: Point
    x: Tensor  # the diffusion state after the step
    z: Tensor  # the clean estimate of the step
    trace: dict[str, Any] = field(default_factory=dict)
    # parameters of the degradation that a blind run has found, and their spreads, one number per sample
    found: dict[str, list[float]] = field(default_factory=dict)


Watch = Callable[[Step], Tensor | None]
"""A hook that is shown every step; a state that it returns takes the place of `step.x`, None changes
nothing.
"""


@runtime_checkable
class WantsTrace(Protocol):
    """A hook that may ask for what happened inside each step."""

    wants_trace: bool


def ignore(step: Step) -> None:
    """The default hook."""


class Sampler(Protocol):
    """A frozen dataclass of hyperparameters that can be called."""

    __dataclass_fields__: ClassVar[dict[str, Field[object]]]

    @property
    def nfe(self) -> int: ...  # denoiser calls of a run
    def __call__(self, prior: Prior, problem: Problem, noise: Noise, watch: Watch = ignore) -> Tensor: ...
    def unsupported(self, problem: Problem) -> str | None:
        """The reason why this sampler cannot run here, or None."""
        ...
