"""Tables of a LaTeX source as rows of plain text, to compare published figures with what is stored."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

TASKS = ("sr4", "sr8", "blur", "inpaint", "jpeg")
WRAPPERS = ("textbf", "underline", "textsc", "emph", "mathbf", "shortstack", "text", "mathrm")
METHODS = {
    "PASEO": "paseo",
    "PASEO(arc)": "paseo",
    "PASEO^dagger": "paseo-dagger",
    "SILO": "silo",
    "ReSample": "resample",
    "PSLD": "psld",
    "GML-DPS": "gml-dps",
    "LDPS": "ldps",
    "DING": "ding",
    "DAPS": "daps",
    "RedDiff": "red-diff",
    "FlowDPS": "flow-dps",
    "FlowChef": "flow-chef",
    "PnP-Flow": "pnp-flow",
}


def source() -> str:
    """The paper's text: PASEO_PAPER, or shared/paper/paseo.tex beside the checkout."""
    beside = [p / "shared" / "paper" / "paseo.tex" for p in Path(__file__).resolve().parents]
    named = os.environ.get("PASEO_PAPER")
    found = next((p for p in ([Path(named)] if named else beside) if p.is_file()), None)
    if found is None:
        pytest.skip("The paper's LaTeX is not here: name it with PASEO_PAPER=paseo.tex.")
    return found.read_text(encoding="utf-8")


def table(tex: str, mark: str, number: int = 0) -> list[list[str]]:
    """The rows of the `number`-th tabular after a label or any other text."""
    start = tex.index(mark if mark.startswith("\\") else f"\\label{{{mark}}}")
    for _ in range(number + 1):
        start = tex.index("\\begin{tabular}", start) + 1
    body = tex[start : tex.index("\\end{tabular}", start)]
    body = re.sub(r"\\(toprule|midrule|bottomrule|addlinespace)(\[[^]]*\])?", "", body)
    body = re.sub(r"\\cmidrule(\([a-z]*\))?\{[^}]*\}", "", body)
    return [[plain(c) for c in expand(row)] for row in re.split(r"\\\\(?!\w)", body) if row.strip()]


def expand(row: str) -> list[str]:
    """Cells of a row; one that spans several columns is followed by empty ones."""
    cells: list[str] = []
    for cell in re.split(r"(?<!\\)&", row):
        wide = re.search(r"\\multicolumn\{(\d+)\}", cell)
        cells += [cell, *[""] * (int(wide.group(1)) - 1 if wide else 0)]
    return cells


def plain(cell: str) -> str:
    """Without markup and spaces: numbers, names, n/a."""
    text = re.sub(r"\\(cellcolor|rowcolor|fontsize)(\{[^{}]*\})+", "", cell)
    text = text.replace("\\paseo", "PASEO").replace("{=}", "=").replace("\\selectfont", "")
    text = re.sub(r"\\(scriptsize|phantom\{0\}|hspace\{[^}]*\})", "", text)
    for _ in range(4):
        text = re.sub(rf"\\({'|'.join(WRAPPERS)})\{{([^{{}}]*)\}}", r"\2", text)
        text = re.sub(r"\\rotatebox\[[^]]*\]\{90\}\{([^{}]*)\}", r"\1", text)
        text = re.sub(r"\\multirow\{[-\d.]+\}\{\*\}\{([^{}]*)\}", r"\1", text)
    text = re.sub(r"\\multicolumn\{\d+\}\{.*\}\{([^{}]*)\}", r"\1", text)
    return re.sub(r"[\s${}\\]", "", text)


def number(text: str) -> float | None:
    """The figure of a cell: 202k, 3e-07, +0.012, 17.7%, 1.216times; None for n/a and ---."""
    found = re.fullmatch(r"([-+]?\d*\.?\d+(?:e[-+]?\d+)?)(k|%|times)?", text)
    if not found:
        return None
    return float(found.group(1)) * {"k": 1000, "%": 0.01}.get(found.group(2) or "", 1)


def numbers(text: str) -> list[float]:
    """All figures of a piece of text."""
    return [float(n) for n in re.findall(r"(?<![\w.])[-+]?\d*\.\d+|(?<![\w.])[-+]?\d+", text)]


def task_of(text: str) -> str | None:
    """The task that a cell names."""
    names = {"SRtimes4": "sr4", "SRtimes8": "sr8", "lur": "blur", "npaint": "inpaint", "JPEG": "jpeg"}
    return next((task for part, task in names.items() if part in text), None)
