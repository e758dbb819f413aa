"""The five tasks of the paper by name, those with numbers, and a place for more.

task("sr4")                  a Task: it can be used wherever a degradation can
task("blur:1.5,sr:2,jpeg:60")   words and numbers of `paseo.degrade.words`, in the order of what happened
task("jpeg", quality=35)     the same by keyword
user_task("weather:fog")     one made from a user's function: `paseo.task`; `task` alone loads no code
tasks()                      all that are known
register(Task("sr2", "Super-resolution ×2", lambda: Downsample(2)))
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from torch import Tensor

from paseo.base import Degradation, HidesPixels, LinearDegradation
from paseo.degrade.blur import GaussianBlur
from paseo.degrade.common import Size, params_of
from paseo.degrade.custom import Custom, load_function
from paseo.degrade.jpeg import JPEG
from paseo.degrade.mask import CentreBox
from paseo.degrade.measure import measure
from paseo.degrade.names import PAPER_NOISE, is_typed, parse_name
from paseo.degrade.resize import Downsample
from paseo.degrade.words import WORDS
from paseo.errors import BadInput, Unsupported
from paseo.trust import vouch


@dataclass(frozen=True)
class Task:
    """A degradation with a name, a title and the noise level it is measured with."""

    name: str
    title: str
    build: Callable[[], Degradation]
    sigma_y: float = PAPER_NOISE  # std of the measurement's noise, in [0,1] units
    description: str = ""  # one sentence: what happened to the picture
    kin: str = ""  # the paper's task whose settings fit best where it has none of its own

    @cached_property
    def degradation(self) -> Degradation:
        """A in pixels, on images in [-1,1]."""
        return self.build()

    @property
    def linear(self) -> bool:
        """Whether A is linear, and so has an adjoint."""
        return self.degradation.linear

    @property
    def params(self) -> dict[str, object]:
        """What is needed to build it again, for records."""
        return params_of(self.degradation)

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
        if not isinstance(self.degradation, LinearDegradation):
            raise Unsupported(f"{self.title} has no adjoint. Use a method that needs none.")
        return self.degradation.adjoint(y, size)

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


def task(name: str, **numbers: object) -> Task:
    """The task of that name, of words and numbers ("jpeg:35", "blur:1.5,sr:2"), of a word and keywords, or of
    a function on [0,1] images ("module:function").

    The name may come from a file: code is loaded only if the user typed or passed its name (`paseo.trust`).
    """
    if not isinstance(name, str):
        raise BadInput(f"A task is asked for by its name, got {type(name).__name__}.")
    if numbers and name not in WORDS:
        raise BadInput(
            f"{name!r} takes no {', '.join(numbers)}. Numbers belong to one of: {', '.join(WORDS)}."
        )
    if name in _KNOWN and not numbers:
        return _KNOWN[name]
    if is_typed(name):
        found = parse_name(name, numbers)
        return Task(found.name, found.title, found.build, found.sigma_y, found.description, found.kin)
    if ":" in name:
        custom = Custom(load_function(name), name=name)  # now, so that a wrong name is reported here
        return Task(name, name, lambda: custom)
    close = difflib.get_close_matches(name.lower(), {*_KNOWN, *WORDS}, n=2, cutoff=0.5)
    hint = (
        f" Did you mean {' or '.join(map(repr, close))}?"
        if close
        else " Your own degradation is named as 'module:function'."
    )
    typed = "; ".join(word.syntax for word in WORDS.values())
    raise BadInput(
        f"There is no task named {name!r}. Known: {', '.join(_KNOWN)}; with numbers: {typed}.{hint}"
    )


def user_task(name: str, **numbers: object) -> Task:
    """`paseo.task`: the task of a name that the caller vouches for, so that "module:function" is loaded."""
    return task(vouch(name) if isinstance(name, str) else name, **numbers)


for _name, _title, _build, _did in (
    ("sr4", "Super-resolution ×4", partial(Downsample, 4), "made 4 times smaller"),
    ("sr8", "Super-resolution ×8", partial(Downsample, 8), "made 8 times smaller"),
    ("blur", "Gaussian deblurring", GaussianBlur, "blurred by a Gaussian of 3 px"),
    ("inpaint", "Centre inpainting", CentreBox, "covered by a box in its centre"),
    ("jpeg", "JPEG decompression, quality 10", JPEG, "stored as a JPEG of quality 10"),
):
    register(Task(_name, _title, _build, description=f"The picture was {_did}.", kin=_name))
