"""What a visitor of the page does, in words the tests use. Screenshots go to out/ui.

PASEO_UI_TIMEOUT says how many seconds to wait for the page at most (240), for machines that do other things
as well.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
SHOTS = Path(os.environ.get("OUT", ROOT / "out")) / "ui"
SAMPLES = ROOT / "paseo" / "models" / "faces-128" / "samples"
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]
ENV = {
    **os.environ,
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "PYTHONUNBUFFERED": "1",
}
LONG = 1000 * int(os.environ.get("PASEO_UI_TIMEOUT", "240"))  # milliseconds


@dataclass(frozen=True)
class Served:
    """A page, and where its process may write, should not write, and must not call."""

    address: str
    temporary: Path
    forbidden: tuple[Path, ...]  # its home and its working folder
    calls: list[
        str
    ]  # requests that the process sent to a proxy, which it was told to use for all but this machine

    def litter(self) -> list[Path]:
        return [p for folder in self.forbidden for p in folder.rglob("*") if p.is_file()]


@dataclass
class Visit:
    """A browser's page, with all it asked for."""

    page: Any
    address: str
    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    pending: set[Any] = field(default_factory=set)  # answers of the server that the page waits for

    def open(self) -> Visit:
        self.page.goto(self.address)
        self.page.wait_for_selector("#run", timeout=LONG)
        return self

    def upload(self, path: Path, text: str) -> None:
        self.page.set_input_files("#picture input[type=file]", str(path))
        self.page.wait_for_selector(f"#about >> text={text}", timeout=LONG)

    def setting(self, name: str, value: str) -> None:
        """A box of the advanced drawer, by the setting's name."""
        box = self.page.locator(
            f"#advanced label:has(span:text-matches('^\\\\s*{name}(\\\\s|$)')) :is(input, textarea)"
        ).first
        if not box.is_visible():
            self.page.click("#advanced button")
        box.fill(value)

    def draws(self, n: int) -> None:
        self.page.locator("#draws input[type=number]").fill(str(n))
        self.page.locator("#draws input[type=number]").blur()

    def choose(self, selector: str, text: str) -> None:
        """An entry of a drop-down list."""
        self.page.click(f"{selector} input")
        self.page.get_by_role("option", name=text).click()
        self.settle()  # a choice refills other boxes, which would undo what is typed meanwhile

    def settle(self) -> None:
        """Until the server has answered all that the last event set off, one answer leading to the next."""
        quiet = 0
        while quiet < 3:
            self.page.wait_for_timeout(400)
            quiet = 0 if self.pending else quiet + 1

    def status(self, text: str, where: str = "#status") -> None:
        self.page.wait_for_selector(f"{where} >> text={text}", timeout=LONG)

    def paint(self, dx: float, dy: float) -> None:
        """A stroke across the middle of the mask's canvas."""
        canvas = self.page.locator("#mask canvas").first
        canvas.wait_for(timeout=LONG)
        self.page.wait_for_timeout(1500)  # the editor lays its picture out
        canvas.scroll_into_view_if_needed()
        box = canvas.bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        self.page.mouse.move(x - dx, y - dy)
        self.page.mouse.down()
        self.page.mouse.move(x + dx, y + dy, steps=10)
        self.page.mouse.up()
        self.page.wait_for_timeout(800)

    def sources(self, selector: str) -> list[str]:
        """File names of the pictures shown somewhere."""
        return [
            str(s).rsplit("/", 1)[-1]
            for s in self.page.eval_on_selector_all(f"{selector} img", "all => all.map(i => i.src)")
        ]

    def shot(self, name: str) -> None:
        SHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=str(SHOTS / f"{name}.png"), full_page=True)

    def download(self, selector: str, folder: Path) -> Path:
        with self.page.expect_download(timeout=LONG) as caught:
            self.page.click(selector)
        target = folder / caught.value.suggested_filename
        caught.value.save_as(str(target))
        return target

    @property
    def strangers(self) -> list[str]:
        """Requests to anything but the page's own server."""
        return [
            u for u in self.requests if not u.startswith((self.address, "data:", "blob:", "ws://127.0.0.1"))
        ]


@contextmanager
def visiting(browser: Any, served: Served, **options: Any) -> Iterator[Visit]:
    """A browser on the page. Afterwards: nothing was asked of any other host, and no script failed."""
    context = browser.new_context(accept_downloads=True, **options)
    context.set_default_timeout(LONG)
    visit = Visit(context.new_page(), served.address)
    visit.page.on("request", lambda r: visit.requests.append(r.url))
    for event, note in (
        ("request", visit.pending.add),
        ("requestfinished", visit.pending.discard),
        ("requestfailed", visit.pending.discard),
    ):
        visit.page.on(event, lambda r, note=note: note(r) if "/run/" in r.url else None)
    visit.page.on("pageerror", lambda e: visit.errors.append(str(e)))
    try:
        yield visit.open()
    finally:
        context.close()
    assert visit.strangers == [], "the page asked somebody else"
    assert served.calls == [], "the server asked somebody else"
    assert visit.errors == [], "a script of the page failed"


def command_line(*arguments: str | Path) -> None:
    """`paseo restore …`, as the page's users would type it."""
    subprocess.run(
        [sys.executable, "-m", "paseo", "restore", *map(str, arguments)],
        env=ENV,
        check=True,
        capture_output=True,
        timeout=LONG / 1000,
    )
