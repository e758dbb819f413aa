"""PASEO's own figures, in README.md and in the model's card, from the rows kept in benchmarks/results.

    python benchmarks/figures.py        after benchmarks/page.py

Each table row keeps its name and the measurement's own LPIPS (`benchmarks/card.py`); LPIPS, PSNR and
consistency are the means of the run.
"""

from __future__ import annotations

import re
from pathlib import Path

from paseo.files import read_json, write_text

ROOT = Path(__file__).parent.parent
TITLES = {  # in README.md
    "sr4": "super-resolution ×4",
    "sr8": "super-resolution ×8",
    "blur": "Gaussian blur",
    "inpaint": "centre inpainting",
    "jpeg": "JPEG, quality 10",
}


def main() -> None:
    readme, card = ROOT / "README.md", ROOT / "paseo" / "models" / "faces-128" / "README.md"
    first, second = readme.read_text(encoding="utf-8"), card.read_text(encoding="utf-8")
    quality = read_json(ROOT / "benchmarks" / "results" / "main" / "quality.json")
    for task, title in TITLES.items():
        mean = {name: m["mean"] for name, m in quality["tasks"][task]["paseo"]["metrics"].items()}
        lpips, rest = mean["lpips"], f"{mean['psnr']:.1f} dB | {mean['consistency']:.3f} |"
        own = _number(first, rf"\| {re.escape(title)} \| ([\d.]+) \|")
        first = _row(first, title, f"| {title} | {own:.3f} | **{lpips:.3f}** | {rest}")
        second = _row(
            second, task, f"| {task} | {lpips:.3f} | {own:.3f} | {lpips / own:.2f} | {rest}", " dB "
        )
    write_text(readme, first)
    write_text(card, second)


def _number(text: str, pattern: str) -> float:
    found = re.search(pattern, text)
    assert found is not None, pattern
    return float(found[1])


def _row(text: str, name: str, row: str, holds: str = "**") -> str:
    """The text with the table's row of that name, and with that in it, replaced."""
    lines = text.splitlines(keepends=True)
    (at,) = (i for i, line in enumerate(lines) if line.startswith(f"| {name} |") and holds in line)
    return "".join([*lines[:at], row + "\n", *lines[at + 1 :]])


if __name__ == "__main__":
    main()
