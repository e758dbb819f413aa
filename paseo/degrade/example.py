"""A degradation that nobody can write down: known by before/after pictures only, from which an operator was
trained.

    degradation = KnownByExample("worn-lens", factor=1)
    paseo.restore(y, degradation=degradation, operator=paseo.load_operator(folder), …)

There is no A: it has a size and can be lifted, which is all that methods need that work with H in the latent
space, PASEO among them. Methods that degrade in pixels are told so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from paseo.degrade.common import Size, check_images, size_of
from paseo.degrade.resize import resize
from paseo.errors import BadInput, Unsupported


@dataclass(frozen=True)
class KnownByExample:
    """What `paseo train operator --pairs` learned: its name, and how many clean pixels a degraded one covers
    per side.
    """

    name: str
    factor: int = 1
    linear: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not isinstance(self.factor, int) or self.factor < 1:
            raise BadInput(
                "The factor between clean and degraded pictures is a whole number from 1, got "
                f"{self.factor!r}."
            )

    @property
    def params(self) -> dict[str, object]:
        return {"factor": self.factor}

    def __call__(self, x: Tensor) -> Tensor:
        raise Unsupported(
            f"{self.name} is known by example only: pictures cannot be degraded by it, only restored, and "
            "only by methods that "
            "work with the latent operator alone, such as paseo or silo."
        )

    def output_size(self, height: int, width: int) -> Size:
        return -(-height // self.factor), -(-width // self.factor)

    def lift(self, y: Tensor, size: Size | None = None) -> Tensor:
        """As in training: by the factor, without any other resampling."""
        check_images(y, "The measurement")
        height, width = size_of(y)
        size = size or (height * self.factor, width * self.factor)
        return y if size == (height, width) else resize(y, size)
