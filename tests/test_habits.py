"""Habits that a linter has no rule for: they keep the code readable for everybody."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "paseo"
FILES = sorted(PACKAGE.rglob("*.py"))

PROBES = 40  # calls of getattr and hasattr in the whole package
MAY_PROBE = {  # files that ask an object which is not ours, or a name that is only known when it runs
    "apps/pipeline/loaded.py": "parts of a diffusers pipeline",
    "apps/python.py": "a user's physics",
    "codecs/kl.py": "a diffusers autoencoder's config and accelerate's hook",
    "codecs/tiny.py": "a diffusers autoencoder's config",
    "degrade/custom.py": "a user's function or physics",
    "hub/device.py": "torch's own probes, which are not public",
    "hub/folder.py": "errors of the hub's client",
    "hub/parts.py": "a diffusers pipeline and classes named in its folder",
    "hub/pretrained.py": "a pipeline's name",
    "hub/sd.py": "a diffusers U-Net's config",
    "hub/text.py": "a diffusers class by name",
    "images.py": "a Pillow image",
    "lazy.py": "a module's name, when it is first used",
    "metrics/lpips.py": "numpy's constructor of arrays",
    "operators/reference.py": "a user's codec",
    "setting.py": "fields of a dataclass by name: `values_of`, for everybody",
    "settings/presets.py": "a sampler's class by the name in a file",
}


def chained(source: str) -> list[int]:
    """Lines with a conditional expression that is a branch of another."""
    outer = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.IfExp)]
    return [n.lineno for n in outer if isinstance(n.body, ast.IfExp) or isinstance(n.orelse, ast.IfExp)]


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_ternary_in_a_ternary(path: Path) -> None:
    assert not chained(path.read_text(encoding="utf-8"))


def test_a_chain_is_seen() -> None:
    assert chained("a = 1 if b else 2 if c else 3") == [1]
    assert chained("a = (1 if b else 2) if c else 3") == [1]
    assert not chained("a = [1 if b else 2 for b in c] if c else f(1 if d else 2)")


def probes(source: str) -> int:
    """Calls of getattr and hasattr."""
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return sum(isinstance(c.func, ast.Name) and c.func.id in ("getattr", "hasattr") for c in calls)


def test_what_an_object_can_do_has_a_name() -> None:
    """A capability is a Protocol of `paseo.base`, asked for with isinstance; only foreign objects are
    probed.
    """
    found = {str(p.relative_to(PACKAGE).as_posix()): probes(p.read_text(encoding="utf-8")) for p in FILES}
    found = {name: count for name, count in found.items() if count}
    assert found.keys() == MAY_PROBE.keys(), "give the capability a Protocol in base.py, or tidy this list"
    assert sum(found.values()) <= PROBES


def test_a_probe_is_seen() -> None:
    assert probes("a = getattr(b, 'c', None) if hasattr(b, 'c') else getattr(getattr(d, 'e'), 'f')") == 4
    assert not probes("def __getattr__(name): return vars(b)[name]  # getattr(b, name)")


LINES = 350  # of a file
MAY_BE_LONG = {"base.py"}  # page one: all nouns, and all that they can do, by name


def test_a_file_has_one_subject() -> None:
    lengths = {str(p.relative_to(PACKAGE).as_posix()): len(p.read_text("utf-8").splitlines()) for p in FILES}
    assert {name for name, count in lengths.items() if count > LINES} <= MAY_BE_LONG


UNNAMED = 0.04  # share of the annotations in which a type is `Any`


def annotations(source: str) -> list[ast.expr]:
    """Of parameters, results and variables."""
    found: list[ast.expr | None] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.append(node.returns)
        elif isinstance(node, ast.arg | ast.AnnAssign):
            found.append(node.annotation)
    return [annotation for annotation in found if annotation is not None]


def unnamed(annotation: ast.expr) -> bool:
    return any(isinstance(part, ast.Name) and part.id == "Any" for part in ast.walk(annotation))


def test_types_have_names() -> None:
    every = [a for path in FILES for a in annotations(path.read_text(encoding="utf-8"))]
    assert sum(map(unnamed, every)) <= UNNAMED * len(every)


def test_an_unnamed_type_is_seen() -> None:
    found = annotations("def f(a: Any, *b: int, c: dict[str, Any] = {}) -> list[Any]:\n    d: str = 'Any'")
    assert (len(found), sum(map(unnamed, found))) == (5, 3)


MAY_REPEAT = {"Options"}  # each experiment of `paseo reproduce` has its own, by agreement


def test_a_class_name_means_one_thing() -> None:
    """Two classes of one name in two rooms send the reader to the wrong one."""
    names = [
        node.name
        for path in FILES
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
    ]
    assert {name for name in names if names.count(name) > 1} == MAY_REPEAT
