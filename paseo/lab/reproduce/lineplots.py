"""Panels of lines: one panel per setting, one line per task, levels along the axis."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from paseo.files import atomic


def line_figure(
    path: Path, panels: Mapping[str, Mapping[str, Mapping[str, float]]], y_title: str, log: bool = False
) -> Path:
    """panel → line → level → value."""
    from matplotlib.figure import Figure

    shown = {name: lines for name, lines in panels.items() if any(lines.values())}
    across = min(3, max(1, len(shown)))
    down = -(-max(1, len(shown)) // across)
    figure = Figure(figsize=(4 * across, 3 * down), layout="constrained")
    axes = figure.subplots(down, across, squeeze=False).flatten()
    for axis in axes[len(shown) :]:
        axis.set_visible(False)
    for axis, (name, lines) in zip(axes, shown.items(), strict=False):
        levels = list(dict.fromkeys(level for line in lines.values() for level in line))
        for label, line in lines.items():
            axis.plot(
                [levels.index(level) for level in line],
                list(line.values()),
                marker="o",
                markersize=3,
                label=label,
            )
        step = max(1, len(levels) // 8)
        axis.set_xticks(range(0, len(levels), step), levels[::step])
        axis.set_title(name)
        axis.grid(alpha=0.2)
        if log:
            axis.set_yscale("log")
    axes[0].set_ylabel(y_title)
    axes[0].legend(fontsize=8)
    with atomic(path) as file:
        figure.savefig(file, format="png", dpi=120, metadata={"Software": None})
    return path
