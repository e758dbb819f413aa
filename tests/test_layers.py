"""Who may import whom: data moves left to right, and nothing later is imported by anything earlier.

The map is the one of the design; imports inside functions and under TYPE_CHECKING count as well.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "paseo"

NOUNS = {
    "base",
    "errors",
    "noise",
    "schedule",
    "linalg",
    "degrade",
    "codecs",
    "priors",
    "operators",
    "samplers",
    "metrics",
    "units",
    "seeds",
    "lazy",
    "setting",
}
FILES = {"files", "formats", "images", "restored", "sheet", "record", "version", "trust", "lock", "weights"}
FILES |= {"cluster"}
LIBRARY = NOUNS | FILES | {"problem", "hub", "settings", "models", "recipe", "street", "memory", "windows"}
LIBRARY |= {"faces"}

MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "version": set(),
    "noise": set(),
    "lazy": set(),  # names that are imported when they are used
    "setting": {"errors"},  # one declaration per setting
    "linalg": set(),
    "trust": {"errors"},  # which code may be loaded
    "weights": {"errors", "files"},  # the one door for stored weights
    "lock": {"errors", "files"},  # one writer per folder
    "cluster": {"errors"},  # Ray: started and joined in one place
    "units": set(),  # [0,1] outside, [-1,1] inside
    "seeds": {"errors"},  # whatever is derived from a seed
    "metrics": {"errors"},
    "schedule": {"errors"},
    "windows": {"errors"},  # where windows lie on a canvas, and their weights
    "base": {"noise", "schedule", "windows"},
    "files": {"errors"},  # whole or not at all
    "images": {"errors", "files", "units"},  # files ↔ tensors in [0,1]
    "formats": {"errors", "files", "images"},  # PNG, JPEG, WebP, TIFF, with what came along
    "restored": {"errors", "files", "formats", "images", "record", "sheet", "windows"},  # a result
    "sheet": {"errors", "images"},  # contact sheets and standard-deviation maps
    "record": {"errors", "files", "version"},  # the JSON beside every output
    "degrade": {"base", "errors", "seeds", "trust", "units"},
    "codecs": {"base", "errors", "noise", "weights", "windows"},
    "operators": {"base", "errors", "files", "lazy", "linalg", "noise", "version"} | {"weights", "windows"},
    "priors": {"base", "errors", "files", "schedule", "weights", "windows"},
    "memory": {"base", "codecs", "errors", "operators", "priors", "windows"},  # what fits, in which windows
    "samplers": {"base", "linalg", "noise", "schedule", "setting", "errors"},  # never codecs, metrics …
    "problem": {
        "base",
        "degrade",
        "units",
    },  # the only place that lifts, pads, encodes and finds observed cells
    "models": (NOUNS - {"metrics", "samplers"}) | {"files"},
    "hub": (NOUNS - {"metrics", "samplers"})
    | {"files", "models", "memory", "weights"},  # everything that knows diffusers
    "settings": {"base", "noise", "samplers", "schedule", "setting", "degrade", "errors", "files", "hub"},
    # the only one that chooses
    "recipe": (NOUNS - {"metrics"}) | {"images", "record", "hub", "settings", "models", "problem"},
    "street": {"base", "degrade", "errors", "images", "memory", "noise", "problem", "seeds", "settings"}
    | {"restored", "units"},
    "faces": {"base", "degrade", "errors", "operators", "street", "units"},  # faces in photographs
    "train": LIBRARY,
    "lab": LIBRARY | {"train"},  # bench, reproduce, tune, cost
    "testing": set(),  # tiny random pipelines
    "apps": LIBRARY | {"train", "lab", "testing"},
    "__init__": LIBRARY | {"apps", "lazy"},  # the public names, loaded when used
    "__main__": {"apps"},
}
LAZY = {("models", "hub")}  # inside the function that needs it: a name may turn out to be a diffusers model


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_rooms(source: str) -> set[str]:
    """First component below `paseo` of every import; the bare package counts as `__init__`."""
    modules: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "paseo":
            modules.update(
                f"paseo.{alias.name}" if (PACKAGE / alias.name).exists() else "paseo" for alias in node.names
            )
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules.add(node.module)
    ours = [m.split(".") for m in modules if m == "paseo" or m.startswith("paseo.")]
    return {parts[1] if len(parts) > 1 else "__init__" for parts in ours}


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_follow_the_map(path: Path) -> None:
    here = room(path)
    assert here in MAY_IMPORT, (
        f"{path.name} lives in {here!r}, which the map does not know; say what it may import."
    )
    allowed = MAY_IMPORT[here] | {here} | {target for source, target in LAZY if source == here}
    if here == "apps":
        allowed |= {"__init__"}  # the version
    assert imported_rooms(path.read_text(encoding="utf-8")) <= allowed


def test_the_map_has_no_cycle() -> None:
    done: set[str] = set()
    while ready := {name for name, needs in MAY_IMPORT.items() if name not in done and needs <= done}:
        done |= ready
    assert done == set(MAY_IMPORT)


def test_a_forbidden_import_is_seen() -> None:
    assert imported_rooms("def f():\n    from paseo.metrics import psnr\n    import paseo.codecs.net\n") == {
        "metrics",
        "codecs",
    }
