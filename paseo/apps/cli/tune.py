"""`paseo tune`: choose a method's settings for a model and a task on validation images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from paseo.apps.console import JsonOption, emit, say, table


def tune(
    task: Annotated[str, typer.Option(help="sr4, sr8, blur, inpaint, jpeg, or module:function.")],
    data: Annotated[Path, typer.Option(help="Folder, tar file or list of images.")],
    method: Annotated[str, typer.Option(help="The sampler.")] = "paseo",
    model: Annotated[str, typer.Option(help="An embedded model, a folder, or a hub id.")] = "auto",
    preset: Annotated[
        str | None, typer.Option(help="Whose kept settings to start from; the model's otherwise.")
    ] = None,
    operator: Annotated[
        str | None, typer.Option(help="Folder of an operator; otherwise the model's for the task.")
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="Name under which the settings are kept; the method's otherwise.")
    ] = None,
    metric: Annotated[str, typer.Option(help="What is made as good as possible.")] = "lpips",
    trials: Annotated[int, typer.Option(min=1, help="Trials in all, those of earlier runs included.")] = 50,
    images: Annotated[int, typer.Option(min=1, help="Number of images.")] = 16,
    first: Annotated[int, typer.Option(min=0, help="Position of the first one.")] = 0,
    part: Annotated[str, typer.Option(help="validation, train, test or all.")] = "validation",
    size: Annotated[int | None, typer.Option(help="Side in pixels; the model's otherwise.")] = None,
    study: Annotated[Path, typer.Option(help="The SQLite file that holds the trials.")] = Path("tune.db"),
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="presets.json to put the result into.")
    ] = None,
    fixed: Annotated[
        list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="Fix a setting.")
    ] = None,
    space: Annotated[
        list[str] | None,
        typer.Option("--space", metavar="FIELD=LOW:HIGH[:log]", help="Bounds, or FIELD=a,b,c."),
    ] = None,
    only: Annotated[
        str | None, typer.Option(help="Fields to search, comma-separated; the others keep their values.")
    ] = None,
    grid: Annotated[
        list[str] | None,
        typer.Option("--grid", metavar="FIELD=a,b,c", help="Values to try first, in every combination."),
    ] = None,
    nfe: Annotated[int | None, typer.Option(min=1, help="Denoiser calls that no trial may exceed.")] = None,
    sigma: Annotated[
        float | None, typer.Option(help="Noise of the measurements in [0,1] units; the task's otherwise.")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Images computed at the same time.")] = 4,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    final: Annotated[
        int, typer.Option(min=0, help="Further images on which the three best trials are compared.")
    ] = 0,
    prune: Annotated[bool, typer.Option(help="Give up trials that are worse image by image.")] = True,
    device: Annotated[str, typer.Option(help="cpu, cuda, mps or auto.")] = "auto",
    json: JsonOption = None,
) -> None:
    """Choose the settings of a method for a model and a task. The same command goes on where it stopped.

    \b
      paseo tune --task sr4 --data faces --trials 60
      paseo tune --task sr4 --data faces --set anchor=fresh --label paseo-dagger
      paseo tune --task jpeg --data faces --method silo --nfe 53 --space scale=1:100:log
      paseo tune --task inpaint --data faces --metric lpips_hole -o presets.json
      paseo tune --task blur --data faces --method ldps --only guidance --grid guidance=1,3,10,30 --trials 8
    """
    from paseo.errors import BadInput
    from paseo.lab.bench.pictures import load_pictures
    from paseo.lab.bench.setup import Setup
    from paseo.lab.tune.spaces import read_grid, space_of
    from paseo.lab.tune.tune import Tuning, write_preset
    from paseo.lab.tune.tune import tune as run
    from paseo.samplers import method as find_method
    from paseo.settings.parse import with_settings

    if part not in ("all", "train", "validation", "test"):
        raise BadInput(f"--part {part} is not one of validation, train, test, all.")
    setup = Setup(model, task, sigma, operator, device=device, method=method, preset=preset)
    pictures = load_pictures(data, part, first, images + final, size or setup.model.size)
    names = [assignment.partition("=")[0].strip().replace("-", "_") for assignment in fixed or []]
    probe = with_settings(find_method(method).default, fixed or [])
    values = {name: asdict(probe)[name] for name in names}
    axes = space_of(method, masks=setup.task.masks, fixed=values, changes=space or ())
    values |= _others(only, axes, replace(setup, settings=values).recipe.sampler)
    tuning = Tuning(
        setup,
        method,
        pictures[:images],
        study,
        trials,
        metric,
        fixed=values,
        space_changes=space or (),
        preset_name=label,
        budget=nfe,
        batch=batch,
        seed=seed,
        prune=prune,
        final_pictures=pictures[images:],
        grid=read_grid({name: axis for name, axis in axes.items() if name not in values}, grid or ()),
    )
    tuned = run(tuning, say)
    if out is not None:
        write_preset(out, tuned)
    emit(json, tuned.as_json(), _text(tuned))


def _others(only: str | None, axes: Mapping[str, Any], sampler: Any) -> dict[str, Any]:
    """The values of all axes but those in `only`, which are thereby fixed."""
    from paseo.errors import BadInput

    if only is None:
        return {}
    wanted = [name.strip().replace("-", "_") for name in only.split(",") if name.strip()]
    if unknown := [name for name in wanted if name not in axes]:
        raise BadInput(
            f"--only {unknown[0]} is not searched for this method and task. Searched are: {', '.join(axes)}."
        )
    return {name: value for name, value in asdict(sampler).items() if name in axes and name not in wanted}


def _text(tuned: Any) -> str:
    scores = ", ".join(f"{name} {value:.4g}" for name, value in tuned.score.items())
    before = (
        ""
        if tuned.start_score is None
        else f" (settings before, on the images of the trials: {tuned.start_score:.4f})"
    )
    head = f"{tuned.task}, {tuned.label}: {scores}{before}; {tuned.trials} trials, "
    head += f"{tuned.pruned} given up; {tuned.images} images"
    rows = [
        (name, str(value), tuned.importances.get(name)) for name, value in tuned.entry()["settings"].items()
    ]
    return head + "\n\n" + table(("setting", "value", "importance"), rows)
