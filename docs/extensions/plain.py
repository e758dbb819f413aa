"""Docstrings are plain text for a reader of the code; this gives them to autodoc as reStructuredText.

Indented blocks (formulas, code, tables) become literal blocks, `names` become literals, and what
reStructuredText would take for markup elsewhere is escaped.
"""

from __future__ import annotations

import re

from sphinx.application import Sphinx

_MARKUP = re.compile(r"([*|\\]|_(?=\W|$))")


def plain(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """`autodoc-process-docstring`: rewrite the lines in place, as Sphinx wants it."""
    found: list[str] = []
    inside = False  # an indented block
    for line in lines:
        indented = line.startswith((" ", "\t"))
        if indented and not inside:
            found += ["", "::", ""]
        elif inside and line and not indented:
            found.append("")
        inside = indented or (inside and not line)
        found.append(line if inside else _prose(line))
    lines[:] = [*found, ""]


def _prose(line: str) -> str:
    parts = line.split("`")
    if len(parts) % 2 == 0:  # a single backtick
        return _MARKUP.sub(r"\\\1", line).replace("`", "\\`")
    text = [_MARKUP.sub(r"\\\1", part) if i % 2 == 0 else f"\\ ``{part}``\\ " for i, part in enumerate(parts)]
    return "".join(text)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", plain)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
