"""`paseo reproduce recall`: figures of exact draws, and what recall may cost in calibration."""

from __future__ import annotations

import pytest
import torch

from paseo.errors import BadInput
from paseo.lab.reproduce import recall_guided
from paseo.lab.reproduce.posterior_cases import SHAPE
from paseo.lab.reproduce.recall import RULES, STATISTICS, Options, operators, run, statistics
from paseo.noise import Noise
from paseo.priors.gaussian import Gaussian, GaussianPrior
from paseo.priors.posterior import posterior

R = 0.05


@pytest.mark.parametrize("name", ["mask", "blur", "matrix"])
def test_exact_draws_have_exact_figures(name: str) -> None:
    """12 truths with 30 draws each: 360·192 entries, of which at least 40 directions are independent."""
    prior, operator = GaussianPrior.natural(SHAPE), operators()[name]
    truths = prior.sample(Noise(range(12)))
    clean = operator(truths.float())
    law = posterior(prior, operator, clean + R * Noise(range(100, 112)).like(clean), R)
    assert isinstance(law, Gaussian)
    white = torch.randn(30, 12, *SHAPE, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    draws = torch.stack([law.mean + law.covariance.apply(torch.sqrt, w) for w in white], 1)
    found = statistics(law, prior, truths, draws.flatten(0, 1))
    assert found["mean_error"] < 0.05
    assert found["seen"] == pytest.approx(1.0, abs=0.03)
    assert found["hidden"] == pytest.approx(1.0, abs=0.03)
    assert found["coverage"] == pytest.approx(0.9, abs=0.01)
    assert found["spread"] == pytest.approx(1.0, abs=0.08)
    assert found["tv"] < 0.08


def test_a_row_for_every_operator_rule_and_size() -> None:
    result = run(Options(truths=2, draws=3, steps=6, recall="0,2"))
    assert len(result.rows()) == 3 * len(RULES) * 2
    assert all(set(STATISTICS) <= set(row) for row in result.rows())
    assert "matrix" in result.table()


def test_a_cooler_second_half_narrows_hidden_directions() -> None:
    def hidden(**settings: float) -> list[float]:
        o = Options(truths=2, draws=6, steps=10, recall="2", **settings)  # ty: ignore[invalid-argument-type]
        rows = (row for row in run(o).rows() if row["operator"] == "mask")
        return [row["hidden"] for row in rows if row["rule"].startswith("arc")]  # fresh: noise of its own

    kept, cooler = hidden(), hidden(late_noise=0.5)
    assert all(b < 0.9 * a for a, b in zip(kept, cooler, strict=True))
    assert hidden(recall_gain=1.3) != kept
    with pytest.raises(BadInput, match="late_noise"):
        hidden(late_noise=0.0)


def test_options_that_make_no_sense_are_refused() -> None:
    for bad in ({"recall": "four"}, {"r": 0.0}, {"schedule": "cosine"}, {"truths": 0}):
        with pytest.raises(BadInput):
            Options(**bad)  # ty: ignore[invalid-argument-type]


def test_guidance_does_not_undo_recall() -> None:
    """Four times the difference of two denoisers: pairs that answer backwards occur, and do no harm."""
    found = recall_guided.run(recall_guided.Options(truths=3, draws=6, guidance="1,4"))
    rows = {(r["operator"], r["guidance"], r["recall"]): r for r in found.rows()}
    assert rows["mask", 1.0, 4]["against"] == 0.0
    assert rows["mask", 4.0, 4]["against"] > 0.0
    for name in operators():
        plain, guided = rows[name, 1.0, 4], rows[name, 4.0, 4]
        assert guided["mean_error"] < plain["mean_error"] + 0.1  # without the rule 0.2 to 1.2 more
        assert guided["hidden"] == pytest.approx(plain["hidden"], rel=0.05)
    for bad in ({"guidance": "much"}, {"recall": 0}, {"draws": 1}):
        with pytest.raises(BadInput):
            recall_guided.Options(**bad)  # ty: ignore[invalid-argument-type]
