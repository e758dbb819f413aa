"""What a demo returns: rows for JSON, a table for people, one contact sheet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from PIL import Image
from torch import Tensor

from paseo.images import save_png
from paseo.metrics import lpips, psnr, weights_available

MEASUREMENT = "measurement"  # the lifted measurement itself, as a method to beat


@dataclass(frozen=True)
class DemoRow:
    """One image restored once."""

    model: str
    task: str
    method: str
    image: str
    seed: int | None
    psnr: float  # dB, of images in [0,1]
    lpips: float | None  # AlexNet, v0.1; None where the weights are not installed
    nfe: int
    seconds: float


@dataclass(frozen=True, eq=False)
class Demo:
    """All rows and the picture."""

    rows: list[DemoRow]
    sheet: Image.Image
    notes: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {"schema_version": 1, **self.notes, "rows": [asdict(row) for row in self.rows]}

    def averages(self) -> list[dict[str, Any]]:
        """Mean of each model, task and method, in the order of the rows."""
        groups: dict[tuple[str, str, str], list[DemoRow]] = {}
        for row in self.rows:
            groups.setdefault((row.model, row.task, row.method), []).append(row)
        return [
            {
                "model": model,
                "task": task,
                "method": method,
                "draws": len(rows),
                "psnr": fmean(r.psnr for r in rows),
                "lpips": fmean(r.lpips for r in rows if r.lpips is not None)
                if rows[0].lpips is not None
                else None,
                "nfe": rows[0].nfe,
                "seconds": fmean(r.seconds for r in rows),
            }
            for (model, task, method), rows in groups.items()
        ]

    def save(self, path: Path) -> Path:
        return save_png(path, self.sheet)


def joined(demos: Sequence[Demo]) -> Demo:
    """Several as one, their pictures below each other."""
    sheets = [demo.sheet for demo in demos]
    whole = Image.new("RGB", (max(s.width for s in sheets), sum(s.height for s in sheets)), "white")
    top = 0
    for part in sheets:
        whole.paste(part, (0, top))
        top += part.height
    models = {name: sums for demo in demos for name, sums in demo.notes["models"].items()}
    return Demo([row for demo in demos for row in demo.rows], whole, demos[0].notes | {"models": models})


def score(x: Tensor, reference: Tensor) -> list[tuple[float, float | None]]:
    """(PSNR, LPIPS) of each image of a batch in [0,1], after the rounding to 8 bit that a saved image has."""
    x, reference = ((v.clamp(0, 1) * 255).round() / 255 for v in (x, reference))
    decibels = (
        psnr(x, reference).clamp(max=100.0).tolist()
    )  # equal images would be infinite, which JSON cannot say
    distances = lpips(x, reference).tolist() if weights_available() else [None] * len(x)
    return list(zip(decibels, distances, strict=True))
