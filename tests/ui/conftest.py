"""A page served by `paseo ui` in a process of its own, and Debian's Chromium to look at it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from browsing import ENV, FLAGS, Visit


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pytest.importorskip("gradio", reason="the page needs gradio: pip install 'paseo[ui]'")
    temporary = tmp_path_factory.mktemp("server")
    process = subprocess.Popen(
        [sys.executable, "-m", "paseo", "ui", "--port", "0"],
        env={**ENV, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+/", line)
        assert found, f"The page did not start: {line!r}"
        yield found[0]
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        yield (running := driver.chromium.launch(executable_path=chromium, args=FLAGS))
        running.close()


def _visit(browser: Any, address: str, **options: Any) -> Iterator[Visit]:
    context = browser.new_context(accept_downloads=True, **options)
    visit = Visit(context.new_page(), address)
    visit.page.on("request", lambda r: visit.requests.append(r.url))
    visit.page.on("pageerror", lambda e: visit.errors.append(str(e)))
    yield visit.open()
    context.close()
    assert visit.strangers == [], "the page asked somebody else"
    assert visit.errors == [], "a script of the page failed"


@pytest.fixture
def visit(browser: Any, address: str) -> Iterator[Visit]:
    """A desktop browser on the page. Afterwards: nothing was asked of any other host."""
    yield from _visit(browser, address, viewport={"width": 1280, "height": 1000})


@pytest.fixture
def phone(browser: Any, address: str) -> Iterator[Visit]:
    yield from _visit(browser, address, viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True)
