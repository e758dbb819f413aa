"""Pictures, scores and files of a finished run, all from the files that were written: what is shown is what
is downloaded.

The page is given files, never pictures in memory: gradio would write the same picture again each time it is
handed out, and a browser that is reading it meanwhile gets half of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from PIL import Image
from torch import Tensor

from paseo.apps.measuring import degradation_for, measured
from paseo.apps.ui.form import Prepared
from paseo.base import Degradation
from paseo.files import read_json
from paseo.images import read, save_png, to_pil, to_signed, to_unit
from paseo.metrics import lpips, misfit, psnr, ssim, weights_available

SHOWN = 512  # pixels: smaller pictures are enlarged for the page by a whole factor; files stay as they are


@dataclass(frozen=True, eq=False)
class ShownRow:
    """One restored picture and how it scores; without a sharp original only the misfit is known."""

    name: str
    file: Path
    shown: Path  # the same, enlarged for the eye
    scores: dict[str, float]


@dataclass(frozen=True, eq=False)
class ShownResult:
    """All that the page shows of a run."""

    before: Path  # the measurement at the result's size; like all that is shown, enlarged
    rows: list[ShownRow]  # the draws, then their mean
    deviation: Path | None
    original: Path | None
    files: list[Path]  # restored PNGs first, the sidecar last
    nfe: int
    seconds: float
    sigma_y: float
    command: str
    said: str = ""  # what was read off the file
    faces: str = ""  # what became of its faces
    warnings: tuple[str, ...] = ()  # why it may not be trusted

    @property
    def sidecar(self) -> Path:
        return self.files[-1]


def collect(prepared: Prepared) -> ShownResult:
    """Read back what the run wrote, and score it."""
    plan, job = prepared.plan, prepared.job
    record = read_json(job.sidecar)
    inner, _ = degradation_for(plan.recipe, plan.mask, job, prepared.picture)
    y = (
        read(job.path("_measurement.png")).rgb[None]
        if plan.degrade
        else measured(prepared.picture, inner, plan.recipe.sigma_y, None)
    )
    sharp = prepared.picture.rgb[None] if plan.degrade else None
    files = [job.folder / entry["file"] for entry in record["outputs"]]
    restored = [f for f in files if not f.name.endswith(("_std.png", "_measurement.png"))]
    names = [*(f"seed {s}" for s in plan.seeds), "mean"]  # there is a mean where there are several
    shown = job.folder / "shown"
    rows = [_row(f, name, y, sharp, inner, shown) for name, f in zip(names, restored, strict=False)]
    std = next((f for f in files if f.name.endswith("_std.png")), None)
    extra = [plan.mask] if plan.mask is not None else []
    extra += [job.source] if prepared.fitted else []  # what the command line is to be given
    size = read(restored[0]).size
    return ShownResult(
        before=_view(shown / "measurement.png", to_unit(inner.lift(to_signed(y), size))[0]),
        rows=rows,
        deviation=_view(shown / "deviation.png", read(std).rgb) if std else None,
        original=_view(shown / "original.png", sharp[0]) if sharp is not None else None,
        files=[*files, *extra, job.sidecar],
        nfe=record["nfe"],
        seconds=record["seconds"],
        sigma_y=plan.recipe.sigma_y,
        command=prepared.command,
        said=plan.recipe.why[0] if plan.recipe.found is not None else "",
        faces=(record.get("faces") or {}).get("told", ""),
        warnings=tuple(record.get("warnings", ())),
    )


def _view(file: Path, x: Tensor) -> Path:
    return save_png(file, enlarged(to_pil(x)))


def _row(
    file: Path, name: str, y: Tensor, sharp: Tensor | None, degradation: Degradation, shown: Path
) -> ShownRow:
    x = read(file).rgb[None]
    scores: dict[str, float] = {}
    if sharp is not None:
        scores = {"PSNR": float(psnr(x, sharp)), "SSIM": float(ssim(x, sharp))}
        if weights_available() and min(x.shape[-2:]) >= 64:  # the network halves its input five times
            scores["LPIPS"] = float(lpips(x, sharp))
    scores["misfit"] = float(misfit(x, y, degradation))
    return ShownRow(name, file, _view(shown / file.name, x[0]), scores)


def enlarged(image: Image.Image) -> Image.Image:
    """For the eye: small pictures by a whole factor."""
    factor = max(1, SHOWN // max(image.size))
    return (
        image
        if factor == 1
        else image.resize((image.width * factor, image.height * factor), Image.Resampling.BICUBIC)
    )


def score_text(scores: dict[str, float]) -> dict[str, str]:
    """Scores as they are printed."""
    digits = {"PSNR": "{:.2f} dB", "SSIM": "{:.3f}", "LPIPS": "{:.3f}", "misfit": "{:.4f}"}
    return {name: digits[name].format(value) for name, value in scores.items()}
