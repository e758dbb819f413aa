"""Statements of the paper, evaluated on measured figures; nothing about the outcome is written down
beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence

from paseo.lab.reproduce.lincheck_paper import Finding

__all__ = ["Finding", "count", "span", "verdict"]


def verdict(findings: Sequence[Finding]) -> str:
    """One line: what holds at this scale, and what does not."""
    if not findings:
        return "Too little has been measured to say which of the paper's findings hold here."
    held, fallen = (
        [f.statement.rstrip(".") for f in findings if f.holds is wanted] for wanted in (True, False)
    )
    return f"Holds here: {'; '.join(held) or 'none'}. Does not hold here: {'; '.join(fallen) or 'none'}."


def count(hits: Sequence[bool]) -> str:
    return f"{sum(hits)} of {len(hits)} tasks"


def span(values: Sequence[float], digits: int = 3) -> str:
    return f"{min(values):.{digits}f} to {max(values):.{digits}f}"
