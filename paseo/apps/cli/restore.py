"""`paseo restore`: files or folders in, restored PNGs with their records out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paseo.apps.console import JsonOption, emit, say

if TYPE_CHECKING:
    from paseo.apps.loop import Outcome
    from paseo.recipe import Request


def restore(
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="IN...",
            help="Images, folders searched with their sub-folders, lists (.txt, .csv, .parquet), .tar, s3://…",
        ),
    ] = None,
    out: Annotated[
        str,
        typer.Option(
            "--out",
            "-o",
            metavar="OUT",
            help="Folder for the results; a .tar; s3://…; or the name of one .png, .jpg, .webp or .tif.",
        ),
    ] = "restored",
    task: Annotated[
        str,
        typer.Option(
            "--task",
            "-t",
            help="What happened to the images: jpeg:QUALITY, blur:WIDTH, motion:LENGTH@ANGLE, sr:FACTOR, "
            "noise:SIGMA, a chain such as blur:1.5,sr:2,jpeg:60; the paper's sr4, sr8, blur, inpaint, jpeg; "
            "module:function; or auto, which reads it off each file. An operator knows its own.",
        ),
    ] = "",
    model: Annotated[
        str,
        typer.Option(
            "--model",
            "-m",
            help="The prior: an embedded model (see `paseo models`), a folder, or a hub id; or auto.",
        ),
    ] = "auto",
    operator: Annotated[
        str | None,
        typer.Option(help="Folder of an operator of your own; otherwise the model's for the task."),
    ] = None,
    method: Annotated[str, typer.Option(help="The sampler.")] = "paseo",
    preset: Annotated[
        str | None,
        typer.Option(
            help="Whose kept settings: ffhq/sd35, coco/sd35, faces-128, a folder; the model's otherwise."
        ),
    ] = None,
    samples: Annotated[
        int,
        typer.Option(
            "--samples", "-n", min=1, max=4096, help="Draws per image; several also give mean and spread."
        ),
    ] = 1,
    seed: Annotated[
        int,
        typer.Option(
            min=0, max=2**62, help="Seed of the first draw; draw k uses seed+k. The same for every file."
        ),
    ] = 0,
    mask: Annotated[
        Path | None,
        typer.Option(help="For inpainting: image whose white parts are filled, or a folder of such images."),
    ] = None,
    sigma: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            help="Noise of the measurement: standard deviation for images in [0,1]; the task's otherwise.",
        ),
    ] = None,
    degrade: Annotated[
        bool, typer.Option("--degrade", help="The inputs are sharp: degrade them first, then restore.")
    ] = False,
    keep_known: Annotated[
        bool | None,
        typer.Option(
            "--keep-known/--no-keep-known",
            help="Inpainting: copy the seen pixels from the input. With --mask it is on.",
        ),
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FIELD=VALUE", help="Change a setting of the sampler."),
    ] = None,
    batch: Annotated[
        str | None,
        typer.Option(
            help="Pictures of one size and draws computed at the same time: a number, or auto. "
            "By default one picture, four draws."
        ),
    ] = None,
    skip_existing: Annotated[
        bool, typer.Option("--skip-existing", help="Leave out inputs whose results are already there.")
    ] = False,
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="I/N", help="Only part I (from 0) of N; SLURM arrays and torchrun set it by themselves."
        ),
    ] = None,
    engine: Annotated[str, typer.Option(help="Who computes: local, or ray (on a cluster).")] = "local",
    address: Annotated[
        str | None, typer.Option(help="Ray: a running cluster, auto finds one; else one is started here.")
    ] = None,
    prompt: Annotated[str | None, typer.Option(help="Stable Diffusion: what the image shows.")] = None,
    negative_prompt: Annotated[
        str | None, typer.Option(help="Stable Diffusion: what it does not show.")
    ] = None,
    guidance: Annotated[
        float | None, typer.Option(help="Stable Diffusion: how far to follow the prompt; 1 as trained.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="Where it runs: auto, cpu, cuda, mps.")] = None,
    dtype: Annotated[str | None, typer.Option(help="Precision of the network: fp32, bf16, fp16.")] = None,
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
      paseo restore photo.jpg -o out                            what happened is read off the file
      paseo restore small.png -o out --task sr4                 one file
      paseo restore photos -o out --task jpeg --skip-existing   a folder; goes on where it stopped
      paseo restore a.png -o out --task sr4 --samples 8         a_s0.png … a_s7.png, a_mean.png, a_std.png
      paseo restore sharp.png -o out --task blur --degrade      blur it first, then restore it
      paseo restore a.png -o out --mask hole.png                fill the white parts of hole.png
      paseo restore a.png -o out --task sr8 --set relaxation=0.3 --set steps=40
      paseo restore a.png -o out --task sr4 --model stabilityai/stable-diffusion-3.5-medium --operator
      OPERATOR_FOLDER
      paseo restore photos -o out --task jpeg --batch auto      pictures of one size in one pass: faster
      paseo restore list.csv -o out.tar --task jpeg --shard 0/8 one part of eight; results in tars
      paseo restore --replay out/a.json -o again                the same once more

    Each input gives OUT/<stem>.png (or one per draw) and OUT/<stem>.json, the record of how it was made.
    Every file uses the same seeds, so an image comes out the same alone or in a folder (with --batch, but for
    the last bit of a few pixels). A file that cannot be
    read is reported and the others go on; the exit code is then 1.
    """
    from paseo.apps.job import Plan, Restoration
    from paseo.apps.runs import Wanted, run
    from paseo.lab.bench.run import Shard
    from paseo.recipe import resolve

    part = Shard.parse(shard)
    if replay is not None:
        from paseo.apps.cli.replay import recorded

        jobs, work = recorded(replay, [Path(given) for given in inputs or []], Path(out))
        wanted = Wanted(work, jobs, out, fill=True)
    else:
        recipe = resolve(
            requested(
                task=task,
                model=model,
                operator=operator,
                method=method,
                preset=preset,
                mask=mask,
                sigma=sigma,
                keep_known=keep_known,
                assignments=assignments,
                prompt=prompt,
                negative_prompt=negative_prompt,
                guidance=guidance,
                device=device,
                dtype=dtype,
                offload=offload,
                tiling=tiling,
                no_t5=no_t5,
                degrade=degrade,
            )
        )
        seeds = tuple(range(seed, seed + samples))
        draws, together = batches(batch, samples)
        plan = Plan(recipe, mask, seeds, degrade, draws, together)
        wanted = Wanted.of(Restoration(plan), inputs or [], out, part, skip=skip_existing)
    outcome = run(wanted, engine, address, keep=json is not None, quiet=json == "-")
    _report(outcome, replay, json)
    raise typer.Exit(outcome.code)


