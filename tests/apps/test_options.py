"""Text from the command line becomes values of the right type, or an error that names it."""

from __future__ import annotations

import pytest

from paseo.apps.cli.options import parse_options
from paseo.apps.console import table
from paseo.errors import BadInput
from paseo.samplers import PASEO, REDDiff
from paseo.settings.parse import with_settings


def test_settings_take_the_types_of_the_fields() -> None:
    changed = with_settings(
        PASEO(),
        ["steps=9", "relaxation=0.5", "cg_budget=none", "anchor=fresh", "perturb-prior=off", "damping=1e-3"],
    )
    assert changed == PASEO(
        steps=9, relaxation=0.5, cg_budget=None, anchor="fresh", perturb_prior=False, damping=1e-3
    )
    assert with_settings(REDDiff(), ["betas=0.8,0.9"]).betas == (0.8, 0.9)
    with pytest.raises(BadInput, match="expected 2"):
        with_settings(REDDiff(), ["betas=0.8"])
    for bad in ("steps=1.5", "perturb_prior=maybe", "anchor=none", "cg_budget=x", "relaxation=", "steps=2"):
        with pytest.raises(BadInput):
            with_settings(PASEO(), [bad])


def test_options_come_from_a_dataclass(capsys: pytest.CaptureFixture[str]) -> None:
    config, target = parse_options(
        PASEO, ["--steps", "9", "--no-perturb-prior", "--anchor", "fresh", "--json", "-"], "x", "y"
    )
    assert config == PASEO(steps=9, perturb_prior=False, anchor="fresh")
    assert target == "-"
    with pytest.raises(SystemExit) as stop:
        parse_options(PASEO, ["--steps", "many"], "x", "y")
    assert stop.value.code == 2
    assert "steps=many is not a whole number" in capsys.readouterr().err


def test_tables_align() -> None:
    assert table(("name", "n"), [("a", 1), ("bcdef", 22), ("c", None)]).splitlines() == [
        "name    n",
        "-----  --",
        "a       1",
        "bcdef  22",
        "c       -",
    ]
