"""Small benchmarks for tests, and what is compared between two runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from paseo.lab.bench.cells import CellStore
from paseo.lab.bench.config import load_config
from paseo.lab.bench.plan import make_plan, write

LIGHT = ["psnr", "ssim", "lpips"]  # without VGG16


def config_file(folder: Path, model: Path, photos: Path, **changes: Any) -> Path:
    """Two images, two tasks, three methods, a few steps each."""
    values: dict[str, Any] = {
        "name": "small",
        "model": str(model),
        "data": {"path": str(photos), "count": 2},
        "tasks": ["sr4", "inpaint"],
        "methods": [
            {"name": "paseo", "settings": {"steps": 4}},
            {"name": "ding", "settings": {"steps": 4}},
            {"name": "ldps", "settings": {"steps": 4}},
        ],
        "metrics": LIGHT,
        "features": False,
    }
    path = folder / "bench.yaml"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump({**values, **changes}))
    return path


def planned(folder: Path, model: Path, photos: Path, **changes: Any) -> Path:
    """A run's folder with its plan."""
    write(
        make_plan(
            load_config(config_file(folder.parent / f"{folder.name}-config", model, photos, **changes))
        ),
        folder,
    )
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """Every file that must not depend on how a run was carried out, by name."""
    files = (p for p in folder.rglob("*") if p.is_file() and not p.name.endswith((".cost.json", ".tmp")))
    return {str(p.relative_to(folder)): p.read_bytes() for p in files}


def store(folder: Path) -> CellStore:
    return CellStore(folder)
