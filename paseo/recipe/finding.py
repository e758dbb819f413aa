"""What happened to a picture, read off its file: for `--task auto` and for a word of warning.

found = examine_file("photo.jpg")
found.task         "jpeg:60", or "noise:0" where there is nothing to restore
found.sentence     one line that says so
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from PIL import Image

from paseo.base import Knob
from paseo.degrade import JPEG, Task
from paseo.degrade import task as find_task
from paseo.degrade.detect import Found, contradiction, examine
from paseo.degrade.family import parts_of
from paseo.degrade.jpeg_file import read_jpeg
from paseo.errors import PaseoError
from paseo.images import look_at, to_tensor
from paseo.operators.knobs import blurred
from paseo.recipe.recipe import NOTHING, Recipe
from paseo.recipe.request import Request
from paseo.recipe.resolve import resolve
from paseo.samplers.spectrum import estimate
from paseo.units import signed_std, to_signed

_MIDDLE = 1024  # pixels of each side that are looked at for softness
_QUIET = 0.005  # σ of the noise that is expected there; it is fitted
_SOFT = 1.0  # σ in px: what cameras and enlarging leave lies below


@dataclass(frozen=True)
class Finding:
    """What was read off a file, and what it means."""

    name: str  # of the file
    found: Found
    blur: float | None = None  # σ in px of a picture that shows nothing else but is clearly soft

    @property
    def task(self) -> str:
        return self.found.task or NOTHING

    @property
    def fine(self) -> bool:
        return self.found.task is None

    @property
    def sentence(self) -> str:
        if self.fine and self.blur is not None:
            width = f"{self.blur:.1f}"
            return (
                f"{self.name}: {self.found}. It is as soft as if blurred by {width} px: if it should be "
                f"sharp, name it: --task blur:{width}"
            )
        if self.fine:
            return f"{self.name}: {self.found}. If you see more, name the task: --task sr:2, blur:1.5, …"
        return f"{self.name}: {self.found}; restored as {self.task}"

    def against(self, task: Task) -> str | None:
        """Why a task does not fit the file, or None."""
        last = parts_of(task)[-1]
        return contradiction(last.quality, self.found) if isinstance(last, JPEG) else None

    def to_record(self) -> dict[str, Any]:
        jpeg = self.found.jpeg
        noise = None if self.found.noise is None else round(self.found.noise, 5)
        return {
            "task": self.task,
            "jpeg": None if jpeg is None else asdict(jpeg),
            "earlier": self.found.earlier,
            "noise": noise,
            "blur": None if self.blur is None else round(self.blur, 2),
        }


def examine_file(path: str | Path) -> Finding:
    """Everything that can be read off a file: the quality of a JPEG, the noise of the rest."""
    return look_at(path, partial(_examined, Path(path).name))


def read_off(recipe: Recipe, path: str | Path) -> Recipe:
    """The recipe for one file: with the task that was found where it was left open, and a warning where the
    given one contradicts the file.
    """
    if recipe.open is None:
        return _warned(recipe, path)
    return resolve_found(recipe.open, examine_file(path))


def resolve_found(request: Request, found: Finding) -> Recipe:
    """The recipe for a request whose task was found."""
    known = resolve(replace(request, task=found.task))
    why = () if found.fine else known.why  # nothing is chosen for a picture that is only copied
    return replace(known, found=found.to_record(), why=(found.sentence, *why))


def _warned(recipe: Recipe, path: str | Path) -> Recipe:
    """The recipe itself, or with a warning and what the file says."""
    task = _named(recipe)
    if task is None or recipe.found is not None or not isinstance(parts_of(task)[-1], JPEG):
        return recipe
    found = examine_file(path)
    warning = found.against(task)
    return replace(recipe, found=found.to_record(), why=(*recipe.why, warning)) if warning else recipe


def _named(recipe: Recipe) -> Task | None:
    """The recipe's task, where it is known by a name that loads no code."""
    if isinstance(recipe.degradation, Task):
        return recipe.degradation
    try:
        return find_task(recipe.task) if recipe.degradation is None else None
    except PaseoError:
        return None


def _examined(name: str, image: Image.Image) -> Finding:
    if image.mode.startswith(("I", "F")):  # 16 bit: no JPEG, and the estimators know 8 bit
        return Finding(name, Found(read_jpeg(image), None))
    found = examine(image)
    return Finding(name, found, _softness(image) if found.task is None and found.jpeg is None else None)


def _softness(image: Image.Image) -> float | None:
    """σ of a blur that the middle of a picture clearly shows. (A JPEG's own steps hide it.)"""
    width, height = (min(side, _MIDDLE) for side in image.size)
    left, top = (image.width - width) // 2, (image.height - height) // 2
    middle = to_tensor(image.crop((left, top, left + width, top + height)))
    sigma = estimate(to_signed(middle), signed_std(_QUIET), Knob(1.0, 0.1, 5.0, float, blurred))
    return sigma.value if sigma.value - 2 * sigma.std > _SOFT else None
