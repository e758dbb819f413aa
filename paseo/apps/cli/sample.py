"""`paseo sample`: images from a model's prior alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paseo.apps.console import JsonOption, emit, progress


def sample(
    out: Annotated[Path, typer.Option("--out", "-o", help="The picture to write.")] = Path("out/samples.png"),
    count: Annotated[int, typer.Option(min=1, help="Images to draw; the picture shows the first 64.")] = 64,
    steps: Annotated[int, typer.Option(min=3, help="Time points; one denoiser call less.")] = 50,
    model: Annotated[
        str, typer.Option("--model", "-m", help="An embedded model, or the folder of one.")
    ] = "auto",
    data: Annotated[
        str | None,
        typer.Option(help="Images to compare with: their test part, and their training part as floor."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first image.")] = 0,
    size: Annotated[
        int | None, typer.Option(min=8, help="Side in pixels; the trained one unless given.")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Images computed at the same time.")] = 16,
    json: JsonOption = None,
) -> None:
    """Draw images from a model's prior, nothing observed: what it has learned.

    \b
      paseo sample                                       64 images, eight to a row
      paseo sample --count 8 --size 512 --batch 1        larger ones, where the prior is local
      paseo sample -m runs/faces/model --seed 100        of your own prior
      paseo sample --count 256 --data faces              and their kernel distance from held-out faces
    """
    from paseo.images import save_png
    from paseo.lab.bench.samples import distances, draw_images, sheet
    from paseo.models import load_model

    loaded = load_model(model)
    with progress(count, "sample", "image") as bar:
        images = draw_images(loaded, count, seed, steps, batch, bar.update, size)
    found = {} if data is None else distances(images, data).to_json()
    picture = save_png(out, sheet(images))
    lines = [
        f"{name}: {d['distance']:.3f} ± {d['standard_error']:.3f} (kernel distance × 1000, "
        f"{d['images'][0]} images)"
        for name, d in found.items()
    ]
    facts = {
        "model": model,
        "count": count,
        "steps": steps,
        "seed": seed,
        "size": images.shape[-1],
        "picture": str(picture),
        **found,
    }
    emit(json, facts, "\n".join([*lines, str(picture)]))
