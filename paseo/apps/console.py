"""What all verbs share: the --json option, printing, progress bars."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paseo.files import write_text

if TYPE_CHECKING:
    from paseo.base import Step

JsonOption = Annotated[
    str | None,
    typer.Option("--json", metavar="FILE", help="Write the result as JSON to FILE, or to stdout with -."),
]


def emit(target: str | None, value: object, text: str = "") -> None:
    """The result of a verb: `text` for people, `value` as JSON where it was asked for. With - stdout holds
    JSON alone.
    """
    if target == "-":
        sys.stdout.write(told_json(value, indent=2) + "\n")
        return
    if target is not None:
        write_text(Path(target), told_json(value, indent=2) + "\n")
    if text:
        typer.echo(shown(text))


def told_json(value: Any, indent: int | None = None) -> str:
    """JSON that tells of any file: bytes of a name that are no text are written as JSON escapes."""
    return shown(json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False))


def shown(text: str) -> str:
    """Bytes of file names that are no text, spelled out."""
    return text.encode("utf-8", "backslashreplace").decode()


def say(text: str) -> None:
    """News for people, on stderr."""
    typer.echo(shown(text), err=True)


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Aligned columns; numbers to the right."""
    body = [[_cell(v) for v in row] for row in rows]
    widths = [max(len(line[i]) for line in [list(header), *body]) for i in range(len(header))]
    right = [bool(body) and all(_number(line[i]) for line in body) for i in range(len(header))]
    lines = [list(header), ["-" * w for w in widths], *body]
    return "\n".join(
        "  ".join(
            v.rjust(w) if r else v.ljust(w) for v, w, r in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    )


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text == "-"
    return True


def steps_on(bar: Any) -> Callable[[Step], None]:
    """A `watch` hook that shows the step beside a bar."""
    return lambda step: bar.set_postfix_str(f"step {step.index + 1}/{step.total}")


def progress(total: int, what: str, unit: str) -> Any:
    """A bar on stderr, silent where stderr is no terminal."""
    from tqdm import tqdm

    return tqdm(
        total=total, desc=what, unit=unit, file=sys.stderr, disable=None, leave=False, dynamic_ncols=True
    )
