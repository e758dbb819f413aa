"""What was filled in on the page → the plan of the command line, its input in a temporary folder, and limits
on uploads.

A run lives in a folder of its own below the page's temporary folder:

    input/NAME          the upload, byte for byte (or fitted to the model's size, then as PNG)
    mask.png            what was painted, white is filled
    STEM.png, …         what `paseo restore` writes
"""

from __future__ import annotations

import re
import secrets
import shlex
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from PIL import Image

from paseo.apps.inputs import Job
from paseo.apps.job import Plan
from paseo.degrade import task as find_task
from paseo.errors import BadInput
from paseo.images import Picture, fit_square, read, save_png
from paseo.models import AUTO, DEFAULT
from paseo.recipe import Request, examine_file, resolve, resolve_found

MAX_MEGABYTES = 20  # of one upload
MAX_PIXELS = 24_000_000  # of one upload: a photograph of a good camera
MAX_RESTORED = 1024 * 1024  # pixels of the result
MAX_DRAWS = 16
MAX_SEED = 2**31 - 1
SHOW, OWN = "show", "own"  # degrade a sharp picture first, or take it as it is


@dataclass(frozen=True)
class Form:
    """The page, filled in."""

    picture: str | None
    way: str = SHOW
    model: str = AUTO
    task: str = "sr4"
    method: str = "paseo"
    preset: str | None = None  # whose kept settings; the model's otherwise
    draws: int = 1
    seed: int = 0
    sigma: float | None = 0.01  # in [0,1] units; None: the task's own
    fit: bool = True  # bring a sharp picture to the size the model knows
    faces: bool = False  # by the face model
    keep_known: bool | None = None  # None: where a hole was painted
    hole: Image.Image | None = None  # painted, white is filled; None takes the task's own
    settings: tuple[str, ...] = ()  # field=value, as --set takes them

    @property
    def painted(self) -> bool:
        """Whether the hole is the visitor's own."""
        return self.hole is not None and find_task(self.task).masks

    def request(self) -> Request:
        """What the visitor asked for."""
        return Request(
            model=self.model,
            task=self.task,
            mask=self.painted,
            method=self.method,
            preset=self.preset,
            settings=self.settings,
            sigma_y=None if self.sigma is None else float(self.sigma),
            faces=self.faces,
            keep_known=self.keep_known if find_task(self.task).masks else None,
        )


@dataclass(frozen=True)
class Prepared:
    """A run, ready to start."""

    plan: Plan
    job: Job
    picture: Picture
    command: str  # the same on the command line
    fitted: bool = False  # the input is not the upload itself but one of the model's size


def readable(path: str | Path) -> Picture:
    """An upload, decoded within the limits; whatever is wrong with it is said with its name alone, not its
    folder.
    """
    path = Path(path)
    try:
        if path.is_file() and path.stat().st_size > MAX_MEGABYTES << 20:
            raise BadInput(f"{path} has more than {MAX_MEGABYTES} MB. Scale it down first.")
        return read(path, max_pixels=MAX_PIXELS)
    except BadInput as error:
        raise BadInput(str(error).replace(str(path), path.name)) from None


def prepare(form: Form, root: Path, size: int) -> Prepared:
    """Check the form, put its files in a folder below `root`, and resolve the plan. `size` is the model's."""
    if not form.picture:
        raise BadInput("There is no picture yet: drop one, or click on a sample below.")
    _check_numbers(form)
    if form.task == AUTO and form.way == SHOW:
        raise BadInput("A sharp picture does not tell what to do to it: choose what is to happen to it.")
    folder = root / secrets.token_hex(8)
    try:
        return _prepared(form, form.picture, folder, size)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _prepared(form: Form, upload: str, folder: Path, size: int) -> Prepared:
    picture = readable(upload)
    source = folder / "input" / safe_name(upload)
    fitted = form.way == SHOW and form.fit and picture.size != (size, size)
    if fitted:
        source = save_png(source.with_suffix(".png"), fit_square(picture.rgb, size))
    else:
        source.parent.mkdir(parents=True)
        shutil.copyfile(upload, source)
    picture = readable(source)
    found = examine_file(source) if form.task == AUTO else None
    if found is not None:
        form = replace(form, task=found.task, sigma=None)
    mask = None
    if form.hole is not None and form.painted:
        mask = save_png(folder / "mask.png", fitted_hole(form.hole, picture.size))
    _check_size(form, picture)
    seeds = tuple(range(form.seed, form.seed + form.draws))
    recipe = resolve(form.request()) if found is None else resolve_found(form.request(), found)
    plan = Plan(recipe, mask, seeds, degrade=form.way == SHOW)
    job = Job(source, folder, source.stem, source.name)
    return Prepared(plan, job, picture, command_line(form, plan, source.name), fitted)


