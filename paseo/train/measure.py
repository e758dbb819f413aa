"""What an operator is to imitate: a task by name, a Python callable, or before/after pairs.

    y_z = E( lift( A(x) + s·n ) ),      n ~ N(0, I) at the measurement's own resolution

For pairs, A(x) is the degraded image as it was given; s is then the noise on top of whatever noise it holds already.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from paseo.base import Degradation
from paseo.degrade.resize import Downsample
from paseo.errors import BadInput
from paseo.train.data import ImageSet


class Measurement(Protocol):
    """Noise-free measurements of training images, and their way back to image size."""

    @property
    def name(self) -> str: ...
    @property
    def params(self) -> dict[str, Any]: ...  # for the exported config
    @property
    def identity(self) -> str: ...  # changes when the measurements do: names caches of their encodings

    def __call__(self, index: np.ndarray, mirror: Tensor, x: Tensor) -> Tensor:
        """A(x) at its own size; x (B,3,H,W) are images `index`, already mirrored where `mirror` says so."""
        ...

    def lift(self, y: Tensor) -> Tensor: ...


@dataclass(frozen=True, eq=False)
class ByDegradation:
    """Measurements by a known A."""

    degradation: Degradation
    identity: str

    @property
    def name(self) -> str:
        return self.degradation.name

    @property
    def params(self) -> dict[str, Any]:
        return dict(getattr(self.degradation, "params", {}))

    def __call__(self, index: np.ndarray, mirror: Tensor, x: Tensor) -> Tensor:
        with torch.no_grad():
            return self.degradation(x)

    def lift(self, y: Tensor) -> Tensor:
        return self.degradation.lift(y)


@dataclass(frozen=True, eq=False)
class ByExample:
    """Measurements that were given as images."""

    degraded: ImageSet
    factor: int = 1  # clean pixels per degraded pixel and side
    name: str = "pairs"

    @property
    def params(self) -> dict[str, Any]:
        return {"factor": self.factor}

    @property
    def identity(self) -> str:
        return f"pairs {self.degraded.digest}"

    def __call__(self, index: np.ndarray, mirror: Tensor, x: Tensor) -> Tensor:
        return mirrored(self.degraded.batch(index), mirror)

    def lift(self, y: Tensor) -> Tensor:
        return y if self.factor == 1 else Downsample(self.factor).lift(y)


def mirrored(x: Tensor, mirror: Tensor) -> Tensor:
    """x with the chosen samples flipped left to right."""
    return torch.where(mirror.to(x.device)[:, None, None, None], x.flip(3), x)


def noisy(y: Tensor, s: Tensor, rng: torch.Generator) -> Tensor:
    """y + s·n with one noise level per sample, drawn on the CPU for the same numbers everywhere."""
    n = torch.randn(y.shape, generator=rng)
    return y + s.to(y)[:, None, None, None] * n.to(y)


def import_callable(reference: str) -> Callable[..., Any]:
    """The function that `module:function` names, looked up in the working directory too."""
    module_name, _, attribute = reference.partition(":")
    if not module_name or not attribute:
        raise BadInput(f"{reference!r} is no callable: write module:function, for example my_camera:degrade for my_camera.py.")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # a console script does not have it, unlike `python -m`
    try:
        found: Any = importlib.import_module(module_name)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise BadInput(f"{reference!r} cannot be imported: {error}.") from error
    if not callable(found):
        raise BadInput(f"{reference!r} is a {type(found).__name__}, not a callable.")
    return found


def source_of(function: Callable[..., Any]) -> str:
    """The function's source where Python knows it: a changed function must not meet old caches."""
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return repr(function)
