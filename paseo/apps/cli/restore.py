"""`paseo restore`: files or folders in, restored PNGs with their records out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

import typer

from paseo.apps.console import JsonOption, emit, say
from paseo.apps.wishes import Wish, Wishes, asked, takes

if TYPE_CHECKING:
    from paseo.apps.loop import Outcome
    from paseo.recipe import Request


MODEL_OPTIONS = ("device", "dtype", "channels_last", "compile", "offload", "tiling")


class RestoreOptions(Wishes, total=False):
    """What `paseo restore` takes besides: what makes the request."""

    task: Annotated[
        str,
        Wish(
            "",
            "What happened to the images: jpeg:QUALITY, blur:WIDTH, motion:LENGTH@ANGLE, sr:FACTOR, "
            "noise:SIGMA, a chain such as blur:1.5,sr:2,jpeg:60; the paper's sr4, sr8, blur, inpaint, jpeg; "
            "module:function; or auto, which reads it off each file. An operator knows its own.",
            ("--task", "-t"),
        ),
    ]
    model: Annotated[
        str,
        Wish(
            "auto",
            "The prior: an embedded model (see `paseo models`), a folder, or a hub id; or auto.",
            ("--model", "-m"),
        ),
    ]
    operator: Annotated[
        str | None, Wish(None, "Folder of an operator of your own; otherwise the model's for the task.")
    ]
    mask: Annotated[
        Path | None,
        Wish(None, "For inpainting: image whose white parts are filled, or a folder of such images."),
    ]
    degrade: Annotated[
        bool, Wish(False, "The inputs are sharp: degrade them first, then restore.", ("--degrade",))
    ]
    assignments: Annotated[
        list[str] | None,
        Wish(None, "Change a setting of the sampler.", ("--set",), metavar="FIELD=VALUE"),
    ]
    windows: Annotated[
        str,
        Wish(
            "auto",
            "Large pictures are walked in overlapping windows where memory asks for it: auto, off, or the "
            "SIDE (or SIDE,HALO,BLEND) in latent cells, 8 pixels each.",
        ),
    ]
    device: Annotated[str | None, Wish(None, "Where it runs: auto, cpu, cuda, mps.")]
    dtype: Annotated[str | None, Wish(None, "Precision of the network: fp32, bf16, fp16.")]
    channels_last: Annotated[
        bool, Wish(False, "Embedded models: a layout that may be faster here.", ("--channels-last",))
    ]
    compile: Annotated[
        bool,
        Wish(False, "Embedded models: torch.compile, which pays for long folders.", ("--compile",)),
    ]
    offload: Annotated[bool, Wish(False, "Stable Diffusion: keep idle parts in main memory.", ("--offload",))]
    tiling: Annotated[
        bool, Wish(False, "Stable Diffusion: encode and decode large images in tiles.", ("--tiling",))
    ]
    no_t5: Annotated[bool, Wish(False, "SD3: leave the largest text encoder out.", ("--no-t5",))]


def _option(name: str, hint: object, wish: Wish) -> object:
    """A wish as typer reads it."""
    flags = wish.flags or ("--" + name.replace("_", "-"),)
    option = typer.Option(*flags, help=wish.words, min=wish.low, metavar=wish.metavar)
    return Annotated[hint, option]  # ty: ignore[invalid-type-form]  (both are known only here)


@takes(RestoreOptions, _option)
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
    replay: Annotated[
        Path | None, typer.Option(metavar="SIDECAR", help="Repeat the run that this JSON file records.")
    ] = None,
    json: JsonOption = None,
    **typed: Unpack[RestoreOptions],
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
      paseo restore group.jpg -o out --faces                    faces by the model that knows them
      paseo restore --replay out/a.json -o again                the same once more

    Each input gives OUT/<stem>.png (or one per draw) and OUT/<stem>.json, the record of how it was made.
    Every file uses the same seeds, so an image comes out the same alone or in a folder (with --batch, but for
    the last bit of a few pixels). A file that cannot be
    read is reported and the others go on; the exit code is then 1.
    """
    from paseo.apps.job import Plan, Restoration
    from paseo.apps.runs import Wanted, run
    from paseo.lab.bench.run import Shard
    from paseo.memory import read_choice
    from paseo.recipe import resolve
    from paseo.seeds import of_draws

    part = Shard.parse(shard)
    if replay is not None:
        from paseo.apps.cli.replay import recorded

        jobs, work = recorded(replay, [Path(given) for given in inputs or []], Path(out))
        wanted = Wanted(work, jobs, out, fill=True)
    else:
        seeds = of_draws(typed["seed"], typed["samples"])
        draws, together = batches(batch, len(seeds))
        recipe = resolve(requested(typed))
        windows = read_choice(typed["windows"])
        plan = Plan(recipe, typed["mask"], seeds, typed["degrade"], draws, together, windows=windows)
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


def requested(typed: RestoreOptions) -> Request:
    """What was typed, as a request; the seed and the number of draws are not the recipe's."""
    from paseo.models import AUTO
    from paseo.recipe import Request

    options = {name: typed[name] or None for name in MODEL_OPTIONS}
    return Request(
        model=typed["model"],
        # a sharp picture does not tell what to do to it
        task=typed["task"] or ("" if typed["degrade"] else AUTO),
        mask=typed["mask"] is not None,
        operator=typed["operator"],
        settings=typed["assignments"] or (),
        options={**options, "t5": False if typed["no_t5"] else None},
        **asked(typed),
    )


def _report(outcome: Outcome, replay: Path | None, json: str | None) -> None:
    result = outcome.as_json()
    if replay is not None:
        from paseo.apps.cli.replay import compared

        result |= compared(replay, outcome)
    emit(json, result)
    say(outcome.text("restored") + (f"; {result['comparison']}" if "comparison" in result else ""))
