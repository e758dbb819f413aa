"""`paseo.restore`: the friendly door of the library.

    paseo.restore("photo.jpg").save("out.png")
    paseo.restore("photo.jpg", task="jpeg:35", samples=8, seed=1, device="auto")
    paseo.restore(pixels, task=my_function)               # any function on [0,1] images, or a deepinv physics
    paseo.restore(y, operator=H, degradation=A, sampler=S, prior=p, codec=c)    # everything by hand

What is left open is filled in by `paseo.recipe.resolve`, as on the command line. Where everything is passed
(operator, degradation, sampler, and a model or a prior with a codec), nothing is chosen: `paseo.street` runs.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Unpack

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from paseo.apps.inputs import Job
from paseo.apps.job import Plan, Restoration
from paseo.apps.wishes import Wishes, asked, takes
from paseo.base import SPREAD, BindsNoise, Codec, Degradation, LatentOperator, Prior, Sampler, Watch, ignore
from paseo.degrade import Custom, Mask, Task, user_task
from paseo.degrade.detect import examine
from paseo.errors import BadInput, MissingWeights
from paseo.images import Picture, read, to_tensor
from paseo.memory import Choice
from paseo.models import Model, load_model, own_folder
from paseo.recipe import Recipe, Request, resolve
from paseo.restored import Restored
from paseo.seeds import of_draws
from paseo.settings.presets import Preset
from paseo.street import LatentModel
from paseo.street import restore as by_hand
from paseo.trust import vouch

Pixels = str | Path | Image.Image | np.ndarray | Tensor
Damage = str | Task | Degradation | Callable[[Tensor], Tensor] | object
AUTO = "auto"


@takes(Wishes)
def restore(
    image: Pixels,
    task: Damage | None = None,
    *,
    model: str | Path | LatentModel = AUTO,
    device: str | torch.device = AUTO,
    dtype: str | torch.dtype | None = None,
    mask: Pixels | None = None,
    operator: str | Path | LatentOperator | BindsNoise | None = None,
    sampler: Sampler | Preset | None = None,
    settings: Mapping[str, object] | None = None,
    steps: int | None = None,
    batch: int = 4,
    degradation: Damage | None = None,
    prior: Prior | None = None,
    codec: Codec | None = None,
    seeds: int | Sequence[int] | Sequence[torch.Generator] | None = None,
    size: tuple[int, int] | None = None,
    windows: Choice = "auto",
    watch: Watch = ignore,
    **wishes: Unpack[Wishes],
) -> Restored:
    """Restore an image; several `samples` are several draws from the posterior.

    image     a path, a PIL image, an array (H,W,3) of bytes or numbers in [0,1], a tensor (3,H,W) in [0,1]
    task      what happened to it: "sr4", "blur", "jpeg:35", "blur:1.5,sr:2", …; a function on [0,1] images;
              an object with `A` (and `A_adjoint`), as a deepinv physics. Left out, it is read off the file
    samples   draws; draw k has the seed `seed + k`. `seeds` gives them one by one
    model     the name of an embedded model, a folder, a hub id, or a model that is loaded
    device    "auto" takes an accelerator if there is one; `dtype` is the network's
    mask      white where the picture is to be filled
    sigma_y   noise of the measurement, a standard deviation on [0,1] images; the task's own unless given
    operator  a folder or an operator; "chain" goes through the autoencoder itself; else the model's own
    faces     faces in the picture are restored by the face model (docs/howto/faces.md); `record` says which
    method, preset, sampler, settings, steps    which sampler, and what is changed of its settings
    prompt, negative_prompt, guidance           what Stable Diffusion is told
    degradation, prior, codec                   parts of one's own; `degradation` is the same as `task`
    """
    samples, seed, sigma_y = wishes["samples"], wishes["seed"], wishes["sigma_y"]
    damage = task if degradation is None else degradation
    parts = operator is not None and damage is not None and sampler is not None
    if prior is not None or codec is not None or (parts and not isinstance(model, str | Path)):
        if wishes["faces"]:
            raise BadInput("faces=True needs a model by name; here everything was passed by hand.")
        if operator is None or damage is None or sampler is None or isinstance(operator, str | Path):
            raise BadInput("A prior or codec of your own also needs operator=, degradation= and sampler=.")
        return by_hand(
            _tensor(image),
            operator=operator,
            degradation=user_task(damage) if isinstance(damage, str) else _degradation(damage),
            sampler=sampler,
            model=None if isinstance(model, str | Path) else model,
            prior=prior,
            codec=codec,
            sigma_y=0.01 if sigma_y is None else sigma_y,
            seeds=of_draws(seed, samples) if seeds is None else seeds,
            size=size,
            windows=windows,
            watch=watch,
        )
    picture = _picture(image)
    hole = None if mask is None else Mask.from_hole(_picture(mask).rgb.mean(0))
    request = Request(
        model=_model_name(model),
        task=_task(damage, image, hole is not None or operator not in (None, "chain")),
        mask=hole or False,
        operator=str(operator) if isinstance(operator, Path) else operator,
        sampler=sampler,
        settings=settings or (),
        steps=steps,
        options={"device": None if str(device) == AUTO else str(device), "dtype": _name(dtype)},
        **asked(wishes),
    )
    recipe, loaded = _load(resolve(request), model)
    given = of_draws(seed, samples) if seeds is None else _integers(seeds)
    run = Restoration(Plan(recipe, seeds=given, batch=batch, size=size, windows=windows), loaded)
    path = Path(image) if isinstance(image, str | Path) else Path()
    run.load()
    this = run.prepare(Job(path, Path(), path.stem, path.name), picture)
    drawn = run.draw([this], watch)[0]
    record = run.finished(this, drawn)
    for text in run.warnings(this).values():
        warnings.warn(text, stacklevel=2)
    return Restored(
        drawn.images,
        drawn.latents,
        given,
        drawn.nfe,
        drawn.seconds,
        {name: list(entry["draws"]) for name, entry in drawn.found.items()}
        | {name + SPREAD: [entry["std"]] * len(given) for name, entry in drawn.found.items()},
        drawn.windows,
        record=record,
        origin=picture.origin,
    )


def _integers(seeds: int | Sequence[int] | Sequence[torch.Generator]) -> tuple[int, ...]:
    entries = [seeds] if isinstance(seeds, int) else list(seeds)
    return tuple(s.initial_seed() if isinstance(s, torch.Generator) else int(s) for s in entries)


# ---------------------------------------------------------------------------------------- pictures


def _tensor(image: Pixels) -> Tensor:
    """For `paseo.street`, which also takes batches."""
    return image if isinstance(image, Tensor) else _picture(image).rgb


def _picture(image: Pixels) -> Picture:
    """Anything with pixels in it; a file keeps its EXIF and profile."""
    if isinstance(image, str | Path):
        return read(image)
    rgb = _pixels(image)
    return Picture(rgb, None, hashlib.sha256(rgb.numpy().tobytes()).hexdigest())


def _pixels(image: Image.Image | np.ndarray | Tensor) -> Tensor:
    """(3,H,W) in [0,1]."""
    if isinstance(image, Image.Image):
        return to_tensor(image)
    if isinstance(image, np.ndarray):
        array = np.repeat(image[..., None], 3, axis=-1) if image.ndim == 2 else image
        if array.ndim != 3:
            raise _no_image(image)
        whole = np.issubdtype(array.dtype, np.integer)
        top = float(np.iinfo(array.dtype).max) if whole else 1.0
        x = torch.from_numpy(np.ascontiguousarray(array[..., :3]).astype(np.float32) / top).permute(2, 0, 1)
    elif isinstance(image, Tensor):
        x = image.detach().cpu()
        x = x[0] if x.ndim == 4 and len(x) == 1 else x
        x = x.to(torch.float32) if x.is_floating_point() else x.to(torch.float32) / 255
    else:
        raise BadInput(f"An image is a path, a PIL image, an array or a tensor, got {type(image).__name__}.")
    if x.ndim != 3 or x.shape[0] not in (1, 3) or 0 in x.shape:
        raise _no_image(image)
    return x.expand(3, -1, -1).contiguous()


def _no_image(image: np.ndarray | Tensor) -> BadInput:
    return BadInput(
        f"An image is an array (H,W,3) or a tensor (3,H,W), got {tuple(image.shape)}. For a batch give "
        "operator=, degradation=, sampler= and model=."
    )


# ------------------------------------------------------------------------------------ degradations


def _task(damage: Damage | None, image: Pixels, known: bool) -> str | Task | Degradation:
    """A name that the caller vouches for, or a thing; "" leaves it to the operator or the mask."""
    if damage is None and known:
        return ""
    if damage is None or damage == AUTO:
        return _read_off(image)
    return vouch(damage) if isinstance(damage, str) else _degradation(damage)


def _degradation(damage: Damage) -> Task | Degradation:
    if isinstance(damage, Task | Degradation):
        return damage
    return Custom(damage, linear=callable(getattr(damage, "A_adjoint", None)))


def _read_off(image: Pixels) -> str:
    """What the image says of itself: a file is examined by the job, others here."""
    if isinstance(image, str | Path):
        return AUTO
    found = examine(image) if isinstance(image, Image.Image) else None
    if found is None or found.task is None:
        seen = "" if found is None else f" The file shows {found}."
        raise BadInput(
            f"What happened to the image? Nothing can be read off it.{seen} Name a task, such as task='sr4'."
        )
    return found.task


# ------------------------------------------------------------------------------------------ models


def _model_name(model: str | Path | LatentModel) -> str:
    if isinstance(model, str | Path):
        return str(model)
    if not isinstance(model, Model):
        raise BadInput("A model of your own also needs operator=, degradation= and sampler=.")
    return str(model.folder) if own_folder(model.name) is None and model.folder else model.name


def _name(dtype: str | torch.dtype | None) -> str | None:
    return str(dtype).removeprefix("torch.") if isinstance(dtype, torch.dtype) else dtype


def _load(recipe: Recipe, model: str | Path | LatentModel) -> tuple[Recipe, Model]:
    """The model that the recipe names: the one passed, or one kept from an earlier call."""
    if isinstance(model, Model):
        return recipe, model
    options = recipe.model_options()
    try:
        return recipe, _kept(recipe.model, tuple(sorted(options.items())), _age(recipe.model))
    except TypeError:  # a list of prompts
        return recipe, load_model(recipe.model, **options)


@lru_cache(maxsize=2)
def _kept(name: str, options: tuple[tuple[str, object], ...], age: tuple[float, ...]) -> Model:
    """Loading takes as long as a small picture: the last two models stay."""
    return load_model(name, **dict(options))


def _age(name: str) -> tuple[float, ...]:
    """Changes when the files of a model do."""
    folder = own_folder(name)
    if folder is None:
        return ()
    try:
        return tuple(path.stat().st_mtime for path in sorted(folder.glob("*.*")))
    except OSError as error:
        raise MissingWeights(f"The model {name} cannot be read: {error.strerror}.") from error
