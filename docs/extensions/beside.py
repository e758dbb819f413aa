"""`{beside} FILE`: an algorithm's lines beside the code lines that do them.

A code line says at its end which lines of the paper it does: `# 19`, `# 6, 7` or `# 16 to 21`. The directive's content
has one row for each such mark, `mark | what the paper says | remark`; the code is taken from the file when the page is
built. A mark without a row, and a row without a mark, is a warning, which `make docs` makes an error. Rows that no code
line does (the end of a loop) begin with a dash: `- 23 | end for`.
"""

from __future__ import annotations

import io
import re
import textwrap
import tokenize
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

MARK = re.compile(r"# (\d+(?:, \d+| to \d+)*)$")


def marked(source: str) -> dict[str, list[str]]:
    """Mark → the statements that carry it, without indentation and mark, in the order of the file."""
    found: dict[str, list[str]] = {}
    start: int | None = None
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER):
            start = None if token.type == tokenize.NEWLINE else start
        elif token.type == tokenize.COMMENT:
            mark = MARK.match(token.string)
            if mark and start is not None:
                code = "\n".join(lines[start - 1 : token.end[0]])
                found.setdefault(mark[1], []).append(textwrap.dedent(code).removesuffix(token.string).rstrip())
        elif start is None:
            start = token.start[0]
    return found


def rows(content: list[str]) -> list[tuple[str, bool, str, str]]:
    """(mark, does code do it, paper, remark) of every line of the directive."""
    parsed = []
    for line in content:
        mark, paper, remark = (part.strip() for part in (line + " | |").split(" | ", 3)[:3])
        parsed.append((mark.removeprefix("- "), not mark.startswith("- "), paper, remark.rstrip("| ")))
    return parsed


def missing(source: str, content: list[str]) -> list[str]:
    """What the table and the code do not agree on."""
    code, table = set(marked(source)), {mark for mark, done, *_ in rows(content) if done}
    return [f"no code line is marked '# {m}'" for m in sorted(table - code)] + [f"'# {m}' has no row" for m in sorted(code - table)]


def table(source: str, content: list[str]) -> list[str]:
    """The page's Markdown."""
    code = marked(source)
    text = ["````{list-table}", ":header-rows: 1", ":class: beside", ":widths: 8 46 46", "", "* - Line", "  - Paper", "  - Code"]
    for mark, _, paper, remark in rows(content):
        text += [f"* - {mark}", f"  - {paper}", *(["", f"    {remark}"] if remark else [])]
        block = "\n".join(code.get(mark, [])).splitlines()
        text += ["  - ```python", *(f"    {line}" for line in block), "    ```"] if block else ["  -"]
    return [*text, "````"]


class Beside(SphinxDirective):
    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        relative, path = self.env.relfn2path(self.arguments[0])
        self.env.note_dependency(relative)
        source = Path(path).read_text(encoding="utf-8")
        content = [line for line in self.content if line.strip()]
        for problem in missing(source, content):
            self.state_machine.reporter.warning(f"{relative}: {problem}", line=self.lineno)
        parent = nodes.container()
        self.state.nested_parse(StringList(table(source, content), source=relative), self.content_offset, parent)
        return parent.children


def setup(app: Any) -> dict[str, Any]:
    app.add_directive("beside", Beside)
    return {"version": "1", "parallel_read_safe": True}
