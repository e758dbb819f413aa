"""Heavy packages are imported where they are used, so that `import paseo` and `paseo --help` stay quick."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "paseo"
HEAVY = {
    "accelerate",
    "diffusers",
    "gradio",
    "matplotlib",
    "optuna",
    "ray",
    "scipy",
    "skimage",
    "torchvision",
    "transformers",
}


FACES = {
    "apps/pipeline",
    "hub/operator.py",
}  # subclasses of diffusers' own classes; themselves imported only where they are used


def top_level_imports(source: str) -> set[str]:
    """Packages that importing this module imports: everything outside functions and `if TYPE_CHECKING:`."""
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return
        if isinstance(node, ast.Import):
            found.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(source))
    return found


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_heavy_import_at_the_top(path: Path) -> None:
    here = path.relative_to(PACKAGE)
    if {here.parent.as_posix(), here.as_posix()} & FACES:
        return
    assert not top_level_imports(path.read_text(encoding="utf-8")) & HEAVY


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_relative_import(path: Path) -> None:
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    assert not [node for node in nodes if isinstance(node, ast.ImportFrom) and node.level]


def test_the_reader_sees_what_it_should() -> None:
    source = "try:\n    import ray.data\nexcept ImportError:\n    pass\n"
    source += "class A:\n    from optuna import Study\ndef f():\n    import gradio\n"
    assert top_level_imports(source) == {"ray", "optuna"}
    assert top_level_imports("if TYPE_CHECKING:\n    import diffusers\n") == set()


def test_the_samplers_need_nothing_heavy() -> None:
    """A fresh interpreter that imports the samplers and exact priors has loaded none of them."""
    code = "import sys, paseo.samplers, paseo.priors, paseo.operators.exact, paseo.lab.reproduce\n"
    code += f"print(sorted(set(sys.modules) & {HEAVY!r}))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert result.stdout.strip() == "[]"
