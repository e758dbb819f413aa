"""Fixtures that several folders share: tiny random Stable Diffusion pipelines, in memory and on disk. No test
touches the network.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read when huggingface_hub is imported
os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")

os.environ.setdefault("MPLBACKEND", "Agg")

settings.register_profile(
    "steady", deadline=None, derandomize=True, print_blob=True
)  # busy machines; the same examples each time
settings.load_profile("steady")

FAMILIES = ("sd", "sd-v", "sdxl", "sd3", "sd3-no-t5")


@pytest.fixture(scope="session")
def tiny() -> Callable[[str], Any]:
    """tiny("sd3"): a loaded pipeline with random weights, made once. Do not change it."""
    from paseo.testing import tiny_pipeline

    made: dict[str, Any] = {}

    def get(family: str) -> Any:
        if family not in made:
            made[family] = tiny_pipeline(family)  # type: ignore[arg-type]
        return made[family]

    return get


@pytest.fixture(scope="session")
def tiny_folder(
    tiny: Callable[[str], Any], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """tiny_folder("sd3"): the same pipeline, saved as diffusers saves it. Do not change it."""
    root = tmp_path_factory.mktemp("tiny")

    def get(family: str) -> Path:
        if not (root / family).is_dir():
            tiny(family).save_pretrained(str(root / family))
        return root / family

    return get
