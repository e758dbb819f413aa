"""Noise inside a chain: the grain of a sensor, before the file was compressed.

    y = JPEG( blur(x) ↓ + σ n )

Noise that comes last is the measurement's own σ_y and no part of A. Noise with something after it is: as a
degradation it is the identity (its mean), and a measurement draws it where it stands, from the image's seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from paseo.degrade.common import Size, check_images, check_size, size_of
from paseo.errors import BadInput


@dataclass(frozen=True)
class Grain:
    """A(x) = x in the mean; `draw` adds the noise. Linear."""

    sigma: float = 0.05  # std in [0,1] units
    linear: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (isinstance(self.sigma, int | float) and 0 <= self.sigma <= 1):
            raise BadInput(f"The noise's sigma is a number from 0 to 1, in [0,1] units, got {self.sigma!r}.")

    @property
    def name(self) -> str:
        return "noise"

    @property
    def params(self) -> dict[str, object]:
        return {"sigma": self.sigma}

    def output_size(self, height: int, width: int) -> Size:
        return height, width

    def __call__(self, x: Tensor) -> Tensor:
        check_images(x)
        return x

    def draw(self, x: Tensor, normal: Tensor) -> Tensor:
        """x + 2σ n on [-1,1] images."""
        return x + 2 * self.sigma * normal

    def lift(self, y: Tensor, size: Size | None = None) -> Tensor:
        """The measurement itself: it has the image's size."""
        check_size(size, y, size or size_of(y), "Noise")
        return y

    def adjoint(self, y: Tensor, size: Size | None = None) -> Tensor:
        return self.lift(y, size)
