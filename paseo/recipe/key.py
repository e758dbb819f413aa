"""The key of a run: SHA-256 over the canonical JSON of everything that its result depends on.

It is taken from a record (`paseo.record`), so runs of any age can be compared: replay, `--skip-existing`
and the cells of a benchmark ask whether two runs are the same run. The model is in it as a whole, with
every component.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

FIELDS = (  # of a record; what is missing counts as None
    *("task", "params", "sigma_y", "noise_unit", "degrade", "measurement_seed", "seeds", "batch"),
    *("keep_known", "sampler", "model", "operator", "lifted"),
)


def canonical(values: Mapping[str, object]) -> str:
    """One spelling for equal values; a number that JSON cannot hold is an error."""
    return json.dumps(values, sort_keys=True, ensure_ascii=False, allow_nan=False)


def key_of(record: Mapping[str, Any]) -> str:
    """The key of a record: its inputs and settings, not its outputs, times and places."""
    facts = {name: record.get(name) for name in FIELDS}
    mask, recipe, source = (record.get(name) or {} for name in ("mask", "recipe", "input"))
    facts |= {"mask": mask.get("sha256"), "input": source.get("sha256")}
    facts |= {"feather": recipe.get("feather", 0) if record.get("keep_known") else 0}
    facts |= {"identity": recipe.get("identity")}
    facts |= {"carry": recipe["carry"]} if recipe.get("carry") else {}
    facts |= {"faces": _known(record["faces"])} if record.get("faces") else {}
    return hashlib.sha256(canonical(facts).encode()).hexdigest()


def _known(faces: Mapping[str, Any]) -> dict[str, Any]:
    """What is known of faces before they are sought."""
    return {name: faces.get(name) for name in ("model", "hashes")}


def same_run(one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    """Whether two records are of the same run. A record that is older than recipes tells less of its model:
    then only what both of them tell is compared.
    """
    if "recipe" in one and "recipe" in other:
        return key_of(one) == key_of(other)
    return key_of(_without_recipe(one)) == key_of(_without_recipe(other))


def _without_recipe(record: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in record.items() if name != "recipe"}
