"""Quality against time as SVG text: a few dots, a logarithmic time axis, the front of methods that nothing
beats in both.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 460, 300
LEFT, RIGHT, TOP, BOTTOM = 62, 96, 28, 44
DOT, LETTER, LINE = 5.0, 6.6, 12.0  # radius of a dot, width of a letter, height of a label
COLOURS = (
    "#d1495b",
    "#2a78d6",
    "#3a7d44",
    "#8a5fbf",
    "#c98a1b",
    "#4f6d7a",
    "#b0413e",
    "#1b998b",
    "#7d7461",
    "#e07a9b",
)


@dataclass(frozen=True)
class Dot:
    """One method."""

    label: str
    x: float  # seconds
    y: float  # score
    colour: int | None = None  # which of COLOURS; None: by its position


def front(dots: Sequence[Dot], higher: bool) -> list[Dot]:
    """Dots that no other beats in time and score, fastest first."""
    kept: list[Dot] = []
    for dot in sorted(dots, key=lambda d: (d.x, -d.y if higher else d.y)):
        if not kept or (dot.y > kept[-1].y if higher else dot.y < kept[-1].y):
            kept.append(dot)
    return kept


def scatter(title: str, dots: Sequence[Dot], y_title: str, higher: bool) -> str:
    """An <svg> element."""
    dots = [d for d in dots if d.x > 0 and math.isfinite(d.x) and math.isfinite(d.y)]
    if not dots:
        return ""
    x_low, x_high = _wide([math.log10(d.x) for d in dots], 0.15)
    y_low, y_high = _wide([d.y for d in dots], 0.12)

    def at(x: float, y: float) -> tuple[float, float]:
        across = (x - x_low) / (x_high - x_low)
        up = (y - y_low) / (y_high - y_low)
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" '
        'font-family="sans-serif" font-size="11">'
    ]
    parts.append(
        f'<text x="{LEFT}" y="16" font-weight="bold" font-size="12" '
        f'fill="currentColor">{html.escape(title)}</text>'
    )
    for value in ticks(y_low, y_high):
        _, y = at(x_low, value)
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="currentColor" '
            'stroke-opacity="0.15"/>'
        )
        parts.append(
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="currentColor">{value:g}</text>'
        )
    for seconds in _time_ticks(x_low, x_high):
        x, _ = at(math.log10(seconds), y_low)
        parts.append(
            f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle" '
            f'fill="currentColor">{seconds:g}</text>'
        )
    line = " ".join("{:.1f},{:.1f}".format(*at(math.log10(d.x), d.y)) for d in front(dots, higher))
    parts.append(
        f'<polyline points="{line}" fill="none" stroke="currentColor" stroke-opacity="0.4" '
        'stroke-dasharray="4 3"/>'
    )
    where = [at(math.log10(d.x), d.y) for d in dots]
    for i, (d, (x, y), row) in enumerate(
        zip(dots, where, label_rows(where, [d.label for d in dots]), strict=True)
    ):
        colour = COLOURS[(i if d.colour is None else d.colour) % len(COLOURS)]
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{colour}"/>')
        if row != y:
            parts.append(
                f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{x + 6:.1f}" y2="{row:.1f}" stroke="{colour}" '
                'stroke-opacity="0.6"/>'
            )
        parts.append(f'<text x="{x + 7:.1f}" y="{row + 4:.1f}" fill="{colour}">{html.escape(d.label)}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(
        f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle" fill="currentColor">seconds per '
        "image</text>"
    )
    side = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(
        f'<text transform="translate(14 {side}) rotate(-90)" text-anchor="middle" '
        f'fill="currentColor">{html.escape(y_title)}</text>'
    )
    return "".join([*parts, "</svg>"])


def label_rows(where: Sequence[tuple[float, float]], labels: Sequence[str]) -> list[float]:
    """The height of each label, right of its dot: the dot's own, or the nearest where it covers no other
    label and no dot.
    """
    boxes = [(x - DOT, x + DOT, y, own) for own, (x, y) in enumerate(where)]  # left, right, middle, whose
    rows = []
    for own, ((x, y), label) in enumerate(zip(where, labels, strict=True)):
        right = x + DOT + LETTER * len(label)
        near = [
            (left, end, middle)
            for left, end, middle, whose in boxes
            if whose != own and left < right and x + DOT < end
        ]
        tries = [y + sign * k * LINE / 4 for k in range(60) for sign in (1, -1)]
        free = (
            t
            for t in tries
            if TOP <= t <= HEIGHT - BOTTOM and all(abs(t - middle) >= LINE for *_, middle in near)
        )
        rows.append(next(free, y))
        boxes.append((x + DOT, right, rows[-1], len(where)))
    return rows


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers between two bounds."""
    step = 10.0 ** math.floor(math.log10((high - low) / about))
    step *= next(m for m in (1, 2, 5, 10) if (high - low) / (m * step) <= about)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(k * step, 10) for k in range(first, last + 1)]


def _time_ticks(low: float, high: float) -> list[float]:
    candidates = [m * 10.0**e for e in range(math.floor(low) - 1, math.ceil(high) + 1) for m in (1, 2, 5)]
    return [c for c in candidates if low <= math.log10(c) <= high]


def _wide(values: Sequence[float], share: float) -> tuple[float, float]:
    low, high = min(values), max(values)
    margin = share * (high - low) or 0.1 * abs(high) or 0.1
    return low - margin, high + margin
