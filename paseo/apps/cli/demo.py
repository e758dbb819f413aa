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
    images: Annotated[int, typer.Option(min=1, help="Pictures to restore, of each model.")] = 1,
    draws: Annotated[int, typer.Option(min=1, help="Draws per picture and task.")] = 2,
    tasks: Annotated[str, typer.Option(help="Comma-separated tasks.")] = "sr4,sr8,blur,inpaint,jpeg",
    method: Annotated[str, typer.Option(help="The sampler.")] = "paseo",
    model: Annotated[
        str, typer.Option("--model", "-m", help="One model; auto shows all that are embedded.")
    ] = "auto",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first draw.")] = 0,
    exact: Annotated[
        bool, typer.Option("--exact", help="No trained model: a prior whose posterior is known.")
    ] = False,
    json: JsonOption = None,
) -> None:
    """Restore the sample images that come with the package: one picture, one table.

    \b
      paseo demo                                   a photograph and a face, five tasks, two draws each
      paseo demo --images 3 --tasks sr8,inpaint    more pictures, fewer tasks
      paseo demo --exact                           clouds with a known posterior, no trained model

    OUT/demo.png holds the truth, the measurement, the draws and their standard deviation. The method
    `measurement` in the table is the degraded image itself, brought to size.
    """
    chosen = [t.strip() for t in tasks.split(",") if t.strip()]
    result = _exact(draws, seed) if exact else _samples(model, chosen, images, draws, seed, method)
    picture = result.save(out / "demo.png")
    header = ("model", "task", "method", "draws", "PSNR", "LPIPS", "NFE", "seconds")
    lines = [[a["model"], a["task"], a["method"], a["draws"], *_figures(a)] for a in result.averages()]
    emit(json, result.as_json() | {"picture": str(picture)}, f"{table(header, lines)}\n\n{picture}")


def _figures(a: dict[str, object]) -> list[str]:
    return [
        f"{a['psnr']:.2f}",
        "-" if a["lpips"] is None else f"{a['lpips']:.3f}",
        str(a["nfe"]),
        f"{a['seconds']:.2f}",
    ]


def _samples(model: str, tasks: list[str], images: int, draws: int, seed: int, method: str) -> Demo:
    from paseo.apps.demo import joined, run_samples
    from paseo.errors import MissingWeights
    from paseo.models import AUTO, with_samples

    models = with_samples() if model == AUTO else [model]
    try:
        with progress(len(tasks) * len(models), "demo", "task") as bar:
            return joined([run_samples(m, tasks, images, draws, seed, method, bar.update) for m in models])
    except MissingWeights as error:
        say(f"{error} Showing the exact restoration instead.")
        return _exact(draws, seed)


def _exact(draws: int, seed: int) -> Demo:
    from paseo.apps.demo import run_exact

    with progress(2, "demo", "task") as bar:
        return run_exact(max(draws, 8), seed, bar.update)
