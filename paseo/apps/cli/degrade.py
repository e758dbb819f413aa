"""`paseo degrade`: measurements of sharp images, with reproducible noise."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from paseo.apps.console import JsonOption, emit, say
from paseo.apps.inputs import Job, collect, run_jobs


def degrade(
    inputs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="IN...", help="Images, or folders searched with their sub-folders."),
    ] = None,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="OUT", help="Folder for the results, or the name of one PNG."),
    ] = Path("degraded"),
    task: Annotated[
        str, typer.Option("--task", "-t", help="sr4, sr8, blur, inpaint, jpeg, or module:function.")
    ] = "sr4",
    mask: Annotated[
        Path | None,
        typer.Option(help="Hide the white parts of this image (or of a folder's image of the same name)."),
    ] = None,
    sigma: Annotated[
        float, typer.Option(min=0.0, help="Standard deviation of the noise, for images in [0,1].")
    ] = 0.01,
    seed: Annotated[
        int, typer.Option(min=0, help="Together with the image itself it decides the noise.")
    ] = 0,
    lift: Annotated[
        bool,
        typer.Option("--lift", help="Write the measurement at the image's size, as the encoder sees it."),
    ] = False,
    skip_existing: Annotated[
        bool, typer.Option("--skip-existing", help="Leave out inputs whose results are already there.")
    ] = False,
    json: JsonOption = None,
) -> None:
    """Degrade images: down-sample, blur, hide or compress them, and add noise.

    \b
      paseo degrade face.png -o small --task sr4        a quarter of the size, noise 0.01
      paseo degrade photos -o hidden --mask hole.png    everything under the white parts removed
      paseo degrade photos -o foggy --task weather:fog  your own fog(x) of images (B,3,H,W) in [0,1]

    The result is rounded to an 8-bit PNG. A record lies beside it. The noise depends on the seed and on the
    image, not on the order of the files.
    """
    from paseo.degrade import task as find_task

    if mask is None:
        find_task(task)  # a wrong name is not the fault of a file
    jobs = collect(inputs or [], out)
    outcome = run_jobs(
        jobs,
        lambda job, bar: _degrade(job, task, mask, sigma, seed, lift),
        verb="degrade",
        skip_existing=skip_existing,
    )
    emit(
        json,
        outcome.as_json(),
        "\n".join(path for entry in outcome.results for path in entry.get("outputs", [])),
    )
    say(outcome.text("degraded"))
    raise typer.Exit(outcome.code)


def _degrade(job: Job, task: str, mask: Path | None, sigma: float, seed: int, lift: bool) -> dict[str, Any]:
    from paseo.apps.measuring import degradation_for, measured, measurement_seed
    from paseo.files import write_json
    from paseo.images import read, save_png, to_signed, to_unit
    from paseo.record import NOISE_UNIT, SCHEMA_VERSION, environment, file_sha256

    picture = read(job.source)
    degradation, mask_sha256 = degradation_for(task, mask, job, picture)
    noise_seed = measurement_seed(picture, seed)
    y = measured(picture, degradation, sigma, noise_seed)
    shown = to_unit(degradation.lift(to_signed(y), picture.size)) if lift else y
    path = save_png(job.path(".png"), shown[0])
    record = {
        "schema_version": SCHEMA_VERSION,
        "kind": "measurement",
        "input": {
            "path": job.relative,
            "sha256": picture.sha256,
            "size": picture.size,
            "notes": picture.notes,
        },
        "task": task if mask is None else "inpaint",
        "params": getattr(degradation, "params", {}),
        "mask": None if mask is None else {"path": mask.name, "sha256": mask_sha256},
        "sigma_y": sigma,
        "noise_unit": NOISE_UNIT,
        "seed": seed,
        "measurement_seed": noise_seed,
        "lifted": lift,
        "outputs": [{"file": path.name, "sha256": file_sha256(path)}],
        **environment(),
    }
    write_json(job.sidecar, record)
    return {"outputs": [str(path)], "sidecar": str(job.sidecar)}
