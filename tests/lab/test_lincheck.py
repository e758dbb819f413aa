"""The check with exact operators: its statistics on cases with a known answer, its document, and what it
shows.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

from paseo import reproduce
from paseo.errors import BadInput
from paseo.lab.reproduce.calibration import BANDS, Evidence, band_energy, evidence
from paseo.lab.reproduce.lincheck import ANCHORS, OPERATORS, TRUTHS, LinCheck, Options, run
from paseo.lab.reproduce.lincheck_findings import SOLVES, findings

F64 = torch.float64


def white(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


def test_calibrated_draws() -> None:
    z = white(21, 4, 32, 32)
    found = evidence(z[1:], z[:1])
    spread, error = found.spread()
    assert abs(spread - 1) < 4 * error
    assert error < 0.02
    assert found.tv() < 0.03
    assert found.histogram().sum().item() == pytest.approx(1.0)
    assert found.ranks.shape == (4, 21)


def test_draws_that_vary_too_little_or_too_much() -> None:
    z = white(21, 4, 32, 32)
    narrow, wide = evidence(0.5 * z[1:], z[:1]), evidence(2.0 * z[1:], z[:1])
    assert narrow.spread()[0] == pytest.approx((2 * 0.25 / 1.25) ** 0.5, abs=0.02)
    assert wide.spread()[0] == pytest.approx((2 * 4 / 5) ** 0.5, abs=0.02)
    assert narrow.histogram()[0] > 2 / 21  # the truth falls outside
    assert wide.histogram()[0] < 0.5 / 21


def test_a_region_limits_distances_and_ranks() -> None:
    truth = torch.zeros(1, 2, 8, 8, dtype=F64)
    draws = white(5, 2, 8, 8)
    inside = torch.zeros(8, 8, dtype=torch.bool)
    inside[:2] = True
    spoilt = draws.clone()
    spoilt[..., 2:, :] += 100.0
    a, b = evidence(draws, truth, inside), evidence(spoilt, truth, inside)
    assert torch.equal(a.between, b.between)
    assert a.ranks.sum().item() == 2 * 16


def test_bands_hold_all_energy_once() -> None:
    z = white(1, 3, 32, 32)
    torch.testing.assert_close(band_energy(z).sum(-1), z.square().sum((-2, -1))[0])
    x = torch.arange(32, dtype=F64)
    wave = torch.cos(2 * torch.pi * 0.25 * x).expand(1, 1, 32, 32)  # 0.25 cycles per cell
    assert (band_energy(wave) > 1e-9).tolist() == [[False, True, False, False]]


def test_jackknife_agrees_with_the_scatter_of_repetitions() -> None:
    found = [evidence(white(11, 8, 8, 8, seed=s)[1:], white(11, 8, 8, 8, seed=s)[:1]) for s in range(40)]
    scatter = torch.tensor([f.spread()[0] for f in found]).std().item()
    predicted = sum(f.spread()[1] for f in found) / 40
    assert predicted == pytest.approx(scatter, rel=0.5)  # 40 repetitions know a deviation to 11 %


def test_evidence_adds_up() -> None:
    a, b = (evidence(white(5, 2, 8, 8, seed=s), white(1, 2, 8, 8, seed=9)) for s in (0, 1))
    both = a + b
    assert isinstance(both, Evidence)
    assert both.between.shape == (4,)
    assert both.spread()[0] == pytest.approx(
        ((a.between.sum() + b.between.sum()) / (a.to_truth.sum() + b.to_truth.sum())).sqrt().item()
    )


def test_channels_of_a_learned_prior_are_one_unit() -> None:
    """Channels that are copies of each other must not make an error look smaller."""
    draws, truth = white(5, 1, 8, 8).expand(5, 4, 8, 8), white(1, 1, 8, 8, seed=9).expand(1, 4, 8, 8)
    apart, together = (evidence(draws, truth, independent_channels=i) for i in (True, False))
    assert (len(apart.between), len(together.between)) == (4, 1)
    assert together.spread()[0] == pytest.approx(apart.spread()[0])
    assert together.tv() == pytest.approx(apart.tv())
    assert apart.spread()[1] < 1e-6
    assert together.spread()[1] == float("inf")  # one image alone has no error


def test_a_mask_is_solved_by_one_iteration(small: LinCheck) -> None:
    rows = {(r.anchor, r.budget): r for r in small.pick("mask")}
    for anchor in ANCHORS:
        one, exact = rows[anchor, 1], rows[anchor, "exact"]
        assert one.spread() == pytest.approx(exact.spread(), rel=1e-4)
        assert one.band() == pytest.approx(exact.band(), rel=1e-4)


@pytest.fixture(scope="module")
def small() -> LinCheck:
    return run(Options(images=1, draws=6, channels=2, size=16, steps=7))


def test_every_row_is_there(small: LinCheck) -> None:
    rows = {(r["operator"], r["anchor"], r["cg_budget"], r["truth"]) for r in small.rows()}
    wanted = {(o, a, c, t) for o in OPERATORS for a in ANCHORS for c in SOLVES for t in TRUTHS}
    assert rows == wanted | {(o, "posterior", "exact", t) for o in OPERATORS for t in TRUTHS}
    published = [r for r in small.rows() if r["paper"]]
    assert len(published) == 3 + 2 * len(SOLVES)  # three anchors on the mask, two swept on the blur
    exact = next(r for r in published if (r["anchor"], r["cg_budget"]) == ("arc", "exact"))
    assert (exact["paper"]["finest"], exact["paper_comparison"]["finest"]) == (
        18.93,
        18.73,
    )  # 64 and 100 images


def test_findings_are_measured(small: LinCheck) -> None:
    found = findings(small.found)
    assert len(found) == 12
    assert all(f.here and f.statement for f in found)
    energy = next(f for f in found if f.statement.startswith("The exact solve puts too much energy"))
    exact = [r.band() for r in small.pick("blur") if r.budget == "exact" and r.anchor != "posterior"]
    assert f"{min(exact):.3f} to {max(exact):.3f}" in energy.here


def test_document_and_figures(small: LinCheck, tmp_path: Path) -> None:
    files = small.plots(tmp_path)
    assert [f.name for f in files] == ["lincheck-sweep.png", "lincheck-ranks.png"]
    assert all(f.read_bytes().startswith(b"\x89PNG") for f in files)
    document = json.loads(json.dumps({"rows": small.rows(), **small.notes()}, allow_nan=False))
    assert {"spread", "tv", "bands", "finest_energy", "standard_error", "rank_histogram", "paper"} <= set(
        document["rows"][0]
    )
    assert list(document["rows"][0]["bands"]) == list(BANDS)
    assert {"statement", "paper", "here", "holds"} == set(document["findings"][0])
    text = small.table()
    assert "blur, truths from the sampler" in text
    assert "What carries over from the paper" in text


def test_sizes() -> None:
    with pytest.raises(BadInput, match="size=7"):
        Options(size=7)
    with pytest.raises(BadInput, match="draws=1"):
        reproduce.run("lincheck", draws=1)


@pytest.mark.slow
def test_a_few_iterations_are_calibrated_and_the_exact_solve_is_not() -> None:
    """At 4 channels of 64×64: every anchor within 3 % for few iterations; the exact solve off, and too bright
    in the finest band.
    """
    result = run(Options(images=1, draws=16, channels=4, size=64))
    blur = {(r.anchor, r.budget): r for r in result.pick("blur")}
    for anchor in ANCHORS:
        for budget in (1, 2, 3, 5):
            row = blur[anchor, budget]
            assert abs(row.spread() - 1) < 0.03 + 3 * row.spread_error()
        exact = blur[anchor, "exact"]
        assert exact.spread() < 0.95
        assert exact.band() > 1.3
        assert abs(blur[anchor, 5].band() - 1) < 0.15
    for row in result.pick("mask"):
        assert abs(row.spread() - 1) < 0.03 + 3 * row.spread_error()
