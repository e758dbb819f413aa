"""The pictures of docs/what-happened.md: what each symptom looks like, and what is restored from it.

    python docs/figures/symptoms.py docs/images/what-happened.jpg

The package's own samples, 128 pixels of each at twice their size: as measured, as restored by the task that
stands beside it, one draw, and as they were.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import torch
from torch import Tensor

import paseo
from paseo.files import atomic
from paseo.images import read
from paseo.models import ROOT
from paseo.sheet import contact_sheet

SIDE, SHOWN = 128, 192
# what is seen, the sample, the task; the mask has none
SYMPTOMS = (
    ("squares and rims", "cat", "jpeg:12"),
    ("soft", "portrait", "blur:2"),
    ("moved", "coffee", "motion:9@30"),
    ("soft one way", "rocket", "blur:3x1@60"),
    ("small", "portrait", "sr:3"),
    ("grain", "coffee", "noise:0.08"),
    ("scratches", "portrait", ""),
    ("all of it", "rocket", "blur:1,sr:2,noise:0.02,jpeg:40"),
)
CORNERS = {"cat": (40, 60), "coffee": (40, 60), "portrait": (10, 70), "rocket": (60, 64)}


def sample(name: str) -> Tensor:
    """(3, 128, 128): the part that is shown."""
    top, left = CORNERS[name]
    return read(ROOT / "photos" / "samples" / f"{name}.jpg").rgb[:, top : top + SIDE, left : left + SIDE]


def scratches() -> Tensor:
    """(1, 128, 128): the hole, five lines across the picture."""
    y, x = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")
    places = ((10, 12), (25, 60), (-15, 80), (80, 30), (100, 95))  # degrees, and where along the side
    lines = []
    for degrees, place in places:
        across = x * math.cos(math.radians(degrees)) + y * math.sin(math.radians(degrees))
        lines.append((across - place).abs() < 1.2)
    return torch.stack(lines).any(0)[None].float()


def row(name: str, task: str) -> list[Tensor]:
    """As measured (and brought to its size), restored, original."""
    x = sample(name)
    if not task:
        hole = scratches()
        y = x * (1 - hole) + hole
        return [y, paseo.restore(y, mask=hole).images[0], x]
    known = paseo.task(task)
    y = known.measure(x[None], seeds=0)
    restored = paseo.restore(y, task=task, size=(SIDE, SIDE)).images[0]
    return [known.lift(2 * y - 1, (SIDE, SIDE))[0] / 2 + 0.5, restored, x]


def main(target: Path) -> None:
    cells = []
    for seen, name, task in SYMPTOMS:
        cells.append(row(name, task))
        print(f"{seen}: {task or 'a mask'}", flush=True)
    rows = [seen for seen, _, _ in SYMPTOMS]
    sheet = contact_sheet(cells, columns=("measured", "restored", "original"), rows=rows, side=SHOWN)
    with atomic(target) as file:
        sheet.save(file, "JPEG", quality=80)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "what-happened.jpg"))
