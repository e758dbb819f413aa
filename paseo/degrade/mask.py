"""Inpainting: y = m ⊙ x, with m = 1 where a pixel is seen.

The hole is 0, which is mid-grey in [-1,1]; measurement noise is added everywhere, in the hole as well.
`observed` is the name of the mask throughout, because 1 = seen here while image editors paint white what is
to be filled: `Mask.from_hole` takes theirs. The mask is a projection, so it is its own adjoint.

`latent_cells(factor)` says which cells of a latent carry information: 1 only where the whole cell is seen.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from paseo.degrade.common import Size, check_images, check_size, size_of
from paseo.errors import BadInput


class Masking(ABC):
    """What all masks share; a subclass says which pixels of an image of a given size are seen."""

    linear: ClassVar[bool] = True

    @abstractmethod
    def observed_at(self, height: int, width: int) -> Tensor:
        """(1 or B, 1, H, W) of 0 and 1, float32 on the CPU."""

    def output_size(self, height: int, width: int) -> Size:
        return height, width

    def __call__(self, x: Tensor) -> Tensor:
        """m ⊙ x for images (B,C,H,W) in [-1,1]."""
        check_images(x)
        return x * self.observed_at(*size_of(x)).to(x)

    def lift(self, y: Tensor, size: Size | None = None) -> Tensor:
        """The measurement itself: it has the image's size."""
        check_size(size, y, size or size_of(y), "Inpainting")
        return y

    def adjoint(self, y: Tensor, size: Size | None = None) -> Tensor:
        """Aᵀy = m ⊙ y."""
        return self(self.lift(y, size))

    def latent_cells(self, factor: int, size: Size | None = None, *, erode: bool = False) -> Tensor:
        """(1 or B, 1, ⌈H/f⌉, ⌈W/f⌉): 1 where every pixel of the cell is seen.

        Of a cell that reaches past the image's border only the part inside counts. `erode` also drops seen
        cells that touch an unseen one (corners included): an encoder looks further than one cell, so these
        are not clean either.
        """
        if size is None:
            raise BadInput("This mask depends on the image: give latent_cells its size (H, W).")
        if not (isinstance(factor, int) and factor > 0):
            raise BadInput(f"The codec's factor must be a positive integer, got {factor!r}.")
        observed = self.observed_at(*size)
        margins = (0, -size[1] % factor, 0, -size[0] % factor)
        hidden = F.max_pool2d(1 - F.pad(observed, margins, value=1.0), factor)
        return 1 - (F.max_pool2d(hidden, 3, stride=1, padding=1) if erode else hidden)


@dataclass(frozen=True)
class CentreBox(Masking):
    """A(x): an image of any size without the box in its centre; 128 … 383 of both sides at 512."""

    fraction: float = 0.5  # of each side

    def __post_init__(self) -> None:
        if not (isinstance(self.fraction, int | float) and 0 < self.fraction <= 1):
            raise BadInput(
                f"The box must take a fraction of the side above 0 and at most 1, got {self.fraction!r}."
            )

    @property
    def name(self) -> str:
        return "inpaint"

    @property
    def params(self) -> dict[str, object]:
        return {"fraction": self.fraction}

    def observed_at(self, height: int, width: int) -> Tensor:
        observed = torch.ones(1, 1, height, width)
        (top, bottom), (left, right) = (self._span(n) for n in (height, width))
        observed[..., top:bottom, left:right] = 0
        return observed

    def _span(self, n: int) -> tuple[int, int]:
        side = int(n * self.fraction)
        return (n - side) // 2, (n - side) // 2 + side


@dataclass(frozen=True, eq=False)
class Mask(Masking):
    """A(x): any set of seen pixels, for images of the mask's size."""

    observed: Tensor  # (H,W), (1,H,W) or (1 or B,1,H,W); 1 or True = seen
    name: str = "inpaint"

    def __post_init__(self) -> None:
        m = torch.as_tensor(self.observed).detach().to("cpu", torch.float32)
        m = m.reshape(*[1] * (4 - m.ndim), *m.shape) if m.ndim in (2, 3) else m
        if m.ndim != 4 or m.shape[1] != 1 or 0 in m.shape:
            raise BadInput(
                f"`observed` must have the shape (H,W) or (B,1,H,W), got {tuple(self.observed.shape)}."
            )
        if not bool(((m == 0) | (m == 1)).all()):
            raise BadInput(
                "`observed` must be 0 or 1 everywhere (1 = seen). Threshold it first, or use Mask.from_hole."
            )
        object.__setattr__(self, "observed", m)

    @classmethod
    def from_hole(cls, hole: Tensor) -> Mask:
        """From an editor's mask in [0,1] or bool, where white (≥ ½) is what is to be filled."""
        return cls(torch.as_tensor(hole).to(torch.float32) < 0.5)

    @property
    def params(self) -> dict[str, object]:
        return {"size": list(size_of(self.observed)), "seen": float(self.observed.mean())}

    def observed_at(self, height: int, width: int) -> Tensor:
        if (height, width) != size_of(self.observed):
            h, w = size_of(self.observed)
            raise BadInput(
                f"The mask is {h}×{w} and the image {height}×{width}. Resize the mask to the image."
            )
        return self.observed

    def latent_cells(self, factor: int, size: Size | None = None, *, erode: bool = False) -> Tensor:
        return super().latent_cells(factor, size or size_of(self.observed), erode=erode)
