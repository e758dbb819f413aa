"""The conditions a measured number carries: versions, threads, processor."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

from paseo.record import environment


def conditions() -> dict[str, Any]:
    """What a reader needs to judge or repeat a figure."""
    return {**environment(), "processor": processor(), "cores": os.cpu_count()}


def processor() -> str:
    """The name of the CPU, as far as the system tells."""
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
