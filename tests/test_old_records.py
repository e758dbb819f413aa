"""Records that were made before there were recipes still give the same files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from paseo.apps.cli.replay import compared, recorded
from paseo.apps.loop import run_jobs
from paseo.base import ignore
from paseo.files import read_json
from paseo.recipe import Recipe

RECORDS = Path(__file__).parent / "data" / "records"
NAMES = ("sr4-paseo", "blur-silo", "jpeg-red-diff")


@pytest.mark.parametrize("name", NAMES)
def test_an_old_record_gives_the_same_picture(name: str, tmp_path: Path) -> None:
    """Byte for byte with the record's torch on its processor, within one level of 255 on others. Another torch
    rounds differently, and JPEG's own rounding makes more of it (31 dB was seen with 2.6).
    """
    sidecar = RECORDS / f"{name}.json"
    jobs, work = recorded(sidecar, [], tmp_path)
    outcome = run_jobs(jobs, lambda job, bar: work(job, ignore), verb="restore")
    assert outcome.code == 0
    then, now = (
        np.array(Image.open(p), dtype=int) for p in (RECORDS / f"{name}.png", tmp_path / f"{name}.png")
    )
    record = read_json(sidecar)
    if record["versions"]["torch"] != torch.__version__:
        assert np.square(then - now).mean() < 255**2 / 10**2.5  # 25 dB
        return
    assert np.abs(then - now).max() <= 1
    same_machine = torch.backends.cpu.get_cpu_capability() == "AVX512"
    if same_machine and record["threads"] == torch.get_num_threads():
        assert compared(sidecar, outcome)["identical"]


@pytest.mark.parametrize("name", NAMES)
def test_an_old_record_is_read_as_it_was_meant(name: str) -> None:
    recipe = Recipe.from_record(read_json(RECORDS / f"{name}.json"))
    assert (recipe.feather, recipe.keep_known, recipe.operator.kind) == (0, False, "model")
    again = Recipe.from_record(recipe.to_record())
    assert again == recipe
