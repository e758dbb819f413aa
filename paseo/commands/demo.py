"""`paseo demo`: see it work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from paseo.commands.shared import JsonOption, emit, progress, say, table


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the picture.")] = Path("out/demo"),
    images: Annotated[int, typer.Option(min=1, help="Faces to restore.")] = 1,
    draws: Annotated[int, typer.Option(min=1, help="Draws per face and task.")] = 4,
    tasks: Annotated[str, typer.Option(help="Comma-separated tasks.")] = "sr4,sr8,blur,inpaint,jpeg",
    method: Annotated[str, typer.Option(help="The sampler.")] = "paseo",
    model: Annotated[str, typer.Option("--model", "-m", help="The embedded model.")] = "faces-128",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first draw.")] = 0,
    exact: Annotated[bool, typer.Option("--exact", help="No trained model: a prior whose posterior is known.")] = False,
    json: JsonOption = None,
) -> None:
    """Restore the sample images that come with the package: one picture, one table.

    \b
      paseo demo                                   a face, five tasks, four draws each
      paseo demo --images 3 --tasks sr8,inpaint    more faces, fewer tasks
      paseo demo --exact                           clouds with a known posterior, no trained model

    OUT/demo.png holds the truth, the measurement, the draws and their standard deviation. The method `measurement` in the
    table is the degraded image itself, brought to size.
    """
    from paseo.demo import run_exact, run_faces
    from paseo.models import available

    if not exact and model not in available():
        say(f"The model {model} is not in this installation: showing the exact restoration instead.")
        exact = True
    chosen = [t.strip() for t in tasks.split(",") if t.strip()]
    with progress(2 if exact else len(chosen), "demo", "task") as bar:
        if exact:
            result = run_exact(max(draws, 8), seed, bar.update)
        else:
            result = run_faces(model, chosen, images, draws, seed, method, bar.update)
    picture = result.save(out / "demo.png")
    header = ("task", "method", "draws", "PSNR", "LPIPS", "NFE", "seconds")
    lines = [[a["task"], a["method"], a["draws"], *_figures(a)] for a in result.averages()]
    emit(json, result.as_json() | {"picture": str(picture)}, f"{table(header, lines)}\n\n{picture}")


def _figures(a: dict[str, Any]) -> list[str]:
    return [f"{a['psnr']:.2f}", "-" if a["lpips"] is None else f"{a['lpips']:.3f}", str(a["nfe"]), f"{a['seconds']:.2f}"]
