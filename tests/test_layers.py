"""Who may import whom: data moves left to right, and nothing later is imported by anything earlier.

The map is the one of the design; imports inside functions and under TYPE_CHECKING count as well.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "paseo"

NOUNS = {"base", "errors", "noise", "schedule", "linalg", "degrade", "codecs", "priors", "operators", "samplers", "metrics"}
FILES = {"files", "images", "sheet", "record"}
LIBRARY = NOUNS | FILES | {"restore", "presets", "models"}

MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "noise": set(),
    "linalg": set(),
    "metrics": {"errors"},
    "schedule": {"errors"},
    "base": {"noise", "schedule"},
    "files": {"errors"},  # whole or not at all
    "images": {"errors", "files"},  # files ↔ tensors in [0,1]
    "sheet": {"errors", "images"},  # contact sheets and standard-deviation maps
    "record": {"errors", "files"},  # the JSON beside every output
    "degrade": {"base", "errors"},
    "codecs": {"base", "errors", "noise"},
    "operators": {"base", "errors", "files", "linalg", "noise"},
    "priors": {"base", "errors", "files", "schedule"},
    "samplers": {"base", "linalg", "noise", "schedule", "errors"},  # never priors, codecs, degrade, metrics
    "restore": {"base", "noise", "errors", "images"},
    "presets": {"samplers", "schedule", "degrade", "errors"},
    "models": NOUNS - {"metrics", "samplers"},
    "train": LIBRARY,
    "bench": LIBRARY | {"train"},  # the data's parts
    "reproduce": LIBRARY | {"bench", "train"},
    "demo": LIBRARY,
    "pipeline": LIBRARY,
    "testing": set(),  # tiny random pipelines
    "commands": LIBRARY | {"train", "reproduce", "bench", "demo", "pipeline"},
    "ui": LIBRARY | {"commands"},  # the page calls what the command line calls
    "cli": {"commands", "errors", "ui"},
    "__init__": LIBRARY | {"pipeline"},  # the public names, loaded when used
    "__main__": {"cli"},
}


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_rooms(source: str) -> set[str]:
    """First component below `paseo` of every import; the bare package counts as `__init__`."""
    modules: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "paseo":
            modules.update(f"paseo.{alias.name}" if (PACKAGE / alias.name).exists() else "paseo" for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules.add(node.module)
    ours = [m.split(".") for m in modules if m == "paseo" or m.startswith("paseo.")]
    return {parts[1] if len(parts) > 1 else "__init__" for parts in ours}


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_follow_the_map(path: Path) -> None:
    here = room(path)
    assert here in MAY_IMPORT, f"{path.name} lives in {here!r}, which the map does not know; say what it may import."
    allowed = MAY_IMPORT[here] | {here}
    if here in {"commands", "cli"}:
        allowed |= {"__init__"}  # the version
    assert imported_rooms(path.read_text(encoding="utf-8")) <= allowed


def test_the_map_has_no_cycle() -> None:
    done: set[str] = set()
    while ready := {name for name, needs in MAY_IMPORT.items() if name not in done and needs <= done}:
        done |= ready
    assert done == set(MAY_IMPORT)


def test_a_forbidden_import_is_seen() -> None:
    assert imported_rooms("def f():\n    from paseo.metrics import psnr\n    import paseo.codecs.net\n") == {"metrics", "codecs"}
