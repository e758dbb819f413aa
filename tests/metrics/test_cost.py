"""What a run costs: the clock, the peak of memory, the counter."""

from __future__ import annotations

import time
from importlib import import_module

import pytest
import torch

from paseo.base import Counted
from paseo.errors import BadInput
from paseo.metrics import Cost

cost_module = import_module("paseo.metrics.cost")
MB = 2**20


class Counter:
    nfe = 7


@pytest.fixture(params=["high-water mark", "watched"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "watched":
        monkeypatch.setattr(cost_module, "_reset_peak", lambda: False)
    elif not cost_module._reset_peak():
        pytest.skip("this system cannot reset the resident set's high-water mark")
    return request.param


def _hold(megabytes: int, seconds: float = 0.05) -> None:
    block = torch.ones(megabytes * MB, dtype=torch.uint8)
    time.sleep(seconds)  # the watcher looks every 5 ms
    assert block[0] == 1


def test_a_peak_is_seen_after_it_is_gone(way: str) -> None:
    with Cost() as cost:
        _hold(200)
    assert 190 * MB < cost.extra_bytes < 260 * MB
    assert cost.peak_bytes == cost.base_bytes + cost.extra_bytes
    with Cost() as after:
        pass
    assert after.extra_bytes < 50 * MB  # the earlier peak is not this one's


def test_an_inner_measurement_does_not_lose_the_outer_peak(way: str) -> None:
    with Cost() as outer:
        _hold(200)
        with Cost() as inner:
            _hold(40)
    assert outer.extra_bytes > 190 * MB
    assert inner.extra_bytes < 120 * MB


def test_seconds() -> None:
    with Cost() as cost:
        time.sleep(0.05)
    assert 0.05 <= cost.seconds < 5


def test_evaluations_are_the_counters_increase() -> None:
    counter, calls = Counter(), [3]
    with Cost(nfe=counter) as by_object, Cost(nfe=lambda: calls[0]) as by_function, Cost() as nobody:
        counter.nfe += 53
        calls[0] += 2
    assert (by_object.nfe, by_function.nfe, nobody.nfe) == (53, 2, None)
    with pytest.raises(BadInput, match="integer `nfe`"):
        Cost(nfe="many")


def test_a_counted_prior_is_a_counter() -> None:
    class Prior:
        schedule = None

        def x0(self, x: torch.Tensor, t: float) -> torch.Tensor:
            return x

    prior = Counted(Prior())  # ty: ignore[invalid-argument-type]
    prior.x0(torch.zeros(1), 0.5)
    with Cost(nfe=prior) as cost:
        prior.x0(torch.zeros(1), 0.5)
        prior.x0(torch.zeros(1), 0.4)
    assert cost.nfe == 2


def test_a_failed_run_is_measured_and_closed() -> None:
    with pytest.raises(ZeroDivisionError), Cost(nfe=Counter()) as cost:
        1 / 0  # noqa: B018
    assert cost.seconds > 0
    assert cost.nfe == 0
    assert Cost._open == []
