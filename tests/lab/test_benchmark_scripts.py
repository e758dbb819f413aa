"""The scripts beside the package: each says what it does and imports what there is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
SCRIPTS = sorted(p.name for p in FOLDER.glob("*.py") if "argparse.ArgumentParser(" in p.read_text("utf-8"))


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_explains_itself(name: str) -> None:
    done = subprocess.run(
        [sys.executable, name, "--help"], cwd=FOLDER, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "usage" in done.stdout.lower()
