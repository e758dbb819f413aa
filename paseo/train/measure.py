"""What an operator is to imitate: a task by name, a Python function, or before/after pairs.

    y_z = E( lift( A(x) + s·n ) ),      n ~ N(0, I) at the measurement's own resolution

For pairs, A(x) is the degraded image as it was given; s is then the noise on top of whatever noise it holds
already.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from paseo.degrade import Custom, Task, load_function, resize, user_task
from paseo.train.data import ImageSet


class Measurement(Protocol):
    """Noise-free measurements of training images, and their way back to image size."""

    @property
    def name(self) -> str: ...
    @property
    def params(self) -> dict[str, object]: ...  # for the exported config
    @property
    def identity(self) -> str: ...  # changes when the measurements do: names caches of their encodings

    def __call__(self, index: np.ndarray, mirror: Tensor, x: Tensor) -> Tensor:
        """A(x) at its own size; x (B,3,H,W) are images `index`, already mirrored where `mirror` says so."""
        ...

    def lift(self, y: Tensor, size: tuple[int, int]) -> Tensor: ...


@dataclass(frozen=True, eq=False)
class ByDegradation:
    """Measurements by a known A."""

    task: Task
    identity: str

    @property
    def name(self) -> str:
        return self.task.name

    @property
    def params(self) -> dict[str, object]:
        return dict(self.task.params)

    def __call__(self, index: np.ndarray, mirror: Tensor, x: Tensor) -> Tensor:
        with torch.no_grad():
            return self.task(x)

    def lift(self, y: Tensor, size: tuple[int, int]) -> Tensor:
        with torch.no_grad():
            return self.task.lift(y, size)


@dataclass(frozen=True, eq=False)
class ByExample:
    """Measurements that were given as images."""

    degraded: ImageSet
    factor: int = 1  # clean pixels per degraded pixel and side
    name: str = "pairs"

    @property
    def params(self) -> dict[str, object]:
        return {"factor": self.factor}

    @property
    def identity(self) -> str:
        return f"pairs {self.degraded.digest}"

    def __call__(self, index: np.ndarray, mirror: Tensor, x: Tensor) -> Tensor:
        return mirrored(self.degraded.batch(index), mirror)

    def lift(self, y: Tensor, size: tuple[int, int]) -> Tensor:
        return y if self.factor == 1 else resize(y, size)


def by_name(name: str) -> ByDegradation:
    """The measurement of a known task, or of a function given as module:function by whoever trains."""
    chosen = user_task(name)
    own = isinstance(chosen.degradation, Custom)
    return ByDegradation(chosen, source_of(load_function(name)) if own else repr(chosen.degradation))


def mirrored(x: Tensor, mirror: Tensor) -> Tensor:
    """x with the chosen samples flipped left to right."""
    return torch.where(mirror.to(x.device)[:, None, None, None], x.flip(3), x)


def noisy(y: Tensor, s: Tensor, rng: torch.Generator) -> Tensor:
    """y + s·n with one noise level per sample, drawn on the CPU for the same numbers everywhere."""
    n = torch.randn(y.shape, generator=rng)
    return y + s.to(y)[:, None, None, None] * n.to(y)


def source_of(function: Callable[..., object]) -> str:
    """The function's source where Python knows it: a changed function must not meet old caches."""
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return repr(function)
