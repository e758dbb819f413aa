"""`paseo check-operator`: does a learned operator predict the measurement, and how it changes?"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from paseo.apps.console import JsonOption, emit, progress

if TYPE_CHECKING:
    from torch import Tensor

    from paseo.models import Model


def check_operator(
    tasks: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TASK...]", help="Tasks to check; all of the model's if none is given."),
    ] = None,
    model: Annotated[str, typer.Option("--model", "-m", help="Whose latent space.")] = "auto",
    operator: Annotated[
        Path | None, typer.Option(help="Folder of an operator of your own, checked for one task.")
    ] = None,
    images: Annotated[
        list[Path] | None, typer.Option(help="Clean images or folders; the model's own samples if not given.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="Images to use.")] = 8,
    directions: Annotated[int, typer.Option(min=1, help="Random directions per image.")] = 4,
    sigma: Annotated[
        float, typer.Option(min=0.0, help="Noise of the measurement, for images in [0,1].")
    ] = 0.01,
    seed: Annotated[int, typer.Option(min=0, help="Decides the random directions.")] = 0,
    json: JsonOption = None,
) -> None:
    """Compare operators and their Jacobians with the chain encode ∘ degrade ∘ decode (the paper's table).

    \b
      paseo check-operator                                       all operators of the embedded model
      paseo check-operator sr4 --images photos                   one, on images of your own
      paseo check-operator jpeg:35 blur:2                        the one of the family, told these
      paseo check-operator fog:fog --operator runs/fog/operator  one you have trained
    """
    from paseo.base import BindsDegradation
    from paseo.degrade import task as find_task
    from paseo.degrade import tasks as paper_tasks
    from paseo.errors import BadInput
    from paseo.models import load_model
    from paseo.operators.check import check_operator as check_one
    from paseo.problem import Padded, bound
    from paseo.recipe import Request, resolve
    from paseo.recipe.family import FAMILY
    from paseo.recipe.load import load_operator_of

    loaded = load_model(model)
    names = tasks or [name for name in loaded.tasks if name != FAMILY]
    if not names and FAMILY in loaded.tasks:
        names = [known.name for known in paper_tasks()]
    if not names or (operator is not None and len(names) != 1):
        raise BadInput(
            "--operator needs the one task it was trained for."
            if operator
            else f"{model} has no operators to check."
        )
    x = _images(loaded, images, count)
    results = []
    with progress(len(names) * len(x), "check", "image") as bar:
        for name in names:
            recipe = resolve(Request(model=model, task=name, operator=str(operator) if operator else None))
            H, degradation = load_operator_of(recipe, loaded).operator, find_task(name).degradation
            if isinstance(H, BindsDegradation) and H.serves_family:
                H = bound(H, sigma, degradation, Padded(loaded.codec, (loaded.size, loaded.size)))
            check = partial(check_one, H, loaded.codec, degradation, x, name=name)
            results.append(
                check(sigma_y=sigma, directions=directions, seed=seed, progress=lambda *_: bar.update())
            )
    emit(
        json,
        {"model": model, "images": len(x), "results": [r.to_dict() for r in results]},
        "\n\n".join(r.table() for r in results),
    )


def _images(model: Model, given: list[Path] | None, count: int) -> Tensor:
    """(B,3,s,s) in [0,1] at the model's size."""
    import torch

    from paseo.errors import BadInput
    from paseo.images import find_images, fit_square, read
    from paseo.models import ROOT

    own = [model.folder / "samples"] if model.folder else []
    roots = given or [folder for folder in (*own, ROOT / "photos" / "samples") if folder.is_dir()][:1]
    files = [p for root in roots for p in (find_images(root) if root.is_dir() else [root])][:count]
    if not files:
        raise BadInput(f"The model {model.name} brings no sample images: give clean images with --images.")
    return torch.stack([fit_square(read(p).rgb, model.size) for p in files])
