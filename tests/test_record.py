"""Records: a sampler comes back from its record, and nothing in a PNG depends on the clock."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paseo import samplers
from paseo.errors import BadInput
from paseo.record import environment, load_record, sampler_from_record, sampler_record, short
from paseo.samplers import METHODS, PASEO

KNOWN = {
    name: getattr(samplers, name) for name in samplers.__all__ if isinstance(getattr(samplers, name), type)
}


@pytest.mark.parametrize("name", METHODS)
def test_every_sampler_comes_back_from_json(name: str) -> None:
    sampler = METHODS[name].default
    entry = json.loads(json.dumps(sampler_record(sampler)))
    assert sampler_from_record(entry, KNOWN) == sampler


def test_unknown_samplers_and_settings_are_named() -> None:
    with pytest.raises(BadInput, match="'Magic'"):
        sampler_from_record({"name": "Magic", "settings": {}}, KNOWN)
    with pytest.raises(BadInput, match="nonsense"):
        sampler_from_record({"name": "PASEO", "settings": {"nonsense": 1}}, KNOWN)
    with pytest.raises(BadInput, match="not a sampler"):
        sampler_record(PASEO)


def test_the_short_record_has_no_clock() -> None:
    record: dict[str, Any] = {
        "task": "sr4",
        "seconds": 3.2,
        "sampler": sampler_record(replace(PASEO(), steps=9)),
        **environment(),
    }
    line = json.loads(short(record, seed=4))
    assert line == {"task": "sr4", "seed": 4, "sampler": record["sampler"]}


def test_a_record_of_another_kind_or_unit_is_refused(tmp_path: Path) -> None:
    good = {
        **{
            "schema_version": 1,
            "kind": "restoration",
            "input": {"path": "a.png", "sha256": "0"},
            "task": "sr4",
            "sampler": {},
            "model": {"name": "faces-128", "hashes": {}, "options": {}},
            "operator": {"name": "sr4", "given": False},
            "degrade": False,
            "keep_known": False,
            "batch": 4,
            "outputs": [{"file": "a.png", "sha256": "0"}],
        },
        **{"seeds": [0], "sigma_y": 0.01, "noise_unit": "unit"},
    }
    path = tmp_path / "r.json"
    path.write_text(json.dumps(good))
    assert load_record(path) == good
    for change, words in (
        ({"kind": "measurement"}, "not the record of a restoration"),
        ({"schema_version": 2}, "schema version 2"),
        ({"seeds": 0}, "seeds is not"),
        ({"noise_unit": "signed"}, "'signed'"),
    ):
        path.write_text(json.dumps(good | change))
        with pytest.raises(BadInput, match=words):
            load_record(path)


def test_the_environment_names_what_matters() -> None:
    found = environment()
    assert {"python", "paseo", "torch", "numpy", "pillow"} <= set(found["versions"])
    assert found["threads"] >= 1
