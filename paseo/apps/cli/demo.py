"""`paseo demo`: see it work."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from paseo.apps.console import JsonOption, emit, progress, say, table

if TYPE_CHECKING:
    from paseo.apps.demo import Demo


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the picture.")] = Path("out/demo"),
    images: Annotated[int, typer.Option(min=1, help="Faces to restore.")] = 1,
    draws: Annotated[int, typer.Option(min=1, help="Draws per face and task.")] = 4,
    tasks: Annotated[str, typer.Option(help="Comma-separated tasks.")] = "sr4,sr8,blur,inpaint,jpeg",
    method: Annotated[str, typer.Option(help="The sampler.")] = "paseo",
    model: Annotated[str, typer.Option("--model", "-m", help="The embedded model.")] = "auto",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first draw.")] = 0,
    exact: Annotated[
        bool, typer.Option("--exact", help="No trained model: a prior whose posterior is known.")
    ] = False,
    json: JsonOption = None,
) -> None:
    """Restore the sample images that come with the package: one picture, one table.

    \b
      paseo demo                                   a face, five tasks, four draws each
      paseo demo --images 3 --tasks sr8,inpaint    more faces, fewer tasks
      paseo demo --exact                           clouds with a known posterior, no trained model

    OUT/demo.png holds the truth, the measurement, the draws and their standard deviation. The method
    `measurement` in the table is the degraded image itself, brought to size.
    """
    chosen = [t.strip() for t in tasks.split(",") if t.strip()]
    result = _exact(draws, seed) if exact else _faces(model, chosen, images, draws, seed, method)
    picture = result.save(out / "demo.png")
    header = ("task", "method", "draws", "PSNR", "LPIPS", "NFE", "seconds")
    lines = [[a["task"], a["method"], a["draws"], *_figures(a)] for a in result.averages()]
    emit(json, result.as_json() | {"picture": str(picture)}, f"{table(header, lines)}\n\n{picture}")


def _figures(a: dict[str, object]) -> list[str]:
    return [
        f"{a['psnr']:.2f}",
        "-" if a["lpips"] is None else f"{a['lpips']:.3f}",
        str(a["nfe"]),
        f"{a['seconds']:.2f}",
    ]


def _faces(model: str, tasks: list[str], images: int, draws: int, seed: int, method: str) -> Demo:
    from paseo.apps.demo import run_faces
    from paseo.errors import MissingWeights

    try:
        with progress(len(tasks), "demo", "task") as bar:
            return run_faces(model, tasks, images, draws, seed, method, bar.update)
    except MissingWeights as error:
        say(f"{error} Showing the exact restoration instead.")
        return _exact(draws, seed)


def _exact(draws: int, seed: int) -> Demo:
    from paseo.apps.demo import run_exact

    with progress(2, "demo", "task") as bar:
        return run_exact(max(draws, 8), seed, bar.update)
