"""A real Ray cluster of two workers on this machine: the same bytes as one process, and a lost worker costs
nothing.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from runs import contents, planned

from paseo.cluster import RayOptions
from paseo.errors import BadInput
from paseo.lab.bench.run import run

pytestmark = [pytest.mark.slow]
TWO = RayOptions(workers=2)


@pytest.fixture(autouse=True)
def quiet_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    if find_spec("ray") is None:  # it must not be imported here: its token comes first
        pytest.skip("Ray is an extra: pip install 'ray[data]>=2.52'")
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")


def test_two_workers_give_the_same_bytes(tmp_path: Path, tiny: Path, photos: Path) -> None:
    one, two = (planned(tmp_path / name, tiny, photos) for name in ("one", "two"))
    run(one)
    outcome = run(two, engine="ray", ray_options=TWO)
    assert (outcome.done, outcome.failed) == (10, 0)
    assert contents(one) == contents(two)


def test_a_lost_worker_is_replaced(tmp_path: Path, tiny: Path, photos: Path) -> None:
    """Kill -9 the first Ray worker that computes; its unit is sent to another one."""
    methods = [{"name": "paseo", "settings": {"steps": 40, "inner_steps": 3}}]
    data = {"path": str(photos), "count": 4}
    one, two = (
        planned(tmp_path / name, tiny, photos, tasks=["sr4"], methods=methods, data=data)
        for name in ("one", "two")
    )
    killed: list[int] = []

    def kill_one_when_the_first_row_is_there() -> None:
        deadline = time.monotonic() + 300
        while not killed and time.monotonic() < deadline:
            if list(two.glob("cells/*/*/*.png")) and (busy := _computing(os.getpid())):
                os.kill(busy[0], signal.SIGKILL)
                killed.append(busy[0])
            time.sleep(0.05)

    watcher = threading.Thread(target=kill_one_when_the_first_row_is_there)
    watcher.start()
    outcome = run(two, engine="ray", ray_options=TWO)
    watcher.join()
    assert killed
    assert (outcome.done, outcome.failed) == (4, 0)
    run(one)
    assert contents(one) == contents(two)


def _computing(parent: int) -> list[int]:
    """Processes below this one that Ray has given a unit to; it names them after what they do."""
    import psutil

    found = []
    for process in psutil.Process(parent).children(recursive=True):
        try:
            if "ray::compute_unit" in " ".join(process.cmdline()):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def test_more_gpus_than_there_are(tmp_path: Path, tiny: Path, photos: Path) -> None:
    with pytest.raises(BadInput, match="GPU"):
        run(
            planned(tmp_path / "run", tiny, photos),
            engine="ray",
            ray_options=RayOptions(workers=1, gpus=64.0),
        )
