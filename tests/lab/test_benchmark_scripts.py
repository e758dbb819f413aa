"""The scripts beside the package: each says what it does and imports what there is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from paseo.errors import BadInput
from paseo.operators.config import OperatorConfig
from paseo.operators.net import OperatorNet

FOLDER = Path(__file__).parents[2] / "benchmarks"
SCRIPTS = sorted(p.name for p in FOLDER.glob("*.py") if "argparse.ArgumentParser(" in p.read_text("utf-8"))


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_explains_itself(name: str) -> None:
    done = subprocess.run(
        [sys.executable, name, "--help"], cwd=FOLDER, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "usage" in done.stdout.lower()


def _operator(widths: tuple[int, ...] = (8, 8, 8), seed: int = 0, degradation: str = "jpeg") -> OperatorNet:
    torch.manual_seed(seed)
    return OperatorNet(OperatorConfig(4, degradation=degradation, widths=widths)).eval()


def test_a_blend_lies_on_the_line_through_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    from blend import blend

    a, b = _operator(seed=1).state_dict(), _operator(seed=2)
    back = blend(_operator(seed=1), b, -0.15)
    for name, value in back.state_dict().items():
        torch.testing.assert_close(value, 1.15 * a[name] - 0.15 * b.state_dict()[name])
    assert back.spec.training["blended"]["share"] == -0.15


@pytest.mark.parametrize(
    ("other", "share", "told"),
    [
        (_operator((8, 8, 16)), 0.5, "different networks"),
        (_operator(degradation="blur"), 0.5, "different degradations"),
        (_operator(), 3.0, "from -1 to 2"),
    ],
)
def test_what_cannot_be_blended(
    monkeypatch: pytest.MonkeyPatch, other: OperatorNet, share: float, told: str
) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    from blend import blend

    with pytest.raises(BadInput, match=told):
        blend(_operator(), other, share)
