"""The declared settings of a method as rows: for `paseo methods NAME`, and for the page of the docs.

`python -m paseo.settings.table` prints that page, docs/all_settings.md; a test compares the two.
"""

from __future__ import annotations

from typing import Any

from paseo.samplers import METHODS
from paseo.setting import Setting, settings_of

HEAD = """# All settings

Every method's settings with their symbols, defaults and the ranges that are accepted; `tuned over` is where
`paseo tune` searches if nothing else is said. `paseo methods NAME` prints the same, `--set setting=value`
changes one. This page is made from the declarations in `paseo/samplers/` by `python -m paseo.settings.table`.
"""


def rows(cls: type[Any]) -> list[dict[str, Any]]:
    """One row per setting, as JSON values."""
    return [
        {
            "name": s.name,
            "symbol": s.symbol,
            "default": list(s.default) if isinstance(s.default, tuple) else s.default,
            "allowed": s.allowed,
            "tune": s.tune,
            "words": s.words,
        }
        for s in settings_of(cls)
    ]


def page() -> str:
    """All methods, in Markdown."""
    return "\n".join([HEAD, *(_section(m.name, m.title, settings_of(m.cls)) for m in METHODS.values())])


def _section(name: str, title: str, settings: tuple[Setting, ...]) -> str:
    lines = [f"## {title}", "", f"`--method {name}`", ""]
    lines += [
        "| setting | symbol | default | allowed | tuned over | what it is |",
        "|---|---|---|---|---|---|",
    ]
    for s in settings:
        tune = f"`{s.tune}`" if s.tune else ""
        lines.append(f"| `{s.name}` | {s.symbol} | `{s.default}` | {s.allowed} | {tune} | {s.words} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    print(page(), end="")
