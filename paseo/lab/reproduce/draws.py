"""Repeatability: eight draws of every image, from one measurement each (the paper's seeds 10 to 17, 50 images
there).

    ratio      mean RMS distance between two draws ÷ mean RMS distance to the truth; descriptive, not a calibration
    std        of a pixel over the draws, in [-1,1] units: whole, hole, visible
    LPIPS      mean over draws and images; ± the standard deviation over the draws of an image, averaged over images
    error      RMS of A(x̂) − A(x) in [-1,1] units: mean, and of the worst of the draws

The settings kept for PASEO, with its own weights for inpainting (the main results' rule, not the supplied
mask).
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from paseo.degrade import task as find_task
from paseo.images import read, save_png
from paseo.lab.bench.aggregate import Bench
from paseo.lab.bench.cells import Store
from paseo.lab.reproduce.findings import Finding, span
from paseo.lab.reproduce.variants import Options, Study, carry_out, reference, tasks_of
from paseo.sheet import contact_sheet

__all__ = ["Options", "run"]

SEEDS = tuple(range(10, 18))
COLUMNS = ("ratio", "std", "std_hole", "std_visible", "lpips", "lpips_std", "error", "worst")
PAPER: dict[str, dict[str, tuple[float | None, ...]]] = {  # in the order of COLUMNS
    "rv51": {
        "sr4": (0.89, 0.039, None, None, 0.137, 0.008, 0.047, 0.050),
        "sr8": (0.79, 0.039, None, None, 0.210, 0.012, 0.036, 0.039),
        "blur": (0.83, 0.037, None, None, 0.159, 0.009, 0.033, 0.036),
        "inpaint": (0.87, 0.070, 0.210, 0.024, 0.158, 0.014, 0.057, 0.058),
        "jpeg": (0.90, 0.065, None, None, 0.262, 0.015, 0.120, 0.128),
    },
    "sd35": {
        "sr4": (0.77, 0.030, None, None, 0.176, 0.009, 0.025, 0.026),
        "sr8": (0.78, 0.042, None, None, 0.323, 0.043, 0.022, 0.024),
        "blur": (0.78, 0.030, None, None, 0.196, 0.026, 0.023, 0.025),
        "inpaint": (0.86, 0.055, 0.192, 0.010, 0.131, 0.014, 0.035, 0.036),
        "jpeg": (1.02, 0.071, None, None, 0.354, 0.036, 0.093, 0.098),
    },
}


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
        lines += [[task, f"paper {m}", *rows[task]] for m, rows in PAPER.items() if task in rows]
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


def _own_weight(task: str) -> dict[str, Any]:
    return {"weight": "soft"} if task == "inpaint" else {}


def draws_of(bench: Bench, store: Store, task: str) -> dict[str, list[dict[str, Any]]]:
    """image → its rows with their pictures, for images that have all draws."""
    found: dict[str, list[dict[str, Any]]] = {}
    for cell in bench.cells:
        if cell.task == task and (row := store.row(cell)) is not None:
            entry = {"row": row, "cell": cell, "path": store.path(cell, ".png")}
            found.setdefault(cell.image_sha256, []).append(entry)
    return {sha: entries for sha, entries in found.items() if len(entries) == len(bench.config.seeds)}


def figures(bench: Bench, store: Store, task: str) -> dict[str, float] | None:
    """Means over images; None where no image has all its draws."""
    each = [_one(store, task, sha, entries) for sha, entries in draws_of(bench, store, task).items()]
    return {name: statistics.fmean(e[name] for e in each) for name in each[0]} if each else None


def _one(store: Store, task: str, sha: str, entries: list[dict[str, Any]]) -> dict[str, float]:
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
    observed_at = getattr(find_task(task).degradation, "observed_at", None)
    if observed_at is not None:
        seen = observed_at(*std.shape)[0, 0] > 0.5
        found |= {"std_hole": std[~seen].mean().item(), "std_visible": std[seen].mean().item()}
    return found


def pairwise_rms(x: Tensor) -> float:
    """Mean RMS distance between two of the images (K,3,H,W)."""
    distances = [_rms(x[i + 1 :] - x[i]) for i in range(len(x) - 1)]
    return torch.cat(distances).mean().item()


def _rms(x: Tensor) -> Tensor:
    return x.flatten(1).square().mean(1).sqrt()


def findings(here: dict[str, dict[str, float]]) -> list[Finding]:
    if not here:
        return []
    ratio = [row["ratio"] for row in here.values()]
    worst = [row["worst"] / row["error"] - 1 for row in here.values()]
    noise = [row["lpips_std"] / row["lpips"] for row in here.values()]
    found = [
        Finding(
            "Draws differ from each other nearly as much as from the truth.",
            "ratio 0.77 to 1.02",
            span(ratio, 2),
            min(ratio) > 0.7,
        ),
        Finding(
            "The worst draw agrees with the measurement almost as well as the mean.",
            "2 to 11 % worse",
            f"{100 * min(worst):.0f} to {100 * max(worst):.0f} % worse",
            max(worst) < 0.2,
        ),
        Finding(
            "LPIPS varies little between draws of one image.",
            "std 6 to 13 % of the mean",
            f"{100 * min(noise):.0f} to {100 * max(noise):.0f} %",
            max(noise) < 0.25,
        ),
    ]
    if "std_hole" in here.get("inpaint", {}):
        times = here["inpaint"]["std_hole"] / here["inpaint"]["std_visible"]
        found.append(
            Finding(
                "The variation sits in the hole.",
                "9 to 19 times the visible part's",
                f"{times:.1f} times",
                times > 3,
            )
        )
    return found


def sheet(bench: Bench, store: Store, tasks: list[str], out: Path) -> Path:
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
