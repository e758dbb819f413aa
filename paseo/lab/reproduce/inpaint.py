"""Inpainting: anchor × weighting, whole image and hole, and where the differences lie (the paper's case
study, 1000 images there).

Weighting: the supplied mask, weights estimated at every correction (soft), or estimated once, thresholded and
eroded (fixed). The kernel distance on VGG16 features stands where the paper has KID: compare within a column,
not with the paper's figures. The regional part puts the truth's pixels into one region at a time, so that
only the other region's errors remain.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from paseo.base import HidesPixels
from paseo.degrade import task as find_task
from paseo.images import read, save_png
from paseo.lab.bench.aggregate import LEAST_FOR_DISTANCE, Bench
from paseo.lab.bench.cells import CellStore
from paseo.lab.bench.grids import grid
from paseo.lab.paper import PRIORS, figure, under
from paseo.lab.reproduce.findings import PaperFinding
from paseo.lab.reproduce.variants import Options, Study, carry_out, mean, tasks_of, variant
from paseo.metrics import kernel_distance, vgg_features

__all__ = ["Options", "run"]

TASK = "inpaint"
VARIANTS = (
    ("denoiser", "mask"),
    ("arc", "mask"),
    ("arc", "soft"),
    ("arc", "fixed"),
    ("fresh", "mask"),
    ("fresh", "soft"),
    ("fresh", "fixed"),
)
PRINTED = ("psnr", "lpips", "lpips_hole", "kid", "seconds")
REGIONS = ("whole", "hole crop", "background only", "hole only")


def run(o: Options) -> Study:
    tasks_of(_only(o))
    methods = [
        variant(o, [TASK], f"{anchor}+{weight}", anchor=anchor, weight=weight) for anchor, weight in VARIANTS
    ]
    metrics = ["psnr", "lpips", "lpips_hole", "psnr_hole", "psnr_visible"]
    bench, store = carry_out(
        o, "inpaint", methods, [TASK], reference="arc+mask", metrics=metrics, features=True
    )
    lines: list[list[str | float | None]] = []
    for label in (m["label"] for m in methods):
        figures = [mean(bench, TASK, label, name) for name in ("psnr", "lpips", "lpips_hole")]
        lines.append([label, "here", *figures, _distance(bench, label), _seconds(bench, label)])
        for group in (*PRIORS, "coco"):
            if printed := under("inpaint", group).get(label):
                lines.append([label, f"paper {group}", *(printed[c] for c in PRINTED)])
    regions = {anchor: regional(bench, store, f"{anchor}+mask") for anchor in ("denoiser", "arc")}
    for anchor, row in regions.items():
        for name in REGIONS:
            if name in row:
                lines.append([f"{anchor}+mask", name, None, None, None, row[name], None])
            kid = figure("inpaint", "region", name, anchor, column="kid")
            lines.append([f"{anchor}+mask", f"{name}, paper rv51", None, None, None, kid, None])
    header = ("variant", "where", "PSNR", "LPIPS", "LPIPS hole", "distance ×10³", "s")
    found = findings(
        {
            m["label"]: (mean(bench, TASK, m["label"]), mean(bench, TASK, m["label"], "lpips_hole"))
            for m in methods
        },
        regions,
    )
    return Study(
        "Centre inpainting: anchor and weighting",
        o,
        bench,
        store,
        header,
        lines,
        found,
        {"regions": regions},
        lambda out: charts(bench, store, out),
    )


def _only(o: Options) -> Options:
    from dataclasses import replace

    return replace(o, tasks=TASK)


def _distance(bench: Bench, label: str) -> float | None:
    s = bench.summaries.get((TASK, label))
    return 1e3 * s.distances["kernel_vgg16"][0] if s is not None and "kernel_vgg16" in s.distances else None


def _seconds(bench: Bench, label: str) -> float | None:
    s = bench.summaries.get((TASK, label))
    return s.seconds("cpu") if s is not None else None


def regional(bench: Bench, store: CellStore, label: str) -> dict[str, float]:
    """Kernel distance ×10³ to the truths with one region at a time replaced by the truth's pixels."""
    cells = [c for c in bench.cells if c.method == label and store.done(c)]
    if len(cells) < LEAST_FOR_DISTANCE:
        return {}
    x = torch.stack([read(store.path(c, ".png")).rgb for c in cells])
    truth = torch.stack([read(store.truth(c.image, c.image_sha256)).rgb for c in cells])
    mask = find_task(TASK).degradation
    assert isinstance(mask, HidesPixels)
    seen = mask.observed_at(*x.shape[-2:])
    rows, columns = (torch.nonzero(seen[0, 0].amin(d) < 0.5).flatten() for d in (1, 0))
    top, bottom, left, right = int(rows[0]), int(rows[-1]) + 1, int(columns[0]), int(columns[-1]) + 1

    def distance(a: Tensor, b: Tensor) -> float:
        return 1e3 * kernel_distance(vgg_features(a), vgg_features(b)).value

    crop = (..., slice(top, bottom), slice(left, right))
    values = (
        distance(x, truth),
        distance(x[crop], truth[crop]),
        distance(seen * x + (1 - seen) * truth, truth),
        distance(seen * truth + (1 - seen) * x, truth),
    )
    return dict(zip(REGIONS, values, strict=True))


def findings(
    here: dict[str, tuple[float | None, float | None]], regions: dict[str, dict[str, float]]
) -> list[PaperFinding]:
    lpips = {label: v for label, (v, _) in here.items() if v is not None}
    if len(lpips) < len(here):
        return []
    soft, bad = lpips["arc+soft"] - lpips["arc+mask"], lpips["fresh+soft"] - lpips["fresh+mask"]
    repaired = lpips["fresh+soft"] - lpips["fresh+fixed"]
    gap = lpips["denoiser+mask"] - lpips["arc+mask"]
    found = [
        PaperFinding(
            "With the arc, soft weights come close to the supplied mask.",
            "+0.001 to +0.003 LPIPS",
            f"{soft:+.4f}",
            abs(soft) < 0.01,
        ),
        PaperFinding(
            "With the fresh anchor, soft weights fall behind the mask.",
            "+0.108 (RV)",
            f"{bad:+.4f}",
            bad > 0.01,
        ),
        PaperFinding(
            "Weights estimated once repair the fresh anchor.",
            "by 0.100 (RV)",
            f"by {repaired:.4f}",
            repaired > 0.01,
        ),
        PaperFinding(
            "The denoiser anchor with the mask is at least as good as the arc.",
            "by 0.008 (RV)",
            f"{gap:+.4f}",
            gap <= 0,
        ),
    ]
    if all(regions.values()):
        rest = [_from_the_hole(row) for row in regions.values()]
        shown = "; ".join(
            f"{a}: {row['background only']:.2f} and {row['hole only']:.2f}" for a, row in regions.items()
        )
        found.append(
            PaperFinding(
                "The distance comes from the hole, not from the background.",
                "about 0 and 2.9 to 17",
                shown,
                all(rest),
            )
        )
    return found


def _from_the_hole(region: Mapping[str, float]) -> bool:
    """An unbiased distance may be negative, which means zero: only a positive one can be the larger."""
    return region["hole only"] > 0 and region["background only"] < 0.5 * region["hole only"]


def charts(bench: Bench, store: CellStore, out: Path) -> list[Path]:
    sheet = grid(bench, store, TASK)
    return [save_png(out / "inpaint.png", sheet)] if sheet is not None else []
