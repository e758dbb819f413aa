"""Schedules, grids and η rules: the published numbers, and one state in three scalings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paseo.errors import BadInput
from paseo.schedule import (
    VE,
    VP,
    Cosine,
    Flow,
    OnLevels,
    Point,
    Schedule,
    SD3Flow,
    bridge_eta,
    grid,
    indices,
    shifted,
    with_eta,
)

SCHEDULES = [Flow(), Flow(3.0), SD3Flow(), VP(), Cosine(), VE()]


def test_sd3_table_applies_the_shift_twice() -> None:
    table = SD3Flow().table()
    assert len(table) == 1001
    assert table[0] == 0.0
    assert table[1] == pytest.approx(0.00893, abs=5e-6)
    assert table[999] == pytest.approx(0.99967, abs=5e-6)
    assert table[1000] == 1.0


def test_sd3_run_of_28_points() -> None:
    times = SD3Flow().times(28)
    assert len(times) == 28
    assert times[:3] == pytest.approx([0.9997, 0.9870, 0.9737], abs=5e-5)
    assert times[-3:] == pytest.approx([0.1976, 0.1083, 0.0], abs=5e-5)


@pytest.mark.parametrize(
    ("steps", "low", "high"), [(28, 0.0132, 75.1), (50, 0.0042, 132.6), (100, 0.0013, 246.5)]
)
def test_published_range_of_eta_z_on_sd3(steps: int, low: float, high: float) -> None:
    widths = [s.eta_z for s in grid(SD3Flow(), steps, "square")[1:-1]]
    assert min(widths) == pytest.approx(low, abs=5e-5)
    assert max(widths) == pytest.approx(high, abs=0.06)
    assert widths == sorted(widths, reverse=True)


def test_published_range_of_eta_z_on_stable_diffusion() -> None:
    widths = [s.eta_z for s in grid(VP(), 28, "ddpm")[1:-1]]
    assert min(widths) == pytest.approx(0.14, abs=0.005)
    assert max(widths) == pytest.approx(7.0, abs=0.05)


def test_stable_diffusion_levels() -> None:
    vp = VP()
    assert vp.point(0.0).sigma == 0.0  # the clean level is prepended
    assert vp.point(1.0).alpha ** 2 == pytest.approx(0.99915, abs=5e-6)
    assert vp.point(1000.0).alpha ** 2 == pytest.approx(0.00466, abs=5e-6)
    assert vp.point(1000.0).level == pytest.approx(14.6, abs=0.05)
    assert (vp.network_time(1000.0), vp.network_time(0.0), vp.network_time(5.0, published=True)) == (
        999.0,
        0.0,
        5.0,
    )


def test_published_network_time_of_sd3_is_the_next_noisier_level() -> None:
    flow = SD3Flow()
    table = flow.table()
    assert flow.network_time(table[0], published=True) == table[1]
    assert flow.network_time(table[500], published=True) == table[501]
    assert flow.network_time(table[500]) == table[500]


def test_ddpm_eta_is_the_posterior_of_the_vp_chain() -> None:
    for t, s in pairwise(grid(VP(), 28, "ddpm")[:-1]):
        a_t, a_s = t.alpha**2, s.alpha**2
        assert s.eta == pytest.approx(math.sqrt((1 - a_s) / (1 - a_t) * (1 - a_t / a_s)), rel=1e-9)


def test_the_two_wider_rules() -> None:
    t, s = Flow().point(0.5), Flow().point(0.3)
    assert bridge_eta(t, s, "square") == pytest.approx(0.3 * 0.3)
    assert bridge_eta(t, s, "sqrt") == pytest.approx(0.3 * math.sqrt(0.3))


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
@pytest.mark.parametrize("steps", [3, 28, 100])
def test_grids_go_from_noise_to_clean(schedule: Schedule, steps: int) -> None:
    points = grid(schedule, steps, "ddpm")
    assert len(points) == steps
    assert points[-1].sigma == 0.0
    assert all(0.0 <= s.eta <= s.sigma * (1 + 1e-12) for s in points)
    assert all(isinstance(v, float) for s in points for v in (s.t, s.alpha, s.sigma, s.eta))


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
@given(fraction=st.floats(0.001, 0.999))
def test_at_level_inverts_point(schedule: Schedule, fraction: float) -> None:
    times = schedule.times(28)
    t = times[-1] + fraction * (times[0] - times[-1])
    level = schedule.point(t).level
    assert schedule.at_level(level).level == pytest.approx(level, rel=1e-6)


def test_levels_beyond_a_schedule() -> None:
    assert Flow().at_level(math.inf).alpha == 0.0
    assert Cosine().at_level(math.inf).alpha == 0.0
    assert VE().at_level(math.inf).level == VE().ceiling
    assert VP().at_level(1e9).level == pytest.approx(VP().point(1000.0).level)


@pytest.mark.parametrize("target", [Flow(), Cosine(), VE()], ids=repr)
@pytest.mark.parametrize("source", [SD3Flow(), VP()], ids=repr)
def test_a_view_visits_the_same_levels_with_the_same_eta_z(source: Schedule, target: Schedule) -> None:
    ours, theirs = grid(source, 28, "ddpm"), grid(OnLevels(target, source), 28, "ddpm")
    for p, q in zip(ours[:-1], theirs[:-1], strict=True):
        assert q.level == pytest.approx(p.level, rel=1e-9)
        assert q.eta_z == pytest.approx(p.eta_z, rel=1e-6)


def test_shift_is_a_monotone_map_of_the_unit_interval() -> None:
    assert (shifted(0.0, 3.0), shifted(1.0, 3.0), shifted(0.5, 3.0)) == (0.0, 1.0, 0.75)


def test_indices_are_floored() -> None:
    assert indices(999, 28)[:3] == [0, 37, 74]
    assert indices(999, 28)[-1] == 999
    with pytest.raises(BadInput, match="steps=1001"):
        indices(999, 1001)


@pytest.mark.parametrize("steps", [2, 0, -1])
def test_too_few_steps(steps: int) -> None:
    with pytest.raises(BadInput, match=f"steps={steps}"):
        grid(Flow(), steps, "ddpm")


def test_unknown_eta_rule() -> None:
    with pytest.raises(BadInput, match="'max' is not one of ddpm, square, sqrt"):
        grid(Flow(), 5, "max")  # ty: ignore[invalid-argument-type]


def test_eta_above_sigma() -> None:
    odd = [Point(1.0, 0.0, 1.0), Point(0.5, -0.5, 0.5)]  # 1 − α > 1
    with pytest.raises(BadInput, match=r"η=0\.75 exceeds σ=0\.5 at t=0\.5.*eta='ddpm'"):
        with_eta(odd, "square")


def test_a_grid_that_does_not_get_cleaner() -> None:
    @dataclass(frozen=True)
    class Backwards(Flow):
        def times(self, steps: int) -> list[float]:
            return super().times(steps)[::-1]

    with pytest.raises(BadInput, match="from noise to clean"):
        grid(Backwards(), 5, "ddpm")
