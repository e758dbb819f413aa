"""`paseo train codec | prior | sketch | operator | faces`: one option per field of the recipe's settings."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from paseo.apps.cli.options import parse_options
from paseo.apps.console import JsonOption, emit, say

app = typer.Typer(
    help="Train a codec, a prior or a latent operator on your own images.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
# The recipe's own parser sees all arguments, --help included: the settings need torch, which `paseo --help`
# must not import.
_ALL_ARGUMENTS = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}

CODEC = """Train an autoencoder between images and latents of an eighth of their side.

  paseo train codec --data faces --out runs/codec --minutes 120
  paseo train codec --data faces --out runs/codec --minutes 240      go on from where it stopped
  paseo train codec --data photos=0.8,faces=0.2 --crops 128 --out runs/codec      crops of any pictures

The weights are exported to OUT/model, with the statistics that make latents zero-mean and unit-variance.
"""
PRIOR = """Train a flow prior on the latents of a codec.

  paseo train prior --data faces --model runs/codec/model --out runs/faces --minutes 600
  paseo train prior --data photos --crops 128,192 --kind local --model runs/codec/model --out runs/photos

The whole model, codec included, is exported to OUT/model, which `--model` of every verb takes.
"""
SKETCH = """Train a quick decoder beside a model's own: rough, and several times as fast.

  paseo train sketch --data faces --model faces-128 --out runs/sketch --steps 2000
  paseo train sketch --data photos --crops 128,192 --model runs/photos/model --out runs/sketch

Rechecks look through it (--set sketch=true); results never do. The model is exported to OUT/model with it.
"""
OPERATOR = """Train the latent operator of a degradation: a known one, your function, or by examples.

  paseo train operator --data faces --task sr4 --out runs/sr4
  paseo train operator --data faces --task weather:fog --out runs/fog      fog of weather.py, images in [0,1]
  paseo train operator --pairs clean degraded --out runs/scanner           before/after images, same stems
  paseo train operator --data faces --task family --out runs/family        told which degradation it is

The operator is exported to OUT/operator, which `paseo restore --operator` takes.
"""
COMMON = """
Pictures may have any mix of sizes; --split says which are held out, for instance FFHQ as in the paper:

  --split train=0-67999,validation=68000-68999,test=69000-69999

A run that was interrupted, even by a power cut, goes on when the command is given again. Several processes:

  torchrun --nproc-per-node 4 -m paseo train operator …
"""


def _train(
    ctx: typer.Context, what: str, kind: type[Any], recipe: Callable[[Any], Any], description: str
) -> None:
    config, target = parse_options(kind, ctx.args, f"paseo train {what}", description + COMMON)
    outcome = recipe(config)
    if outcome.interrupted:
        say("paseo: interrupted; the same command goes on from here")
        raise typer.Exit(130)
    if os.environ.get("RANK", "0") != "0":
        return  # of several processes only one prints
    numbers = ", ".join(f"{k} {v:.4g}" for k, v in outcome.validation.items())
    emit(
        target,
        outcome.summary,
        f"{config.out}: {outcome.step} steps in {outcome.seconds / 60:.1f} minutes; validation {numbers}",
    )


@app.command("codec", context_settings=_ALL_ARGUMENTS, help="An autoencoder between images and latents.")
def codec(ctx: typer.Context) -> None:
    from paseo.train.codec import CodecTraining, train_codec

    _train(ctx, "codec", CodecTraining, train_codec, CODEC)


@app.command("prior", context_settings=_ALL_ARGUMENTS, help="A flow prior on the latents of a codec.")
def prior(ctx: typer.Context) -> None:
    from paseo.train.prior import PriorTraining, train_prior

    _train(ctx, "prior", PriorTraining, train_prior, PRIOR)


@app.command("sketch", context_settings=_ALL_ARGUMENTS, help="A quick decoder, for looks on the way.")
def sketch(ctx: typer.Context) -> None:
    from paseo.train.sketch import SketchTraining, train_sketch

    _train(ctx, "sketch", SketchTraining, train_sketch, SKETCH)


@app.command(
    "operator",
    context_settings=_ALL_ARGUMENTS,
    help="The latent operator of a task, of a function, or of before/after pairs.",
)
def operator(ctx: typer.Context) -> None:
    from paseo.train.operator import OperatorTraining, train_operator

    _train(ctx, "operator", OperatorTraining, train_operator, OPERATOR)


@app.command("faces")
def faces(
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for the JPEG files, named after their seeds.")
    ],
    first: Annotated[
        int,
        typer.Option(
            min=0, help="First seed: 0–499 are the test set, 500–749 validation, 750 and up training."
        ),
    ] = 0,
    count: Annotated[int, typer.Option(min=1, help="Number of faces.")] = 100,
    size: Annotated[int, typer.Option(min=8, max=1024, help="Side in pixels.")] = 128,
    json: JsonOption = None,
) -> None:
    """Make the synthetic faces that the embedded model was trained on; files that are there are kept.

    \b
      pip install --no-deps random-face==2021.7.21.1 && pip install openvino
      paseo train faces --out faces --first 0 --count 12000

    The generator is a MobileStyleGAN distilled from a StyleGAN2 trained on FFHQ; no real person is in its
    images.
    """
    from paseo.train.faces import make_faces

    made = make_faces(out, range(first, first + count), size)
    emit(
        json,
        {"out": str(out), "made": made, "present": count - made},
        f"{out}: {made} faces made, {count - made} were there",
    )
