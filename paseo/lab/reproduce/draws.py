"""Repeatability: eight draws of every image, from one measurement each (the paper's seeds 10 to 17, 50 images
there).

    ratio      mean RMS distance between two draws ÷ mean RMS distance to the truth; descriptive, not a
               calibration
    std        of a pixel over the draws, in [-1,1] units: whole, hole, visible
    LPIPS      mean over draws and images; ± the standard deviation over the draws of an image, averaged
               over images
    error      RMS of A(x̂) − A(x) in [-1,1] units: mean, and of the worst of the draws

The settings kept for PASEO, with its own weights for inpainting (the main results' rule, not the supplied
mask).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from paseo.base import HidesPixels
from paseo.degrade import task as find_task
from paseo.images import read, save_png
from paseo.lab.bench.aggregate import Bench
from paseo.lab.bench.cells import CellStore
from paseo.lab.paper import PRIORS, Figures, under
from paseo.lab.reproduce.findings import PaperFinding, span
from paseo.lab.reproduce.variants import Options, Study, carry_out, reference, tasks_of
from paseo.sheet import contact_sheet

__all__ = ["Options", "run"]

SEEDS = tuple(range(10, 18))
COLUMNS = ("ratio", "std", "std_hole", "std_visible", "lpips", "lpips_std", "error", "worst")


def run(o: Options) -> Study:
    tasks = tasks_of(o)
    seeds = SEEDS[:3] if o.steps else SEEDS
    method = {"name": "paseo", "per_task": {t: reference(o, t, **_own_weight(t)) for t in tasks}}
    bench, store = carry_out(o, "draws", [method], tasks, seeds=list(seeds), metrics=["lpips", "consistency"])
    here = {t: found for t in tasks if (found := figures(bench, store, t)) is not None}
    lines: list[list[Any]] = []
    for task in tasks:
        if task in here:
            lines.append([task, "here", *(here[task].get(c) for c in COLUMNS)])
        for prior in PRIORS:
            printed = under("draws", prior).get(task, {})
            lines.append([task, f"paper {prior}", *(printed.get(c) for c in COLUMNS)])
    header = ("task", "where", *COLUMNS)
    return Study(
        f"{len(seeds)} draws per image",
        o,
        bench,
        store,
        header,
        lines,
        findings(here),
        charts=lambda out: [sheet(bench, store, tasks, out)],
    )


def _own_weight(task: str) -> dict[str, object]:
    return {"weight": "soft"} if task == "inpaint" else {}


def draws_of(bench: Bench, store: CellStore, task: str) -> dict[str, list[dict[str, Any]]]:
    """image → its rows with their pictures, for images that have all draws."""
    found: dict[str, list[dict[str, Any]]] = {}
    for cell in bench.cells:
        if cell.task == task and (row := store.row(cell)) is not None:
            entry = {"row": row, "cell": cell, "path": store.path(cell, ".png")}
            found.setdefault(cell.image_sha256, []).append(entry)
    return {sha: entries for sha, entries in found.items() if len(entries) == len(bench.config.seeds)}


def figures(bench: Bench, store: CellStore, task: str) -> dict[str, float] | None:
    """Means over images; None where no image has all its draws."""
    each = [_one(store, task, sha, entries) for sha, entries in draws_of(bench, store, task).items()]
    return {name: statistics.fmean(e[name] for e in each) for name in each[0]} if each else None


def _one(store: CellStore, task: str, sha: str, entries: list[dict[str, Any]]) -> dict[str, float]:
    x = torch.stack([read(e["path"]).rgb for e in entries]) * 2 - 1  # (K,3,H,W) in [-1,1]
    truth = read(store.truth(entries[0]["cell"].image, sha)).rgb * 2 - 1
    std = x.var(0, unbiased=True).mean(0).sqrt()  # (H,W)
    lpips, error = ([e["row"]["metrics"][name] for e in entries] for name in ("lpips", "consistency"))
    found = {
        "ratio": pairwise_rms(x) / _rms(x - truth).mean().item(),
        "std": std.mean().item(),
        "lpips": statistics.fmean(lpips),
        "lpips_std": statistics.stdev(lpips),
        "error": statistics.fmean(error),
        "worst": max(error),
    }
    degradation = find_task(task).degradation
    if isinstance(degradation, HidesPixels):
        seen = degradation.observed_at(*std.shape)[0, 0] > 0.5
        found |= {"std_hole": std[~seen].mean().item(), "std_visible": std[seen].mean().item()}
    return found


def pairwise_rms(x: Tensor) -> float:
    """Mean RMS distance between two of the images (K,3,H,W)."""
    distances = [_rms(x[i + 1 :] - x[i]) for i in range(len(x) - 1)]
    return torch.cat(distances).mean().item()


def _rms(x: Tensor) -> Tensor:
    return x.flatten(1).square().mean(1).sqrt()


def findings(here: dict[str, dict[str, float]]) -> list[PaperFinding]:
    if not here:
        return []
    ratio, worst, noise = (_values(here, figure) for figure in (_ratio, _worst, _variation))
    printed = {f"{prior} {task}": row for prior in PRIORS for task, row in under("draws", prior).items()}
    found = [
        PaperFinding(
            "Draws differ from each other nearly as much as from the truth.",
            f"ratio {span(_values(printed, _ratio), 2)}",
            span(ratio, 2),
            min(ratio) > 0.7,
        ),
        PaperFinding(
            "The worst draw agrees with the measurement almost as well as the mean.",
            f"{span(_values(printed, _worst), 0)} % worse",
            f"{span(worst, 0)} % worse",
            max(worst) < 20,
        ),
        PaperFinding(
            "LPIPS varies little between draws of one image.",
            f"std {span(_values(printed, _variation), 0)} % of the mean",
            f"{span(noise, 0)} %",
            max(noise) < 25,
        ),
    ]
    if "std_hole" in here.get("inpaint", {}):
        times = _hole_share(here["inpaint"])
        paper = [_hole_share(under("draws", prior)["inpaint"]) for prior in PRIORS]
        found.append(
            PaperFinding(
                "The variation sits in the hole.",
                f"{span(paper, 0)} times the visible part's",
                f"{times:.1f} times",
                times > 3,
            )
        )
    return found


def _values(rows: Mapping[str, Figures], figure: Callable[[Figures], float]) -> list[float]:
    return [figure(row) for row in rows.values()]


def _ratio(row: Figures) -> float:
    return row["ratio"]


def _worst(row: Figures) -> float:
    """By how many per cent the worst draw's error exceeds the mean's."""
    return 100 * (row["worst"] / row["error"] - 1)


def _variation(row: Figures) -> float:
    """LPIPS' standard deviation in per cent of its mean."""
    return 100 * row["lpips_std"] / row["lpips"]


def _hole_share(row: Figures) -> float:
    return row["std_hole"] / row["std_visible"]


def sheet(bench: Bench, store: CellStore, tasks: list[str], out: Path) -> Path:
    """The first image of every task: truth, measurement, four draws."""
    cells, names = [], []
    for task in tasks:
        found = draws_of(bench, store, task)
        if found:
            sha, entries = next(iter(found.items()))
            name = entries[0]["cell"].image
            shown = [read(store.truth(name, sha)).rgb, read(store.measurement(task, name, sha)).rgb]
            cells.append([*shown, *(read(e["path"]).rgb for e in entries[:4])])
            names.append(task)
    return save_png(
        out / "draws.png",
        contact_sheet(
            cells, columns=["truth", "measurement", *(f"draw {k + 1}" for k in range(4))], rows=names
        ),
    )
