"""`paseo reproduce posterior`: the statistics against laws that are known, the rows, the reasons."""

from __future__ import annotations

import json
import math

import pytest
import torch

from paseo.errors import BadInput
from paseo.lab.reproduce.posterior import (
    NOTHING_TO_TUNE,
    SETTINGS,
    Options,
    method_named,
    run,
    statistics,
    trial_values,
)
from paseo.lab.reproduce.posterior_cases import SHAPE, cases
from paseo.noise import Noise
from paseo.samplers import METHODS

CASES = {case.name: case for case in cases("flow")}
D = 3 * 8 * 8


def exact_draws(name: str, count: int) -> tuple[torch.Tensor, object]:
    case = CASES[name]
    target = case.target(case.measure(3))
    return target.law.sample(Noise(list(range(count)))).flatten(1).double(), target


@pytest.mark.parametrize("name", CASES)
def test_exact_draws_have_exact_figures(name: str) -> None:
    """N draws: a mean is off by √(trace/N), a spread by at most √(1/2N) per direction, a coverage by
    √(0.09/N).
    """
    count = 600
    draws, target = exact_draws(name, count)
    found = statistics(target, draws, CASES[name])
    floor = math.sqrt(float(target.covariance.trace()) / count) / float((target.mean).norm())
    assert found["mean_error"] < 3 * floor
    assert abs(found["spread_hidden"] - 1) < 4 / math.sqrt(2 * count)
    assert abs(found["coverage"] - 0.9) < 4 * math.sqrt(0.09 / count) + (
        0.03 if name == "mixture" else 0
    )  # not Gaussian there
    assert found["distance"] < 2 * math.sqrt(1.5 / count) + (0.05 if name == "mixture" else 0)
    if name == "mixture":
        assert found["modes"] < 4 * math.sqrt(0.25 / count)


def test_figures_see_what_is_wrong() -> None:
    draws, target = exact_draws("mask", 400)
    mean = target.mean
    narrow = statistics(target, mean + 0.5 * (draws - mean), CASES["mask"])
    assert narrow["spread_hidden"] == pytest.approx(0.5, rel=0.1)
    assert narrow["coverage"] > 0.97
    shifted = statistics(target, draws + mean, CASES["mask"])
    assert shifted["mean_error"] == pytest.approx(1.0, rel=0.05)


def test_the_mixture_is_ambiguous_on_purpose() -> None:
    """Two modes agree on what is seen: the measurement leaves both, with the odds of the prior."""
    case = CASES["mixture"]
    law = case.target(case.measure(0)).law
    kept = sorted((float(w) for w in law.weights if w > 1e-3), reverse=True)
    assert kept == pytest.approx([0.7, 0.3], abs=0.01)


def test_rows_cover_methods_with_figures_or_reasons(tmp_path) -> None:  # type: ignore[no-untyped-def]
    options = Options(draws=6, measurements=1, trials=2, trial_draws=3, methods="paseo,ding,ldps,dds")
    result = run(options)
    rows = result.rows()
    assert [r["method"] for r in rows[:5]] == ["exact", "paseo", "ding", "ldps", "dds"]
    json.dumps(rows, allow_nan=False)
    by = {(r["case"], r["method"]): r for r in rows}
    assert by["mask", "paseo"]["nfe"] == 53
    assert by["mask", "ldps"]["nfe"] == by["mask", "ding"]["nfe"] == 79
    assert "mask" in by["blur", "ding"]["reason"]
    assert by["mask", "ldps"]["setting"]["guidance"] in (0.15, 0.6)
    assert "mixture" in result.table()
    assert result.plots(tmp_path)[0].stat().st_size > 1000


def test_every_method_has_settings_and_a_budget() -> None:
    assert set(METHODS) < set(SETTINGS)
    for name in SETTINGS:
        assert method_named(name).nfe in ({53} if name.startswith("paseo") else {78, 79})
    for name in set(SETTINGS) - NOTHING_TO_TUNE:
        field, values = trial_values(name, method_named(name), 3)
        assert field in SETTINGS[name]
        assert len(values) == 3
    assert SHAPE == (3, 8, 8)


@pytest.mark.parametrize(
    "wrong", [{"draws": 1}, {"schedule": "ve"}, {"methods": "paseo,nonsense"}, {"trials": 0}]
)
def test_bad_options_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(BadInput):
        Options(**wrong)
