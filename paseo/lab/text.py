"""Rows of values as aligned text: the one table that every command of this room prints."""

from __future__ import annotations

from collections.abc import Sequence

Value = str | float | int | bool | None


def columns(header: Sequence[str], lines: Sequence[Sequence[Value]]) -> str:
    """Aligned text; numbers to the right."""
    body = [[_text(v) for v in line] for line in lines]
    widths = [max(len(row[i]) for row in [list(header), *body]) for i in range(len(header))]
    numeric = [all(not isinstance(line[i], str) for line in lines) for i in range(len(header))]
    rows = [list(header), ["-" * w for w in widths], *body]
    return "\n".join(
        "  ".join(
            c.rjust(w) if n else c.ljust(w) for c, w, n in zip(r, widths, numeric, strict=True)
        ).rstrip()
        for r in rows
    )


def _text(value: Value) -> str:
    if value is None:
        return "-"
    if not isinstance(value, float):
        return str(value)
    if value != 0 and not 1e-3 <= abs(value) < 1e4:
        return f"{value:.0e}"
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.4g}"
