"""The linear-Gaussian table: theory within standard errors, the paper's figures where they do not depend on
the instance.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from paseo import reproduce
from paseo.errors import BadInput
from paseo.lab.paper import published
from paseo.lab.reproduce.tractable import FIXED, FRESH, STATISTICS, Options, Tractable, problem, run

PAPER = published("tractable")


@pytest.fixture(scope="module")
def table() -> Tractable:
    return run(Options(draws=4000, fixed_draws=500, bridges=6, replicates=20))


def test_all_rows_of_the_paper_in_order(table: Tractable) -> None:
    assert [(row.group, row.rule) for row in table.found] == list(PAPER)


def test_rows_with_a_known_law_follow_it(table: Tractable) -> None:
    """56 statistics (not independent): the largest of them stays below four standard errors."""
    worst = {f"{row.group} {row.rule}": row.worst() for row in table.found}
    known = {name: value for name, value in worst.items() if value is not None}
    assert len(known) == len(PAPER) - 4  # truncated CG has no closed form
    assert max(known.values()) < 4.0, known


def test_exact_rules_have_the_posterior_s_spread(table: Tractable) -> None:
    exact = [row for row in table.found if row.exact]
    assert {row.rule for row in exact} == {"exact solve", "CG C=16", "β=1", "β=0.5", "β=0.25", "β=0"}
    for row in exact:
        assert row.measured["spread"] == pytest.approx(1.0, abs=0.01)
        assert row.measured["coverage"] == pytest.approx(0.9, abs=0.005)


def test_figures_that_hardly_depend_on_the_instance(table: Tractable) -> None:
    """Spread (and the mean error of ρ) are functions of the spectrum of H, which at d = 64 varies by about a
    percent.
    """
    for row in table.found:
        paper = PAPER[row.group, row.rule]
        assert row.measured["spread"] == pytest.approx(paper["spread"], abs=0.02)
        if row.rule.startswith("ρ"):
            assert row.measured["mean_error"] == pytest.approx(paper["mean_error"], abs=0.01)


def test_fewer_iterations_are_further_off(table: Tractable) -> None:
    by_rule = {row.rule: row.measured for row in table.found if row.group == "approximate"}
    errors = [by_rule[f"CG C={c}"]["mean_error"] for c in (1, 2, 4, 8)]
    assert errors == sorted(errors, reverse=True)


def test_fixed_noise_is_too_narrow_and_fresh_noise_is_not(table: Tractable) -> None:
    spreads = {(row.group, row.rule): row.measured["spread"] for row in table.found}
    assert spreads[FIXED, "β=0"] < spreads[FIXED, "β=0.25"] < spreads[FIXED, "β=0.5"] < 0.6
    assert spreads[FRESH, "β=0"] == pytest.approx(1.0, abs=0.01)


def test_h_has_entries_of_variance_one_over_d() -> None:
    H = problem(Options(), torch.Generator().manual_seed(0)).H.H
    assert H.shape == (32, 64)
    assert H.var().item() * 64 == pytest.approx(1.0, abs=4 * (2 / H.numel()) ** 0.5)


def test_the_registry_writes_rows_and_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "deep" / "out.json"
    small: dict[str, Any] = {
        "draws": 50,
        "fixed_draws": "40",
        "bridges": 2,
        "replicates": 2,
    }  # text is what a command line has
    result = reproduce.run("tractable", out=tmp_path / "figures", json=target, quick=True, **small)
    document = json.loads(target.read_text())
    assert document["experiment"] == "tractable"
    assert document["options"]["fixed_draws"] == 40
    assert len(document["rows"]) == len(PAPER)
    for row in document["rows"]:
        assert {"rule", "mean_error", "cov_error", "coverage", "spread", "paper"} <= set(row)
        assert set(row["paper"]) == set(STATISTICS)
    assert len({row["rule"] for row in document["rows"]}) == len(PAPER)
    assert (tmp_path / "figures" / "tractable.png").read_bytes().startswith(b"\x89PNG")
    assert "exact solve" in result.table()
    reproduce.run("tractable", json="-", **small)
    assert json.loads(capsys.readouterr().out)["rows"]


def test_what_cannot_be_reproduced(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no experiment 'table9'"):
        reproduce.run("table9")
    with pytest.raises(BadInput, match=r"has no setting 'draw'\. It has: d, q"):
        reproduce.run("tractable", draw=3)
    with pytest.raises(BadInput, match="draws=many is not a whole number"):
        reproduce.run("tractable", draws="many")
    with pytest.raises(BadInput, match="Sizes start at 2"):
        reproduce.run("tractable", draws=0)
    with pytest.raises(BadInput, match="is a folder"):
        reproduce.run("tractable", json=tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="is a file; figures need a folder"):
        reproduce.run("tractable", out=tmp_path / "file")
    with pytest.raises(BadInput, match="no folder that may be written"):
        reproduce.run("tractable", json=tmp_path / "file" / "out.json")


def test_options_are_typed() -> None:
    assert reproduce.options("tractable")["r"] == (float, 0.3)
    assert reproduce.options("lincheck")["images"] == (int, 2)
