"""A Ray cluster that is started here: it listens on this machine alone, takes no orders without its token,
and a worker that dies leaves `--json -` as it is.
"""

from __future__ import annotations

import ipaddress
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from runs import planned
from tiny_model import make_model, make_pictures

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is an extra: pip install 'ray[data]>=2.52'"),
]
STRANGER = "import sys, ray; ray.init(address=sys.argv[1], log_to_driver=False); print(ray.nodes())"


def test_a_cluster_of_our_own(tmp_path: Path) -> None:
    model, photos = make_model(tmp_path / "tiny"), make_pictures(tmp_path / "in", 4)
    methods = [{"name": "paseo", "settings": {"steps": 1000}}]
    folder = planned(
        tmp_path / "run", model, photos, tasks=["sr4"], methods=methods, data={"path": str(photos)}
    )
    words = ["bench", "run", folder, "--engine", "ray", "--workers", 1, "--json", "-"]
    command = [sys.executable, "-m", "paseo", *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        awaited(lambda: named(child.pid, "ray::compute_unit"), child)
        seen = listening(child.pid)
        assert len(seen) > 3
        assert all(on_loopback(address) for _, address, _ in seen), seen
        while not killed(awaited(lambda: named(child.pid, "ray::compute_unit"), child)[0]):
            pass  # it had come to its end: the next one
        port = next(port for name, _, port in seen if "gcs_server" in name)
        assert not let_in(f"127.0.0.1:{port}")
        out, told = child.communicate(timeout=600)
    assert child.returncode == 0, told
    assert json.loads(out)["done"] == 4


def awaited(look: Callable[[], list[Any]], child: subprocess.Popen[str]) -> list[Any]:
    deadline = time.monotonic() + 300
    while not (found := look()):
        assert child.poll() is None, "ended too early"
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return found


def killed(process: Any) -> bool:
    import psutil

    with suppress(psutil.NoSuchProcess):
        process.kill()
        return True
    return False


def named(parent: int, name: str) -> list[Any]:
    import psutil

    found = []
    for process in psutil.Process(parent).children(recursive=True):
        try:
            found += [process] if name in " ".join(process.cmdline()) else []
        except psutil.Error:
            continue
    return found


def listening(parent: int) -> list[tuple[str, str, int]]:
    """(process, address, port) of every socket that waits for others."""
    import psutil

    return [
        (process.name(), socket.laddr.ip, socket.laddr.port)
        for process in [psutil.Process(parent), *psutil.Process(parent).children(recursive=True)]
        for socket in process.net_connections("tcp")
        if socket.status == psutil.CONN_LISTEN
    ]


def on_loopback(text: str) -> bool:
    address = ipaddress.ip_address(text)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def let_in(address: str) -> bool:
    """Whether a stranger of this machine, without the token, is answered."""
    others = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")} | {"RAY_AUTH_MODE": "disabled"}
    command = [sys.executable, "-c", STRANGER, address]
    try:
        return subprocess.run(command, env=others, capture_output=True, timeout=120).returncode == 0
    except subprocess.TimeoutExpired:
        return False
