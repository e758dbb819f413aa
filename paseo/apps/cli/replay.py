"""`paseo restore --replay SIDECAR`: the recorded run again, with the same inputs, models and settings, or an
error.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from paseo.apps.inputs import Job, named_file
from paseo.apps.job import Plan, Restoration
from paseo.apps.loop import Outcome
from paseo.apps.measuring import mask_file
from paseo.errors import BadInput, MissingWeights
from paseo.images import read
from paseo.memory import Choice
from paseo.recipe import Recipe
from paseo.recipe.resolve import trained_for
from paseo.record import file_sha256, load_record
from paseo.windows import Windows


def recorded(sidecar: Path, inputs: list[Path], out: Path) -> tuple[list[Job], Restoration]:
    """The job and the run of a record; its image and its weights must be the same."""
    record = load_record(sidecar)
    if len(inputs) > 1:
        raise BadInput("--replay repeats one image: give its file, or none to take the recorded one.")
    source = inputs[0] if inputs else sidecar.parent / record["input"]["path"]
    if read(source).sha256 != record["input"]["sha256"]:
        raise BadInput(f"{source} is not the image of the record: its SHA-256 differs.")
    run = Restoration(_plan_of(record, sidecar.parent))
    _check_weights(record, run)
    ending = Path(record["outputs"][0]["file"]).suffix if record["outputs"] else ".png"
    job = Job(source, out, sidecar.stem, source.name, ending)
    if named_file(out):
        job = Job(source, out.parent, out.stem, source.name, out.suffix.lower())
    _check_mask(record, run.plan.mask, job)
    return [job], run


def _check_mask(record: dict[str, Any], mask: Path | None, job: Job) -> None:
    """The mask must be the same as well; records of the first version do not tell."""
    told = (record.get("mask") or {}).get("sha256")
    if mask is not None and told is not None and read(mask_file(mask, job)).sha256 != told:
        raise BadInput(f"{mask} is not the mask of the record: its SHA-256 differs.")


def _plan_of(record: dict[str, Any], folder: Path) -> Plan:
    recipe = Recipe.from_record(record)
    if recipe.operator.place:
        trained_for(recipe.operator.place)  # a task known by example exists once its operator is read
    mask = record.get("mask")
    try:
        return Plan(
            recipe,
            mask=folder / mask["path"] if mask else None,
            seeds=tuple(int(s) for s in record["seeds"]),
            degrade=bool(record["degrade"]),
            batch=int(record["batch"]),
            together=int(record.get("together", 1)),
            windows=_windows(record),
            metadata=bool(record.get("metadata", False)),  # older runs left EXIF and profile behind
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BadInput(f"The record is incomplete: {error}.") from None


def _windows(record: dict[str, Any]) -> Choice:
    """As they were, whatever memory there is now; older records do not tell."""
    if "windows" not in record:
        return "auto"
    return "off" if record["windows"] is None else Windows(**record["windows"])


def _check_weights(record: dict[str, Any], run: Restoration) -> None:
    """Whatever the record tells of its weights must be true here; older records tell less."""
    then: dict[str, Any] = {
        "model": record["model"].get("hashes") or {},
        "operator": record["operator"].get("sha256"),
        "identity": (record.get("recipe") or {}).get("identity") or {},
    }
    now: dict[str, Any] = {
        "model": {name: run.model.hashes.get(name) for name in then["model"]},
        "operator": None if run.plan.recipe.idle else run.operator(run.plan.recipe).sha256,
        "identity": {name: run.model.identity.get(name) for name in then["identity"]},
    }
    if run.faces is not None:
        then["faces"], now["faces"] = record["faces"].get("hashes"), run.faces.model.hashes
    for what, told in then.items():
        if told != now[what]:
            whose = "operator" if what == "operator" else "model"
            raise MissingWeights(
                f"The {whose} of the record has other weights than the one found here, so the run cannot be "
                "repeated."
            )


def compared(sidecar: Path, outcome: Outcome) -> dict[str, Any]:
    """Whether the new files are those of the record, byte for byte."""
    if outcome.code or not outcome.count("done"):
        return {}
    then = [entry["sha256"] for entry in load_record(sidecar)["outputs"]]
    same = then == [file_sha256(path) for path in outcome.results[0]["outputs"]]
    words = (
        "identical to the recorded files"
        if same
        else "not identical to the recorded files (other versions, threads or device?)"
    )
    return {"identical": same, "comparison": words}
