"""Your own degradation: any function from images to measurements.

    def fog(x):                      # (B,3,H,W) in [0,1] → (B,3,h,w) in [0,1]
        return 0.6 * x + 0.4

    Custom(fog)                      # from Python
    Custom.load("weather:fog")       # by name, as on the command line; "weather.py:fog" for a file
    Custom(physics)                  # an object with `.A(x)`, such as a deepinv physics

Nothing else is needed to train a latent operator and to run PASEO. With `linear=True` it also has an adjoint
(by automatic differentiation, or the object's own `A_adjoint`), for methods that want one. "Linear" means
linear on [-1,1] images, where 0 is mid-grey; a function that keeps constant images constant is linear there
if it is linear on [0,1].
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import torch
from torch import Tensor

from paseo.degrade.common import Size, check_images, check_size, size_of, to_signed, to_unit
from paseo.degrade.resize import resize
from paseo.errors import BadInput, PaseoError, Unsupported
from paseo.trust import check_vouched, vouch

Range = Literal["unit", "signed"]
_FAR = 4.0  # a measurement more than this far outside [0,1] is in other units, 0 … 255 most likely
_PROBE = 64  # side of the grey image that shows how a function changes sizes


class Custom:
    """A(x) from a user's function, checked on every call; itself it works on images (B,3,H,W) in [-1,1] as
    all degradations do.
    """

    def __init__(
        self, function: Any, *, range: Range = "unit", linear: bool = False, name: str | None = None
    ) -> None:
        own = getattr(function, "A", None)
        self.function: Callable[[Tensor], object] = own if callable(own) else function
        if not callable(self.function):
            raise BadInput(
                f"A degradation is a function or an object with a method A(x), got {type(function).__name__}."
            )
        if range not in ("unit", "signed"):
            raise BadInput(
                "`range` says what the function works on: 'unit' for [0,1] or 'signed' for [-1,1], not "
                f"{range!r}."
            )
        self.range, self.linear = range, linear
        self.name = name or str(getattr(function, "__name__", type(function).__name__))
        self.params: dict[str, object] = {"function": self.name, "range": range}
        self._own_adjoint = getattr(function, "A_adjoint", None)

    def __repr__(self) -> str:
        return f"Custom({self.name})"

    @classmethod
    def load(cls, spec: str, *, range: Range = "unit", linear: bool = False) -> Custom:
        """From "module:function" (also found in the current folder) or "path/file.py:function"; that is also
        its name. Calling this vouches for the code (`paseo.trust`): never call it with a name from a file.
        """
        return cls(load_function(vouch(spec)), range=range, linear=linear, name=spec)

    def output_size(self, height: int, width: int) -> Size:
        """Found by trying: the function is run on a grey image of that size."""
        with torch.no_grad():
            return size_of(self(torch.zeros(1, 3, height, width)))

    def __call__(self, x: Tensor) -> Tensor:
        """The function's value, in [-1,1] units."""
        check_images(x, channels=3)
        return self._signed(self._checked(self.function(self._native(x)), x))

    def lift(self, y: Tensor, size: Size | None = None) -> Tensor:
        """The measurement, brought to the image's size by bicubic interpolation if it is another one."""
        check_images(y, "The measurement")
        size = size or self._image_size(size_of(y))
        return y if size == size_of(y) else resize(y, size)

    def adjoint(self, y: Tensor, size: Size | None = None) -> Tensor:
        """Aᵀy of a function declared linear, which is verified at 0."""
        if not self.linear:
            raise Unsupported(
                f"{self.name} has no adjoint: it was not declared linear. Give Custom(…, linear=True) if "
                "it is."
            )
        check_images(y, "The measurement")
        zero = torch.zeros(
            y.shape[0], 3, *(size or self._image_size(size_of(y))), dtype=y.dtype, device=y.device
        )
        at_zero, pull = torch.func.vjp(self, zero)[:2]
        check_size(size_of(zero), y, size_of(at_zero), self.name)
        if float(at_zero.abs().max()) > 1e-5:
            raise Unsupported(
                f"{self.name} was declared linear, but turns mid-grey (0 in [-1,1]) into "
                f"{float(at_zero.abs().max()):.3g}: "
                "it adds a constant. Use a method that needs no adjoint, or a function that works with "
                "range='signed'."
            )
        return self._own_adjoint(y) if callable(self._own_adjoint) else pull(y)[0]

    def _native(self, x: Tensor) -> Tensor:
        return to_unit(x) if self.range == "unit" else x

    def _signed(self, y: Tensor) -> Tensor:
        return to_signed(y) if self.range == "unit" else y

    def _checked(self, y: Any, x: Tensor) -> Tensor:
        """The measurement is an image batch in the promised units, or a BadInput that says what is wrong with
        it.
        """
        check_images(y, f"What {self.name} returns", channels=3)
        if y.shape[0] != x.shape[0]:
            raise BadInput(
                f"{self.name} must return one measurement per image, got {y.shape[0]} for {x.shape[0]}."
            )
        if y.device != x.device:
            raise BadInput(f"{self.name} was given images on {x.device} and returned them on {y.device}.")
        if not bool(torch.isfinite(y).all()):
            raise BadInput(f"{self.name} returned NaN or infinite values.")
        low, high = float(y.detach().min()), float(y.detach().max())
        if max(-low, high - 1) > _FAR:
            raise BadInput(
                f"{self.name} returned values from {low:.3g} to {high:.3g}; they should stay near "
                f"{'[0,1]' if self.range == 'unit' else '[-1,1]'}, as the images it was given."
            )
        return y.to(x.dtype)

    def _image_size(self, measured: Size) -> Size:
        """The image size that belongs to a measurement, from the factor seen on a small grey image."""
        try:
            h, w = self.output_size(_PROBE, _PROBE)
        except PaseoError:
            raise
        except Exception as error:
            raise Unsupported(
                f"{self.name} does not run on a {_PROBE}×{_PROBE} image ({error}), so the image size that "
                "belongs to a measurement "
                f"of {measured[0]}×{measured[1]} is unknown. Give `size`."
            ) from error
        return round(measured[0] * _PROBE / h), round(measured[1] * _PROBE / w)


def load_function(spec: str) -> Callable[..., object]:
    """The object that "module:name" or "path/file.py:name" stands for, if somebody vouched for that name."""
    place, colon, name = spec.rpartition(":")
    if not colon or not place or not name.isidentifier():
        raise BadInput(f"A function is named as 'module:function' or 'path/file.py:function', got {spec!r}.")
    check_vouched(spec)
    module = _load_file(Path(place)) if place.endswith(".py") else _load_module(place)
    try:
        return getattr(module, name)  # a module may make its names when they are asked for
    except AttributeError:
        functions = (n for n, value in vars(module).items() if not n.startswith("_") and callable(value))
        known = ", ".join(sorted(functions)[:12]) or "nothing that can be called"
        raise BadInput(f"{place} has no {name!r}. It has: {known}.") from None


def _load_module(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise BadInput(f"{name!r} is not the name of a module. For a file write 'path/file.py:function'.")
    here = str(Path.cwd())
    added = here not in sys.path
    if added:
        sys.path.append(here)  # console scripts do not see the current folder, `python -m` does
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise BadInput(f"The module {name!r} cannot be imported: {type(error).__name__}: {error}") from error
    finally:
        if added:
            sys.path.remove(here)


def _load_file(path: Path) -> ModuleType:
    if not os.path.isfile(path):  # pathlib raises where a name is too long
        raise BadInput(f"{path} does not exist.")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise BadInput(f"{path} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise BadInput(f"{path} cannot be run: {type(error).__name__}: {error}") from error
    return module
