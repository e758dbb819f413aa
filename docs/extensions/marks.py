"""Which lines of an algorithm a source file does: `# 19`, `# 6, 7` or `# 16 to 21` at the end of a code line.

Plain Python, so that the tests check it without Sphinx; `beside.py` makes a page of it.
"""

from __future__ import annotations

import io
import re
import textwrap
import tokenize

MARK = re.compile(r"# (\d+(?:, \d+| to \d+)*)$")


def marked(source: str) -> dict[str, list[str]]:
    """Mark → the statements that carry it, without indentation and mark, in the order of the file."""
    found: dict[str, list[str]] = {}
    start: int | None = None
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (
            tokenize.NEWLINE,
            tokenize.NL,
            tokenize.INDENT,
            tokenize.DEDENT,
            tokenize.ENDMARKER,
        ):
            start = None if token.type == tokenize.NEWLINE else start
        elif token.type == tokenize.COMMENT:
            mark = MARK.match(token.string)
            if mark and start is not None:
                code = "\n".join(lines[start - 1 : token.end[0]])
                found.setdefault(mark[1], []).append(
                    textwrap.dedent(code).removesuffix(token.string).rstrip()
                )
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
    return [f"no code line is marked '# {m}'" for m in sorted(table - code)] + [
        f"'# {m}' has no row" for m in sorted(code - table)
    ]


def table(source: str, content: list[str]) -> list[str]:
    """The page's Markdown."""
    code = marked(source)
    text = [
        "````{list-table}",
        ":header-rows: 1",
        ":class: beside",
        ":widths: 8 46 46",
        "",
        "* - Line",
        "  - Paper",
        "  - Code",
    ]
    for mark, _, paper, remark in rows(content):
        text += [f"* - {mark}", f"  - {paper}", *(["", f"    {remark}"] if remark else [])]
        block = "\n".join(code.get(mark, [])).splitlines()
        text += ["  - ```python", *(f"    {line}" for line in block), "    ```"] if block else ["  -"]
    return [*text, "````"]
