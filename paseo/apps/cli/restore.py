"""`paseo restore`: files or folders in, restored PNGs with their records out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from paseo.apps.console import JsonOption, emit, say
from paseo.apps.inputs import collect, run_jobs
from paseo.apps.pretrained import model_options, settings_for
from paseo.errors import BadInput
from paseo.settings.parse import with_settings


def restore(
    inputs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="IN...", help="Images, or folders searched with their sub-folders."),
    ] = None,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="OUT", help="Folder for the results, or the name of one PNG."),
    ] = Path("restored"),
    task: Annotated[
        str,
        typer.Option(
            "--task",
            "-t",
            help="What happened to the images: sr4, sr8, blur, inpaint, jpeg, or module:function. "
            "An operator knows its own.",
        ),
    ] = "",
    model: Annotated[
        str,
        typer.Option(
            "--model", "-m", help="The prior: an embedded model (see `paseo models`), a folder, or a hub id."
        ),
    ] = "faces-128",
    operator: Annotated[
        str | None,
        typer.Option(help="Folder of an operator of your own; otherwise the model's for the task."),
    ] = None,
    method: Annotated[str, typer.Option(help="The sampler.")] = "paseo",
    samples: Annotated[
        int,
        typer.Option(
            "--samples", "-n", min=1, help="Draws per image; several also give their mean and spread."
        ),
    ] = 1,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the first draw; draw k uses seed+k. The same for every file.")
    ] = 0,
    mask: Annotated[
        Path | None,
        typer.Option(help="For inpainting: image whose white parts are filled, or a folder of such images."),
    ] = None,
    sigma: Annotated[
        float, typer.Option(min=0.0, help="Noise of the measurement: standard deviation for images in [0,1].")
    ] = 0.01,
    degrade: Annotated[
        bool, typer.Option("--degrade", help="The inputs are sharp: degrade them first, then restore.")
    ] = False,
    keep_known: Annotated[
        bool, typer.Option("--keep-known", help="Inpainting: copy the seen pixels from the input.")
    ] = False,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FIELD=VALUE", help="Change a setting of the sampler."),
    ] = None,
    batch: Annotated[
        int, typer.Option(min=1, help="Draws computed at the same time; less needs less memory.")
    ] = 4,
    skip_existing: Annotated[
        bool, typer.Option("--skip-existing", help="Leave out inputs whose results are already there.")
    ] = False,
    prompt: Annotated[str | None, typer.Option(help="Stable Diffusion: what the image shows.")] = None,
    negative_prompt: Annotated[
        str | None, typer.Option(help="Stable Diffusion: what it does not show.")
    ] = None,
    guidance: Annotated[
        float | None, typer.Option(help="Stable Diffusion: how far to follow the prompt; 1 as trained.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="Stable Diffusion: auto, cpu, cuda, mps.")] = None,
    dtype: Annotated[
        str | None, typer.Option(help="Stable Diffusion: precision of the network: fp32, bf16, fp16.")
    ] = None,
    offload: Annotated[
        bool, typer.Option("--offload", help="Stable Diffusion: keep idle parts in main memory.")
    ] = False,
    tiling: Annotated[
        bool, typer.Option("--tiling", help="Stable Diffusion: encode and decode large images in tiles.")
    ] = False,
    no_t5: Annotated[bool, typer.Option("--no-t5", help="SD3: leave the largest text encoder out.")] = False,
    replay: Annotated[
        Path | None, typer.Option(metavar="SIDECAR", help="Repeat the run that this JSON file records.")
    ] = None,
    json: JsonOption = None,
) -> None:
    """Restore images: draws from the posterior, given a degraded image.

    \b
      paseo restore small.png -o out --task sr4                 one file
      paseo restore photos -o out --task jpeg --skip-existing   a folder; goes on where it stopped
      paseo restore a.png -o out --task sr4 --samples 8         a_s0.png … a_s7.png, a_mean.png, a_std.png
      paseo restore sharp.png -o out --task blur --degrade      blur it first, then restore it
      paseo restore a.png -o out --mask hole.png                fill the white parts of hole.png
      paseo restore a.png -o out --task sr8 --set relaxation=0.3 --set steps=40
      paseo restore a.png -o out --task sr4 --model stabilityai/stable-diffusion-3.5-medium --operator
      OPERATOR_FOLDER
      paseo restore --replay out/a.json -o again                the same once more

    Each input gives OUT/<stem>.png (or one per draw) and OUT/<stem>.json, the record of how it was made.
    Every file uses the same seeds, so an image comes out the same alone or in a folder. A file that cannot be
    read is reported and the others go on; the exit code is then 1.
    """
    from paseo.apps.cli.replay import compared, recorded
    from paseo.apps.job import Plan, Restoration

    if replay is not None:
        jobs, work = recorded(replay, inputs or [], out)
    else:
        seeds = tuple(range(seed, seed + samples))
        trained_for = task_of_operator(operator)
        task = _task_name(task or trained_for, mask)
        found = chosen_settings(model, task, method)
        sampler = with_settings(found.sampler, assignments or [])
        given = {
            "prompt": prompt,
            "negative_prompt": negative_prompt,
            "guidance": guidance,
            "device": device,
            "dtype": dtype,
        }
        given |= {"offload": offload or None, "tiling": tiling or None, "t5": False if no_t5 else None}
        options = model_options(model, found, given)
        work = Restoration(
            Plan(task, model, sampler, operator, mask, sigma, seeds, degrade, batch, keep_known, options)
        )
        jobs = collect(inputs or [], out)
    work.load()  # missing weights are not the fault of a file
    outcome = run_jobs(jobs, work, verb="restore", skip_existing=skip_existing)
    result = outcome.as_json() | (compared(replay, outcome) if replay is not None else {})
    written = [path for entry in outcome.results for path in entry.get("outputs", [])]
    emit(json, result, "\n".join(written))
    say(outcome.text("restored") + (f"; {result['comparison']}" if "comparison" in result else ""))
    raise typer.Exit(outcome.code)


def task_of_operator(operator: str | None) -> str:
    """What an operator was trained for; one that was trained on pairs of pictures makes its task known by its
    name.
    """
    from paseo.degrade import KnownByExample, Task, register, tasks
    from paseo.operators.store import operator_config

    if operator is None:
        return ""
    config = operator_config(operator)
    name, factor = config.degradation, config.degradation_params.get("factor")
    by_example = bool(config.training.get("settings", {}).get("pairs"))
    if by_example and name not in {t.name for t in tasks()}:
        register(Task(name, name, lambda: KnownByExample(name, int(factor or 1))))
    return name


def _task_name(task: str, mask: Path | None) -> str:
    from paseo.degrade import task as find
    from paseo.degrade import tasks

    task = task or ("inpaint" if mask is not None else "")
    if not task:
        raise BadInput(
            f"Say what happened to the images with --task: {', '.join(t.name for t in tasks())}, or "
            "module:function."
        )
    if mask is not None and task != "inpaint":
        raise BadInput(f"--mask belongs to the task inpaint, not to {task}.")
    return find(task).name


def chosen_settings(model: str, task: str, method: str) -> Any:
    """The tuned settings for model and task, or the method's own defaults where there are none."""
    from paseo.samplers import METHODS
    from paseo.settings.presets import Preset

    try:
        return settings_for(model, task, method)
    except BadInput:
        if method not in METHODS:
            raise
        say(
            f"No settings of {method} are kept for {model} and {task}: taking its defaults. Change them "
            "with --set."
        )
        return Preset(METHODS[method].default)
