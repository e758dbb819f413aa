"""`paseo degrade`: measurements of sharp images, with reproducible noise."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paseo.apps.console import JsonOption, emit, say
from paseo.apps.inputs import Job, collect
from paseo.apps.loop import run_jobs

if TYPE_CHECKING:
    from paseo.base import Degradation
    from paseo.images import Picture
    from paseo.recipe import Recipe


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
        str,
        typer.Option(
            "--task",
            "-t",
            help="sr4, sr8, blur, inpaint, jpeg, or module:function; inpaint with a mask, else sr4.",
        ),
    ] = "",
    mask: Annotated[
        Path | None,
        typer.Option(help="Hide the white parts of this image (or of a folder's image of the same name)."),
    ] = None,
    sigma: Annotated[
        float | None,
        typer.Option(
            min=0.0, help="Standard deviation of the noise, for images in [0,1]; the task's otherwise."
        ),
    ] = None,
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
    from paseo.recipe import Request, resolve

    chosen = resolve(
        Request(task=task or ("" if mask is not None else "sr4"), mask=mask is not None, sigma_y=sigma)
    )
    measurement = DegradeJob(chosen, mask, seed, lift)
    jobs = collect(inputs or [], out)
    outcome = run_jobs(
        jobs,
        lambda job, bar: measurement(job),
        verb="degrade",
        done=measurement.done if skip_existing else lambda job: False,
    )
    emit(
        json,
        outcome.as_json(),
        "\n".join(path for entry in outcome.results for path in entry.get("outputs", [])),
    )
    say(outcome.text("degraded"))
    raise typer.Exit(outcome.code)


@dataclass(frozen=True)
class DegradeJob:
    """One `paseo degrade`; called once per file."""

    recipe: Recipe
    mask: Path | None
    seed: int
    lift: bool

    def done(self, job: Job) -> bool:
        from paseo.apps.measuring import complete

        return complete(job, [".png"], lambda: self._record(job)[0])

    def __call__(self, job: Job) -> dict[str, Any]:
        from hashlib import sha256

        from paseo.apps.measuring import measured
        from paseo.files import as_json
        from paseo.formats import encode_picture
        from paseo.units import to_signed, to_unit

        record, picture, degradation = self._record(job)
        y = measured(picture, degradation, self.recipe.sigma_y, record["measurement_seed"])
        shown = to_unit(degradation.lift(to_signed(y), picture.size)) if self.lift else y
        path, data = job.path(".png"), encode_picture(shown[0])
        record["outputs"] = [{"file": path.name, "sha256": sha256(data).hexdigest()}]
        job.write_all([(".png", data), (".json", as_json(record))])
        return {"outputs": [str(path)], "sidecar": str(job.sidecar)}

    def _record(self, job: Job) -> tuple[dict[str, Any], Picture, Degradation]:
        from paseo.apps.measuring import degradation_for
        from paseo.base import HasParams
        from paseo.images import read
        from paseo.record import NOISE_UNIT, SCHEMA_VERSION, environment
        from paseo.seeds import of_image

        picture = read(job.source)
        degradation, mask_sha256 = degradation_for(self.recipe, self.mask, job, picture)
        record = {
            "schema_version": SCHEMA_VERSION,
            "kind": "measurement",
            "input": {
                "path": job.relative,
                "sha256": picture.sha256,
                "size": list(picture.size),
                "notes": picture.notes,
            },
            "task": self.recipe.task,
            "params": degradation.params if isinstance(degradation, HasParams) else {},
            "mask": None if self.mask is None else {"path": self.mask.name, "sha256": mask_sha256},
            "sigma_y": self.recipe.sigma_y,
            "noise_unit": NOISE_UNIT,
            "seed": self.seed,
            "measurement_seed": of_image(self.seed, picture.sha256),
            "lifted": self.lift,
            **environment(),
        }
        return record, picture, degradation
