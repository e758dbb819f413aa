"""The walk of a request, as CONTRIBUTING tells it: every file is entered, and calls go down the list only."""

from __future__ import annotations

import re
import sys
import threading
from pathlib import Path
from types import FrameType

from PIL import Image
from typer.testing import CliRunner

from paseo.apps.cli.main import app

ROOT = Path(__file__).parents[1]
HOOKS = {  # functions that were passed down, and values that were
    ("samplers/paseo.py", "street.py"): "the watch of a run",
    ("samplers/paseo.py", "problem.py"): "the problem's codec, which pads and crops (`finish`)",
    ("apps/folder.py", "apps/runs.py"): "the jobs, one by one",
    ("apps/warn.py", "apps/job.py"): "what the job has prepared",
    ("apps/cli/restore.py", "apps/wishes.py"): "which of them the recipe takes",
}


def told() -> list[str]:
    """The files of the walk in CONTRIBUTING, in order."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    walk = text[text.index("## The walk of a request") : text.index("In Python `paseo/apps/python.py`")]
    return re.findall(r"`paseo/([\w/]+\.py)`", walk)


def test_the_walk_never_goes_back(tmp_path: Path) -> None:
    order = {name: position for position, name in enumerate(told())}
    entered: set[str] = set()
    up: set[tuple[str, str]] = set()

    def listed(frame: FrameType | None) -> str | None:
        """The file of the walk that a function belongs to; None for modules, classes and everything else."""
        if frame is None or not frame.f_code.co_flags & 1:
            return None
        path = Path(frame.f_code.co_filename)
        name = path.relative_to(ROOT / "paseo").as_posix() if path.is_relative_to(ROOT / "paseo") else ""
        return name if name in order else None

    def follow(frame: FrameType, event: str, _: object) -> None:
        here = listed(frame) if event == "call" else None
        if here is None:
            return
        entered.add(here)
        caller = frame.f_back
        while caller is not None and listed(caller) is None:
            caller = caller.f_back
        before = listed(caller)
        if before is not None and order[before] > order[here]:
            up.add((before, here))

    picture = tmp_path / "a.png"
    Image.linear_gradient("L").resize((16, 16)).convert("RGB").save(picture)
    words = ["restore", str(picture), "-o", str(tmp_path / "out"), "--task", "sr4", "--set", "steps=4"]
    threading.setprofile(follow)  # files are read and written in threads of their own
    sys.setprofile(follow)
    try:
        result = CliRunner().invoke(app, words)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert result.exit_code == 0, result.output
    assert up <= HOOKS.keys()
    assert entered == order.keys()