def _check_numbers(form: Form) -> None:
    if not 1 <= form.draws <= MAX_DRAWS:
        raise BadInput(
            f"{form.draws} draws cannot be made here: choose 1 to {MAX_DRAWS}. `paseo restore --samples` "
            "makes any number."
        )
    if not 0 <= form.seed <= MAX_SEED:
        raise BadInput(f"The seed {form.seed} cannot be used: choose 0 to {MAX_SEED}.")
    if form.sigma is not None and not 0 <= form.sigma <= 1:
        raise BadInput(
            f"The noise {form.sigma} cannot be used: it is a standard deviation of images in [0,1], such "
            "as 0.01."
        )


def _check_size(form: Form, picture: Picture) -> None:
    """The result must be of a size that a page can wait for."""
    height, width = picture.size
    if form.way != SHOW:
        small, _ = find_task(form.task).output_size(1024, 1024)
        height, width = height * 1024 // small, width * 1024 // small
    if height * width > MAX_RESTORED:
        raise BadInput(
            f"The result would be {width}×{height}, more than the {MAX_RESTORED:,} pixels this page "
            "restores. "
            "Scale the picture down, or use `paseo restore`."
        )


def safe_name(path: str | Path) -> str:
    """The upload's own name, of letters, digits, dots and dashes only."""
    path = Path(path)
    stem = re.sub(r"[^\w.-]+", "_", path.stem).strip("._")[:60] or "picture"
    suffix = re.sub(r"[^\w.]", "", path.suffix)[:8]
    return stem + suffix


def painted(editor: dict[str, Any] | None) -> Image.Image | None:
    """The layers of an editor as one mask, white where something was painted; None where nothing was."""
    layers = [layer for layer in (editor or {}).get("layers") or [] if layer is not None]
    if not layers:
        return None
    hole = Image.new("L", layers[0].size, 0)
    for layer in layers:
        alpha = layer.convert("RGBA").getchannel("A").resize(hole.size, Image.Resampling.NEAREST)
        hole.paste(255, mask=alpha.point(lambda a: 255 if a > 32 else 0))
    return hole if hole.getbbox() else None


def fitted_hole(hole: Image.Image, size: tuple[int, int]) -> Image.Image:
    """The mask at the picture's size (H, W), black and white; some pixels must stay seen."""
    fitted = hole.resize((size[1], size[0]), Image.Resampling.NEAREST).point(lambda v: 255 if v > 127 else 0)
    if fitted.getextrema() == (255, 255):
        raise BadInput("Everything is painted over: leave some of the picture to restore from.")
    return fitted


def command_line(form: Form, plan: Plan, source: str) -> str:
    """What to type for the same files."""
    words = ["paseo", "restore", source, "-o", "restored", "--task", form.task]
    words += ["--model", form.model] if form.model not in (AUTO, DEFAULT) else []
    words += ["--method", form.method] if form.method != "paseo" else []
    words += ["--preset", form.preset] if form.preset is not None else []
    words += ["--samples", str(len(plan.seeds))] if len(plan.seeds) > 1 else []
    words += ["--seed", str(plan.seeds[0])] if plan.seeds[0] else []
    own = form.sigma is None or form.sigma == find_task(form.task).sigma_y
    words += [] if own else ["--sigma", f"{form.sigma:g}"]
    words += ["--mask", "mask.png"] if plan.mask is not None else []
    words += ["--faces"] if form.faces else []
    words += ["--degrade"] if plan.degrade else []
    if plan.recipe.keep_known != form.painted:
        words += ["--keep-known"] if plan.recipe.keep_known else ["--no-keep-known"]
    for assignment in form.settings:
        without = replace(form, settings=tuple(a for a in form.settings if a != assignment))
        if resolve(without.request()).sampler != plan.recipe.sampler:
            words += ["--set", assignment]
    return shlex.join(words)