def batches(text: str | None, samples: int) -> tuple[int, int | None]:
    """(draws of a picture, pictures) that are computed at the same time; None pictures: as many as fit."""
    if text is None:
        return 4, 1
    if text == "auto":
        return max(4, samples), None
    if not text.isdecimal() or not 1 <= int(text) <= 4096:
        raise typer.BadParameter(f"--batch {text} is neither auto nor a number from 1 to 4096.")
    return int(text), max(1, int(text) // samples)


def requested(
    *,
    task: str = "",
    model: str = "auto",
    operator: str | None = None,
    method: str = "paseo",
    preset: str | None = None,
    mask: Path | None = None,
    sigma: float | None = None,
    keep_known: bool | None = None,
    assignments: list[str] | None = None,
    prompt: str | None = None,
    negative_prompt: str | None = None,
    guidance: float | None = None,
    device: str | None = None,
    dtype: str | None = None,
    offload: bool = False,
    tiling: bool = False,
    no_t5: bool = False,
    degrade: bool = False,
    **others: object,
) -> Request:
    """What was typed, as a request; `others` are options that are not the recipe's, such as the seed."""
    from paseo.models import AUTO
    from paseo.recipe import Request

    return Request(
        model=model,
        task=task or ("" if degrade else AUTO),  # a sharp picture does not tell what to do to it
        mask=mask is not None,
        operator=operator,
        method=method,
        preset=preset,
        settings=assignments or (),
        prompt=prompt,
        negative_prompt=negative_prompt,
        guidance=guidance,
        sigma_y=sigma,
        keep_known=keep_known,
        options={
            "device": device,
            "dtype": dtype,
            "offload": offload or None,
            "tiling": tiling or None,
            "t5": False if no_t5 else None,
        },
    )


def _with_notes(result: dict[str, Any], bar: Any) -> dict[str, Any]:
    """What was found out about one file, said as it is found."""
    for note in result["notes"]:
        bar.clear()
        say(note)
    return result


def _report(outcome: Outcome, replay: Path | None, json: str | None) -> None:
    result = outcome.as_json()
    if replay is not None:
        from paseo.apps.cli.replay import compared

        result |= compared(replay, outcome)
    emit(json, result)
    say(outcome.text("restored") + (f"; {result['comparison']}" if "comparison" in result else ""))
