"""Every figure that the paper published, typed in once: one JSON file per subject, beside this one.

    published("ffhq")["sd35", "sr4", "silo"]["lpips"]        0.303
    published("ofat")["rv51", "C=16"]["blur"]                0.067
    published("lincheck")["sweep", "blur", "arc", "3"]       {"spread": 1.03, "finest": 1.01, …}

A file says where its figures stand in the paper and under which conditions. PASEO's own rows of the two main
tables are the scores of its presets (`paseo/settings/paper.json`) and are added here. A test reads the
paper's LaTeX and compares every figure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from paseo.errors import BadInput
from paseo.settings.presets import presets

Key = tuple[str, ...]
Figures = Mapping[str, float]

TASKS = ("sr4", "sr8", "blur", "inpaint", "jpeg")
PRIORS = ("rv51", "sd35")
OURS = ("paseo", "paseo-dagger")
_HERE = Path(__file__).parent


def names() -> list[str]:
    """Subjects of which figures are kept."""
    return sorted(path.stem for path in _HERE.glob("*.json"))


@cache
def published(name: str) -> Mapping[Key, Figures]:
    """Key → column → figure, in the paper's order; a column that a row does not have is left out."""
    path = _HERE / f"{name}.json"
    if not path.is_file():
        raise BadInput(f"There are no published figures {name!r}; there are {', '.join(names())}.")
    found: dict[Key, Figures] = {}
    for block in json.loads(path.read_text(encoding="utf-8"))["blocks"]:
        for key, values in block["rows"]:
            pairs = zip(block["columns"], values, strict=True)
            found[tuple(key)] = {column: value for column, value in pairs if value is not None}
    return {**_ours(name), **found}


def under(name: str, *first: str) -> dict[str, Figures]:
    """The rows whose key is `first` and one more part, by that part: under("anchors", "rv51")["sr4"]."""
    depth = len(first)
    rows = published(name).items()
    return {key[depth]: row for key, row in rows if key[:depth] == first and len(key) == depth + 1}


def figure(name: str, *key: str, column: str) -> float | None:
    """One figure, or None where the paper has none."""
    return published(name).get(key, {}).get(column)


def _ours(name: str) -> dict[Key, Figures]:
    """PASEO's rows of a main table."""
    found: dict[Key, Figures] = {}
    for model, prior in (("ffhq/rv51", "rv51"), ("ffhq/sd35", "sd35")) if name == "ffhq" else ():
        for task, methods in presets(model).items():
            found |= {(prior, task, m): methods[m].score for m in OURS}
    for task, methods in presets("coco/sd35").items() if name == "coco" else ():
        for m in OURS:
            score = methods[m].score
            found["matched", task, m] = {column: v for column, v in score.items() if column != "psnr"}
            found["full", task, m] = {"nfe": methods[m].sampler.nfe, **score}
    return found
