"""What a demo returns: rows for JSON, a table for people, one contact sheet."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean

from PIL import Image
from torch import Tensor

from paseo.images import save_png
from paseo.metrics import lpips, psnr, weights_available

MEASUREMENT = "measurement"  # the lifted measurement itself, as a method to beat


@dataclass(frozen=True)
class DemoRow:
    """One image restored once."""

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
    notes: dict[str, object] = field(default_factory=dict)

    def as_json(self) -> dict[str, object]:
        return {"schema_version": 1, **self.notes, "rows": [asdict(row) for row in self.rows]}

    def averages(self) -> list[dict[str, object]]:
        """Mean of each task and method, in the order of the rows."""
        groups: dict[tuple[str, str], list[DemoRow]] = {}
        for row in self.rows:
            groups.setdefault((row.task, row.method), []).append(row)
        return [
            {
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
            for (task, method), rows in groups.items()
        ]

    def save(self, path: Path) -> Path:
        return save_png(path, self.sheet)


def score(x: Tensor, reference: Tensor) -> list[tuple[float, float | None]]:
    """(PSNR, LPIPS) of each image of a batch in [0,1], after the rounding to 8 bit that a saved image has."""
    x, reference = ((v.clamp(0, 1) * 255).round() / 255 for v in (x, reference))
    decibels = (
        psnr(x, reference).clamp(max=100.0).tolist()
    )  # equal images would be infinite, which JSON cannot say
    distances = lpips(x, reference).tolist() if weights_available() else [None] * len(x)
    return list(zip(decibels, distances, strict=True))
