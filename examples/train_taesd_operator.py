"""Train a latent operator in the latent space of SD1.x or SD3, on a CPU, with a tiny autoencoder (TAESD) as
the codec.

    export PASEO_TAESD_DIR=…        folder with taesd3_encoder.safetensors, taesd3_decoder.safetensors, …
    python examples/train_taesd_operator.py --data FACES --codec taesd3 --out runs/taesd3-sr4 --steps 600

The files are those of madebyollin/taesd (MIT), as safetensors. FACES is a folder of images, or of tar files
with images. What comes out is an operator like any other, bound to this autoencoder by its hash; the table
that is printed compares its values and its Jacobian with the chain encode ∘ degrade ∘ decode on held-out
images, as the paper does.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import torch

from paseo.codecs.tiny import SPACES, TinyCodec
from paseo.degrade import task
from paseo.errors import BadInput
from paseo.operators.check import OperatorCheck, check_operator
from paseo.operators.store import load_operator
from paseo.train.data import find_sources, load_images
from paseo.train.operator import EXPORT, OperatorTraining, train_operator
from paseo.train.splits import split


def train_and_check(
    weights: Path,
    data: Path,
    out: Path,
    *,
    codec: str = "taesd3",
    degradation: str = "sr4",
    size: int = 128,
    steps: int = 600,
    batch_size: int = 16,
    measurements: int = 0,
    limit: int | None = None,
    images: int = 8,
    quiet: bool = False,
) -> OperatorCheck:
    """Train, export to OUT/operator, and check on held-out images."""
    data = data if limit is None else few(data, out / "images", limit, images)
    space = TinyCodec.from_original(weights, codec)
    config = OperatorTraining(
        out=out,
        model=str(weights / codec),
        data=data,
        task=degradation,
        size=size,
        steps=steps,
        batch_size=batch_size,
        measurements=measurements,
        warmup=min(100, steps // 4),
        ema=max(0.0, min(0.999, 1 - 10 / steps)),  # an average over the last tenth of a short run
        validate_every=max(steps // 4, 1),
        quiet=quiet,
    )
    train_operator(config, codec=space)
    operator = load_operator(out / EXPORT, codec_hash=space.hash)
    found = load_images(data, size, out / "cache")
    held_out = split(found.names, config.split)["validation"][:images]
    x = (found.batch(held_out) + 1) / 2
    return check_operator(operator, space, task(degradation).degradation, x, name=f"{codec} {degradation}")


def few(data: Path, folder: Path, training: int, held_out: int) -> Path:
    """A folder with the first so many training and held-out images: encoding is what takes the time of a
    short run.
    """
    found = find_sources(data)
    parts = split([source.name for source in found], "auto")
    folder.mkdir(parents=True, exist_ok=True)
    for i in (*parts["train"][:training], *parts["validation"][:held_out]):
        (folder / Path(found[i].name).name).write_bytes(found[i].read())
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--weights", type=Path, default=os.environ.get("PASEO_TAESD_DIR"), help="folder of the TAESD files"
    )
    parser.add_argument("--data", type=Path, required=True, help="clean images")
    parser.add_argument("--out", type=Path, required=True, help="folder of the run")
    parser.add_argument("--codec", choices=sorted(SPACES), default="taesd3")
    parser.add_argument("--task", default="sr4")
    parser.add_argument("--size", type=int, default=128, help="side of the images in pixels")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument(
        "--measurements",
        type=int,
        default=0,
        help="measurements per image encoded beforehand; 0 = fresh ones",
    )
    parser.add_argument("--limit", type=int, help="train on this many images only")
    given = parser.parse_args()
    if given.weights is None:
        raise BadInput("Where are the TAESD files? Give --weights, or set PASEO_TAESD_DIR.")
    torch.set_flush_denormal(True)
    check = train_and_check(
        Path(given.weights),
        given.data,
        given.out,
        codec=given.codec,
        degradation=given.task,
        size=given.size,
        steps=given.steps,
        batch_size=given.batch_size,
        measurements=given.measurements,
        limit=given.limit,
    )
    print(check.table())


if __name__ == "__main__":
    main()
