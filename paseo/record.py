"""The JSON beside every output: all that is needed to know how an image came about, and to make it again.

    {"schema_version": 1, "kind": "restoration", "input": {…, "sha256"}, "task", "sigma_y", "noise_unit":
    "unit", "seeds",
     "sampler": {"name", "settings"}, "model": {"name", "hashes"}, "operator": {"name", "sha256"}, "outputs":
     [{"file", "sha256"}], "nfe", "seconds", "device", "dtype", "threads", "versions"}

σ_y is the noise of images in [0,1] (`noise_unit` "unit"). The same settings on the same versions and threads
give the same bytes; on another device or version they give a similar image.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Callable
from dataclasses import asdict, is_dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from paseo.errors import BadInput
from paseo.files import exists, read_json
from paseo.version import __version__

SCHEMA_VERSION = 1
NOISE_UNIT = "unit"  # σ_y belongs to images in [0,1]
PACKAGES = ("torch", "numpy", "pillow", "diffusers", "safetensors")
SHORT = ("paseo", "task", "sigma_y", "noise_unit", "seed", "sampler", "model", "operator")


def environment() -> dict[str, Any]:
    """Versions and threads; a package that is not installed is left out."""
    import torch

    return {
        "versions": dict(_versions()),
        "threads": torch.get_num_threads(),
        "platform": f"{platform.system()} {platform.machine()}",
    }


@cache
def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version(), "paseo": __version__}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def conditions() -> dict[str, Any]:
    """What a reader needs to judge or repeat a measured figure: versions, threads, processor."""
    return {**environment(), "processor": processor(), "cores": os.cpu_count()}


def processor() -> str:
    """The name of the CPU, as far as the system tells."""
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def sampler_record(sampler: object) -> dict[str, object]:
    """Name and hyperparameters of a sampler, which is a dataclass of them."""
    if not is_dataclass(sampler) or isinstance(sampler, type):
        raise BadInput(f"{sampler!r} is not a sampler: samplers are dataclasses of their settings.")
    return {"name": type(sampler).__name__, "settings": json.loads(json.dumps(asdict(sampler)))}


def sampler_from_record(entry: dict[str, Any], samplers: dict[str, type]) -> Any:
    """The sampler that `sampler_record` described, if it is one of `samplers`."""
    name, settings = entry.get("name"), entry.get("settings", {})
    if not isinstance(name, str) or name not in samplers:
        raise BadInput(
            f"The record was made with the sampler {name!r}; this version knows "
            f"{', '.join(sorted(samplers))}."
        )
    if not isinstance(settings, dict):
        raise BadInput(f"The record's settings of {name} are not a table.")
    try:
        tuples = {
            k: tuple(v) if isinstance(v, list) else v for k, v in settings.items()
        }  # JSON has no tuples
        return samplers[name](**tuples)
    except (TypeError, AttributeError, ArithmeticError) as error:
        raise BadInput(f"The record's settings of {name} do not fit this version: {error}.") from None


def pinned(name: str, folder: Path | None) -> str:
    """How a record calls a model or operator: a hub id with the commit that it was resolved to, so that a
    replay takes the same one when the branch has moved on; a folder as it was given.
    """
    if folder is None or folder.parent.name != "snapshots" or exists(name):
        return name
    return f"{name.partition('@')[0]}@{folder.name}"


def short(record: dict[str, Any], seed: int | None) -> str:
    """One line for the PNG itself. It does not depend on the clock, so that equal runs give equal bytes."""
    return json.dumps(
        {k: v for k, v in ({**record, "seed": seed}).items() if k in SHORT},
        sort_keys=True,
        ensure_ascii=False,
    )


def file_sha256(path: str | Path) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def load_record(path: str | Path, kind: str = "restoration") -> dict[str, Any]:
    """A sidecar, checked as far as a replay depends on it."""
    record = read_json(path)
    if not isinstance(record, dict) or record.get("kind") != kind:
        raise BadInput(f"{path} is not the record of a {kind}. Give the JSON that lies beside an output.")
    if record.get("schema_version") != SCHEMA_VERSION:
        raise BadInput(
            f"{path} has the schema version {record.get('schema_version')!r}, this version reads "
            f"{SCHEMA_VERSION}."
        )
    for place, (says, good) in NEEDED.items():
        if not good(_at(record, place)):
            raise BadInput(f"{path} cannot be replayed: {place} is not {says}.")
    if record["noise_unit"] != NOISE_UNIT:
        raise BadInput(
            f"{path} gives its noise in the unit {record['noise_unit']!r}, expected {NOISE_UNIT!r} (images "
            "in [0,1])."
        )
    return record


def _at(record: object, place: str) -> object:
    """record["model"]["name"] for "model.name"; None where there is no such entry."""
    for key in place.split("."):
        record = record.get(key) if isinstance(record, dict) else None
    return record


def _text(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value


def _table(value: object) -> bool:
    return isinstance(value, dict)


def _table_or_nothing(value: object) -> bool:
    return value is None or isinstance(value, dict)


def _flag(value: object) -> bool:
    return isinstance(value, bool)


def _count(value: object) -> bool:
    return type(value) is int and 1 <= value <= 4096


def _noise(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 10


def _seeds(value: object) -> bool:
    return (
        isinstance(value, list)
        and 0 < len(value) <= 4096
        and all(type(v) is int and 0 <= v < 2**63 for v in value)
    )


def _mask(value: object) -> bool:
    return value is None or (isinstance(value, dict) and _text(value.get("path")))


def _outputs(value: object) -> bool:
    """Files beside the record, nowhere else."""
    return isinstance(value, list) and all(
        isinstance(entry, dict)
        and _text(entry.get("file"))
        and Path(entry["file"]).name == entry["file"]
        and _text(entry.get("sha256"))
        for entry in value
    )


NEEDED: dict[str, tuple[str, Callable[[object], bool]]] = {  # what a replay depends on
    "input.path": ("a path", _text),
    "input.sha256": ("a sum", _text),
    "task": ("a name", _text),
    "mask": ("a path, or nothing", _mask),
    "sigma_y": ("a standard deviation of images in [0,1]", _noise),
    "noise_unit": ("a name", _text),
    "degrade": ("true or false", _flag),
    "keep_known": ("true or false", _flag),
    "batch": ("a count from 1 to 4096", _count),
    "seeds": ("a list of 1 to 4096 seeds", _seeds),
    "sampler": ("a table", _table),
    "model.name": ("a name", _text),
    "model.hashes": ("a table", _table),
    "model.options": ("a table", _table),
    "operator.name": ("a name", _text),
    "operator.given": ("true or false", _flag),
    "recipe": ("a table, or nothing", _table_or_nothing),
    "recipe.identity": ("a table, or nothing", _table_or_nothing),
    "outputs": ("a list of files beside the record", _outputs),
}
