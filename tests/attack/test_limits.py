"""Full disks, read-only disks and too little memory, for every verb that writes: one message, exit code 2, no
temporary file, and with more room the same command goes on to the bytes of a run that had it from the start.

The disks are small tmpfs mounts, which need root; where they cannot be had, these tests are skipped.
"""

from __future__ import annotations

import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from forker import Runner
from test_chaos import SIZES, contents, nothing_left
from tiny_model import make_model, make_pictures

pytestmark = pytest.mark.slow
Words = Callable[[Path], list[Any]]
MIB = 1 << 20
DIED = (-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS)


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    made = Runner(tmp_path_factory.mktemp("told") / "stderr")
    yield made
    made.close()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    if shutil.which("mount") is None or not mounted(folder, "size=4k"):
        pytest.skip("needs the right to mount")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def mounted(folder: Path, options: str) -> bool:
    words = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder]
    return subprocess.run(words, capture_output=True).returncode == 0


def room(folder: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", folder], check=True)


@pytest.fixture(scope="module")
def verbs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Words]:
    """Verb → its words for an output folder."""
    root = tmp_path_factory.mktemp("given")
    model, photos = make_model(root / "tiny"), make_pictures(root / "in", 3)
    operator = ["train", "operator", "--task", "sr4", "--model", model, "--data", photos, "--steps", 6]
    operator += [*SIZES, "--split", "train=0-1,validation=2-2"]
    tune = ["tune", "--task", "sr4", "--data", photos, "--part", "all", "--images", 2, "--model", model]
    tune += ["--metric", "psnr", "--only", "relaxation", "--trials", 3, "--set", "steps=4", "--device", "cpu"]
    restore = ["-m", model, "-t", "sr4", "--degrade", "--set", "steps=4", "--skip-existing"]
    return {
        "restore": lambda out: ["restore", photos, "-o", out, *restore],
        "degrade": lambda out: ["degrade", photos, "-o", out, "-t", "jpeg:30", "--skip-existing"],
        "train": lambda out: [*operator, "--out", out],
        "tune": lambda out: [*tune, "--study", out / "tune.db", "-o", out / "presets.json"],
    }


STEPS = {"restore": [4, 8, 16], "degrade": [4, 8], "train": [8, 400, 3000, 8000], "tune": [4, 64, 160]}  # KiB


@pytest.mark.parametrize("verb", STEPS)
def test_a_full_disk(verb: str, verbs: dict[str, Words], runner: Runner, disk: Path, tmp_path: Path) -> None:
    words = verbs[verb](disk / "x")
    for size in STEPS[verb]:
        room(disk, f"size={size}k")
        code, told = ended(runner, words)
        assert code in (0, 2), told
        assert "Traceback" not in told
        assert len([line for line in told.splitlines() if line.startswith("paseo: ")]) <= 1, told
        nothing_left(disk)
    room(disk, f"size={256 * MIB}")
    runner.unbroken(words)
    nothing_left(disk)
    if verb in ("restore", "degrade"):
        runner.unbroken(verbs[verb](tmp_path / "whole" / "x"))
        assert contents(disk / "x") == contents(tmp_path / "whole" / "x")


@pytest.mark.parametrize("verb", STEPS)
def test_a_read_only_disk(verb: str, verbs: dict[str, Words], runner: Runner, disk: Path) -> None:
    room(disk, "ro")
    code, told = ended(runner, verbs[verb](disk / "x"))
    room(disk, "rw")
    assert code == 2, told
    assert "Traceback" not in told
    assert "ead-only" in told or "readonly" in told
    assert not list(disk.iterdir())


@pytest.mark.parametrize("verb", STEPS)
def test_too_little_memory(verb: str, verbs: dict[str, Words], runner: Runner, tmp_path: Path) -> None:
    """An error of ours, or the death of a native library that does not look whether it was given memory
    (seen once, in a training); in both cases nothing is half-written, and the same command goes on.
    """
    for more in (2, 16, 64, 256):
        code, told = ended(runner, verbs[verb](tmp_path / "x"), more * MIB)
        assert code in (0, 1, 2, *DIED), told
        assert "Traceback" not in told, told
        nothing_left(tmp_path)
    runner.unbroken(verbs[verb](tmp_path / "x"))


@pytest.mark.parametrize("verb", ["restore", "train", "tune"])
def test_sigterm(verb: str, verbs: dict[str, Words], runner: Runner, tmp_path: Path) -> None:
    """As polite as Ctrl-C, whenever it comes; then the same command goes on."""
    seconds = runner.unbroken(verbs[verb](tmp_path / "whole"))
    for part in (0.3, 0.6):
        pid = runner.start(verbs[verb](tmp_path / "x"))
        code = runner.ended(part * seconds)
        if code is None:
            subprocess.run(["kill", str(pid)], check=False)
            code = runner.ended()
        assert code in (0, 130, 143), runner.told.read_text()
        assert "Traceback" not in runner.told.read_text()
        nothing_left(tmp_path)
    runner.unbroken(verbs[verb](tmp_path / "x"))


def ended(runner: Runner, words: list[Any], more: int | None = None) -> tuple[int, str]:
    """Exit code and stderr; `more` is the memory that it may take beyond what it has when it begins."""
    pid = runner.start(words)
    if more is not None:
        limit = virtual_size(pid) + more
        resource.prlimit(pid, resource.RLIMIT_AS, (limit, limit))
    code = runner.ended()
    assert code is not None
    return code, runner.told.read_text()


def virtual_size(pid: int) -> int:
    for _ in range(100):
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0])
        if pages:
            return pages * resource.getpagesize()
        time.sleep(0.01)
    raise AssertionError("no such process")
