"""A page served by `paseo ui` in a process of its own, and Debian's Chromium to look at it."""

from __future__ import annotations

import re
import shutil
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from browsing import ENV, FLAGS, LONG, SAMPLES, Served, Visit, visiting


@contextmanager
def recording_proxy() -> Iterator[tuple[str, list[str]]]:
    """A proxy that refuses everything and remembers what it was asked for."""
    asked: list[str] = []

    class Refuse(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            asked.append(self.rfile.readline().decode(errors="replace").strip())
            self.wfile.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Refuse) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
        server.shutdown()


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """`paseo ui`, tempted by its surroundings to share itself, to report, and to write elsewhere."""
    pytest.importorskip("gradio", reason="the page needs gradio: pip install 'gradio>=6'")
    temporary, home, cwd, models = (
        tmp_path_factory.mktemp(name) for name in ("temporary", "home", "cwd", "models")
    )
    other = models / "blur-only"
    shutil.copytree(
        SAMPLES.parent,
        other,
        ignore=lambda folder, names: set(names) & {"sr4", "sr8", "inpaint", "jpeg", "family", "samples"},
    )
    with recording_proxy() as (proxy, calls):
        env = {
            **ENV,
            "TMPDIR": str(temporary),
            "HOME": str(home),
            "GRADIO_SHARE": "True",
            "GRADIO_ANALYTICS_ENABLED": "True",
        }
        env |= dict.fromkeys(
            ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), proxy
        )
        env |= {"no_proxy": "127.0.0.1,localhost", "NO_PROXY": "127.0.0.1,localhost"}
        command = [
            sys.executable,
            "-m",
            "paseo",
            "ui",
            "--port",
            "0",
            "--model",
            "faces-128",
            "--model",
            str(other),
        ]
        process = subprocess.Popen(command, env=env, cwd=cwd, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            found = re.search(r"http://127\.0\.0\.1:\d+/", line)
            assert found, f"The page did not start: {line!r}"
            yield Served(found[0], temporary, (home, cwd), calls)
        finally:
            process.terminate()
            process.wait(LONG / 1000)
        assert list(temporary.iterdir()) == [], "the temporary folder outlived the page"


@pytest.fixture(scope="session")
def address(served: Served) -> str:
    return served.address


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        yield (running := driver.chromium.launch(executable_path=chromium, args=FLAGS, timeout=LONG))
        running.close()


@pytest.fixture
def visit(browser: Any, served: Served) -> Iterator[Visit]:
    with visiting(browser, served, viewport={"width": 1280, "height": 1000}) as one:
        yield one


@pytest.fixture
def another(browser: Any, served: Served) -> Iterator[Visit]:
    """A second visitor at the same time."""
    with visiting(browser, served, viewport={"width": 1280, "height": 1000}) as two:
        yield two


@pytest.fixture
def phone(browser: Any, served: Served) -> Iterator[Visit]:
    with visiting(
        browser, served, viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True
    ) as small:
        yield small
