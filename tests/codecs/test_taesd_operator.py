"""A real operator in the real latent spaces of SD1.x and SD3, trained on tiny autoencoders and real
(synthetic) faces.

Takes minutes, and files that are not part of the project:
PASEO_TAESD_DIR   the original TAESD safetensors files
PASEO_FACES       a tar file or folder of faces, 128 pixels or more
"""

from __future__ import annotations

import os
import runpy
from pathlib import Path
from typing import Any

import pytest

WEIGHTS, FACES = os.environ.get("PASEO_TAESD_DIR", ""), os.environ.get("PASEO_FACES", "")
EXAMPLE = Path(__file__).parents[2] / "examples" / "train_taesd_operator.py"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.weights,
    pytest.mark.skipif(
        not (WEIGHTS and FACES),
        reason="set PASEO_TAESD_DIR to the TAESD files and PASEO_FACES to faces (a tar file or a folder)",
    ),
]


@pytest.mark.parametrize(("codec", "channels", "space"), [("taesd", 4, "sd1"), ("taesd3", 16, "sd3")])
def test_a_few_steps_teach_super_resolution(tmp_path: Path, codec: str, channels: int, space: str) -> None:
    from paseo.operators.store import load_operator

    train_and_check: Any = runpy.run_path(str(EXAMPLE))["train_and_check"]
    budget = {"steps": 150, "batch_size": 8, "measurements": 1, "limit": 96}
    check = train_and_check(Path(WEIGHTS), Path(FACES), tmp_path, codec=codec, quiet=True, **budget)
    print(check.table())
    spec = load_operator(tmp_path / "operator").spec
    assert (spec.channels, spec.latent_space, spec.degradation) == (channels, space, "sr4")
    mean = check.rows[0].mean
    assert mean.value_error < 0.65 * mean.do_nothing_error
    assert (
        mean.cosine > 0.25
    )  # ReLU networks: their derivative is rough, and so is the finite-difference reference
    assert mean.adjoint_error < 1e-4
