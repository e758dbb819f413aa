"""`{beside} FILE`: an algorithm's lines beside the code lines that do them.

A code line says at its end which lines of the paper it does: `# 19`, `# 6, 7` or `# 16 to 21`. The
directive's content has one row for each such mark, `mark | what the paper says | remark`; the code is taken
from the file when the page is built. A mark without a row, and a row without a mark, is a warning, which
`make docs` makes an error. Rows that no code line does (the end of a loop) begin with a dash: `- 23 | end
for`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from marks import missing, table
from sphinx.util.docutils import SphinxDirective


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
        self.state.nested_parse(
            StringList(table(source, content), source=relative), self.content_offset, parent
        )
        return parent.children


def setup(app: Any) -> dict[str, Any]:
    app.add_directive("beside", Beside)
    return {"version": "1", "parallel_read_safe": True}
