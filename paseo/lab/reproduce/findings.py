"""Statements of the paper, evaluated on measured figures; nothing about the outcome is written down
beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class PaperFinding:
    """A statement of the paper, its figures there and here, and whether it holds here."""

    statement: str
    paper: str
    here: str
    holds: bool

    def to_json(self) -> dict[str, str | bool]:
        return {"statement": self.statement, "paper": self.paper, "here": self.here, "holds": self.holds}

    def line(self) -> str:
        return (
            f"[{'yes' if self.holds else ' no'}] {self.statement}\n      paper {self.paper}; here {self.here}"
        )


def verdict(findings: Sequence[PaperFinding]) -> str:
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
