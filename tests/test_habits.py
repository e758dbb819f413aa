"""Habits that a linter has no rule for: they keep the code readable for everybody."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "paseo"
FILES = sorted(PACKAGE.rglob("*.py"))


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
