"""What an experiment returns: rows beside the paper's, statements about them, figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paseo.lab.reproduce.findings import PaperFinding, verdict
from paseo.lab.text import Value, columns
from paseo.record import conditions

Charts = Callable[[Path], list[Path]]  # folder → the files written into it


def no_charts(out: Path) -> list[Path]:
    return []


@dataclass(eq=False)
class Report:
    """A table with its statements."""

    title: str
    header: Sequence[str]
    lines: Sequence[Sequence[Value]]
    findings: Sequence[PaperFinding] = ()
    measured_on: Mapping[str, object] = field(default_factory=dict)  # images, draws …
    more: Mapping[str, Any] = field(default_factory=dict)  # what else belongs into the JSON document
    charts: Charts = no_charts

    def rows(self) -> list[dict[str, Any]]:
        return [dict(zip(self.header, line, strict=True)) for line in self.lines]

    def notes(self) -> dict[str, Any]:
        found = [f.to_json() for f in self.findings]
        return {"conditions": {**conditions(), **self.measured_on}, "findings": found, **self.more}

    def table(self) -> str:
        said = [*(f.line() for f in self.findings), verdict(self.findings)]
        return "\n".join([self.title, "", columns(self.header, self.lines), "", *said])

    def plots(self, out: Path) -> list[Path]:
        return self.charts(out)
