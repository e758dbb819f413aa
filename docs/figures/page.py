"""docs/images/page.jpg: `paseo ui` after a run with the tuned settings, as Chromium shows it.

python docs/figures/page.py docs/images/page.jpg
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

from paseo.apps.ui.server import running
from paseo.models import ROOT

PATIENCE = 1_200_000  # milliseconds: a busy machine


def main(target: Path, sample: str = "2000004.jpg", task: str = "Super-resolution ×8") -> None:
    with running() as address, sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"], timeout=PATIENCE
        )
        page = browser.new_page(viewport={"width": 1280, "height": 1260})
        page.set_default_timeout(PATIENCE)
        page.goto(address)
        page.set_input_files("#picture input[type=file]", str(ROOT / "faces-128/samples" / sample))
        page.wait_for_selector("#about >> text=128×128")
        page.click("#task input")
        page.get_by_role("option", name=task).click()
        page.wait_for_timeout(2000)  # the settings of the task are filled in
        page.click("#run")
        page.wait_for_selector("#status >> text=Done")
        page.wait_for_selector("#gallery img")
        page.wait_for_timeout(2000)  # pictures load
        page.evaluate("scrollTo(0, 0)")
        page.screenshot(path=str(target), type="jpeg", quality=88)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "page.jpg"))
