"""Every setting is declared once, and that decides what is accepted, shown, searched and written."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from paseo.apps.cli.main import app
from paseo.errors import BadInput
from paseo.samplers import METHODS, PASEO, within
from paseo.setting import Interval, Setting, check_settings, setting, settings_of
from paseo.settings import table
from paseo.settings.parse import with_settings
from paseo.settings.presets import known_models, presets

DOCS = Path(__file__).parents[2] / "docs"
ALL = [
    pytest.param(m.default, s, id=f"{m.name}.{s.name}") for m in METHODS.values() for s in settings_of(m.cls)
]
NOT_JSON = (math.inf, -math.inf, math.nan)


@pytest.mark.parametrize(("sampler", "declared"), ALL)
def test_every_field_is_declared(sampler: Any, declared: Setting) -> None:
    assert declared.words
    assert declared.kind != "other"
    assert (declared.range is not None) == (declared.kind in ("whole number", "number", "numbers"))
    assert declared.allows(declared.default)


@pytest.mark.parametrize(("sampler", "declared"), ALL)
def test_what_json_cannot_hold_and_what_is_no_number_is_refused(sampler: Any, declared: Setting) -> None:
    wrong: list[Any] = [
        *NOT_JSON,
        1e300,
        -1e300,
        10**9 + 1,
        10**400,
        10**5000,
        "x",
        "x" * 10**6,
        [],
        {},
        b"1",
    ]
    wrong += [0, 1, 1.0] if declared.kind == "switch" else [True, False]
    wrong = [w for w in wrong if w != []] if declared.kind == "names" else wrong  # none of them is a value
    wrong += [1.5, 3.0] if declared.kind == "whole number" else []
    wrong += [] if declared.optional else [None]
    for value in wrong:
        with pytest.raises(BadInput, match=declared.name):
            replace(sampler, **{declared.name: value})


@pytest.mark.parametrize(("sampler", "declared"), ALL)
def test_the_command_line_refuses_them_too(sampler: Any, declared: Setting) -> None:
    for text in ("inf", "-inf", "nan", "1e400", "Infinity", "NaN", "9" * 5000, "", "\x00"):
        if declared.kind == "names" and not text:
            continue  # none of them is a value
        with pytest.raises(BadInput):
            with_settings(sampler, [f"{declared.name}={text}"])


@given(st.data())
def test_what_is_accepted_can_be_written_and_read_back(data: st.DataObject) -> None:
    sampler = data.draw(st.sampled_from([m.default for m in METHODS.values()]))
    declared = data.draw(st.sampled_from(settings_of(type(sampler))))
    numbers = st.one_of(st.floats(), st.integers(), st.floats(0, 1), st.integers(0, 100))
    value = data.draw(
        st.one_of(numbers, st.none(), st.booleans(), st.sampled_from(declared.choices or ("",)))
    )
    try:
        changed = replace(sampler, **{declared.name: value})
    except BadInput:
        return
    stored = json.loads(json.dumps(asdict(changed), allow_nan=False))
    assert type(sampler)(**stored) == changed or "betas" in stored  # a list where the default is a tuple


@pytest.mark.parametrize("name", METHODS)
def test_a_run_cannot_be_asked_for_more_steps_than_it_can_hold(name: str) -> None:
    with pytest.raises(BadInput, match=r"steps=1000000000 .* expected a whole number in \[\d, 10000\]"):
        replace(METHODS[name].default, steps=10**9)


def test_a_budget_without_end_is_spent_up_to_the_most_steps() -> None:
    assert within(PASEO(), 10**12).steps == 10_000


def test_every_preset_lies_within_the_declarations() -> None:
    for model in known_models():
        for methods in presets(model).values():
            for preset in methods.values():
                check_settings(preset.sampler)


def test_intervals() -> None:
    half = Interval.read("(0, 1]")
    assert half is not None
    assert [x in half for x in (0, 1e-9, 1, 1.1, math.nan)] == [False, True, True, False, False]
    assert Interval.read("") is None
    for bad in ("0, 1", "[0 1]", "[0, inf)", "[nan, 1]"):
        with pytest.raises(ValueError):
            Interval.read(bad)


def test_a_dataclass_of_ones_own() -> None:
    @dataclass(frozen=True)
    class Mine:
        count: int = setting(3, "n", "how many", "[1, 5]")
        plain: float = 0.5

        def __post_init__(self) -> None:
            check_settings(self)

    assert [s.label for s in settings_of(Mine)] == ["count  n", "plain"]
    with pytest.raises(BadInput, match=r"count=9 .* expected a whole number in \[1, 5\] \(n, how many\)"):
        Mine(count=9)
    with pytest.raises(BadInput, match="plain=inf"):  # not declared, but finite all the same
        Mine(plain=math.inf)


def test_the_methods_verb_prints_the_declarations() -> None:
    shown = CliRunner().invoke(app, ["methods", "paseo"])
    assert shown.exit_code == 0
    line = next(row for row in shown.stdout.splitlines() if row.startswith("relaxation"))
    assert all(word in line for word in ("ρ", "1.0", "a number in (0, 1]", "fraction of each correction"))
    as_json = CliRunner().invoke(app, ["methods", "silo", "--json", "-"])
    assert [row["name"] for row in json.loads(as_json.stdout)] == [
        s.name for s in settings_of(METHODS["silo"].cls)
    ]
    assert CliRunner().invoke(app, ["methods", "pseo"]).exit_code == 2


def test_the_page_of_the_docs_is_the_declarations() -> None:
    written = (DOCS / "all_settings.md").read_text(encoding="utf-8")
    assert written == table.page(), "run `python -m paseo.settings.table > docs/all_settings.md`"
