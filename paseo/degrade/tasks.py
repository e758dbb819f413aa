"""The five tasks of the paper by name, and a place for more.

task("sr4")                  a Task: it can be used wherever a degradation can
task("weather:fog")          one made from a user's function
tasks()                      all that are known
register(Task("sr2", "Super-resolution ×2", lambda: Downsample(2)))
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from torch import Tensor

from paseo.base import Degradation, HasParams, HidesPixels
from paseo.degrade.blur import GaussianBlur
from paseo.degrade.common import Size
from paseo.degrade.custom import Custom
from paseo.degrade.jpeg import JPEG
from paseo.degrade.mask import CentreBox
from paseo.degrade.measure import measure
from paseo.degrade.resize import Downsample
from paseo.errors import BadInput, Unsupported


@dataclass(frozen=True)
class Task:
    """A degradation with a name, a title and the noise level it is measured with."""

    name: str
    title: str
    build: Callable[[], Degradation]
    sigma_y: float = 0.01  # std of the measurement's noise, in [0,1] units

    @cached_property
    def degradation(self) -> Degradation:
        """A in pixels, on images in [-1,1]."""
        return self.build()

    @property
    def linear(self) -> bool:
        """Whether A is linear, and so has an adjoint."""
        return self.degradation.linear

    @property
    def params(self) -> dict[str, Any]:
        """What is needed to build it again, for records."""
        return self.degradation.params if isinstance(self.degradation, HasParams) else {}

    @property
    def masks(self) -> bool:
        """Whether pixels are hidden, so that `degradation.latent_cells` exists."""
        return isinstance(self.degradation, HidesPixels)

    def __call__(self, x: Tensor) -> Tensor:
        """A(x) without noise, images (B,3,H,W) in [-1,1]."""
        return self.degradation(x)

    def lift(self, y: Tensor, size: Size | None = None) -> Tensor:
        """Measurement → image size, in [-1,1]."""
        return self.degradation.lift(y, size)

    def output_size(self, height: int, width: int) -> Size:
        """Size of the measurement of an image."""
        return self.degradation.output_size(height, width)

    def adjoint(self, y: Tensor, size: Size | None = None) -> Tensor:
        """Aᵀy, or Unsupported."""
        adjoint = getattr(self.degradation, "adjoint", None)
        if adjoint is None:
            raise Unsupported(f"{self.title} has no adjoint. Use a method that needs none.")
        return adjoint(y, size)

    def measure(self, x: Tensor, seeds: int | Sequence[int] = 0, sigma_y: float | None = None) -> Tensor:
        """A noisy measurement of images (B,3,H,W) in [0,1], in [0,1] units; see `paseo.degrade.measure`."""
        return measure(x, self.degradation, self.sigma_y if sigma_y is None else sigma_y, seeds)


_KNOWN: dict[str, Task] = {}


def register(new: Task, *, replace: bool = False) -> Task:
    """Make a task known by its name; an existing one is kept unless `replace` is given."""
    if not new.name or ":" in new.name or any(c.isspace() or c in "/\\" for c in new.name):
        raise BadInput(f"A task's name has no blanks, colons or slashes, got {new.name!r}.")
    if new.name in _KNOWN and not replace:
        raise BadInput(
            f"There is already a task named {new.name!r}. Choose another name, or give replace=True."
        )
    _KNOWN[new.name] = new
    return new


def tasks() -> tuple[Task, ...]:
    """All known tasks, the paper's five first."""
    return tuple(_KNOWN.values())


def task(name: str) -> Task:
    """The task of that name; "module:function" makes one from a function on [0,1] images."""
    if not isinstance(name, str):
        raise BadInput(f"A task is asked for by its name, got {type(name).__name__}.")
    if name in _KNOWN:
        return _KNOWN[name]
    if ":" in name:
        custom = Custom.load(name)  # now rather than at first use, so that a wrong name is reported here
        return Task(name, name, lambda: custom)
    close = difflib.get_close_matches(name.lower(), _KNOWN, n=2, cutoff=0.5)
    hint = (
        f" Did you mean {' or '.join(map(repr, close))}?"
        if close
        else " Your own degradation is named as 'module:function'."
    )
    raise BadInput(f"There is no task named {name!r}. Known: {', '.join(_KNOWN)}.{hint}")


for _task in (
    Task("sr4", "Super-resolution ×4", partial(Downsample, 4)),
    Task("sr8", "Super-resolution ×8", partial(Downsample, 8)),
    Task("blur", "Gaussian deblurring", GaussianBlur),
    Task("inpaint", "Centre inpainting", CentreBox),
    Task("jpeg", "JPEG decompression, quality 10", JPEG),
):
    register(_task)
