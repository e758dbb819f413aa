"""Which Python code may be loaded: what the user typed or passed, and nothing that merely stands in a file.

A degradation may be named "module:function" or "path/file.py:function". Such a name can also arrive inside
data: an operator's config.json, the record of a run, a benchmark's YAML. Data must not execute code, so a
name is refused unless somebody vouched for it:

    vouch("weather:fog")          a call in Python: `paseo.task("weather:fog")` does this
    vouch_for_words(argv)         the command line: every name that was typed
    allowing_code()               `--allow-code`: the user trusts the files, whatever they name
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable
from contextlib import contextmanager

from paseo.errors import BadInput

_VOUCHED: set[str] = set()
_EVERYTHING: list[bool] = []  # one entry per block of `allowing_code` that is open


def vouch(name: str) -> str:
    """The name itself, which may be loaded from now on."""
    _VOUCHED.add(name)
    return name


def vouch_for_words(words: Iterable[str]) -> None:
    """Vouch for what was typed: whole words, and the parts of `--task=a:b` or `--set tasks=[a:b,c:d]`."""
    for word in words:
        if ":" in word:
            _VOUCHED.update({word, *re.split(r"[=,+\[\]\s'\"]+", word)})


@contextmanager
def allowing_code(wanted: bool = True) -> Generator[None]:
    """While the block lasts, code that files name is loaded too."""
    before = list(_EVERYTHING)
    _EVERYTHING.append(wanted)
    try:
        yield
    finally:
        _EVERYTHING[:] = before


@contextmanager
def for_this_command(words: Iterable[str]) -> Generator[None]:
    """While the block lasts, what the words name may be loaded; then as before."""
    before = set(_VOUCHED)
    vouch_for_words(words)
    try:
        yield
    finally:
        _VOUCHED.intersection_update(before)


def check_vouched(name: str) -> None:
    """Raise unless somebody vouched for this name."""
    if name in _VOUCHED or any(_EVERYTHING):
        return
    raise BadInput(
        f"{name!r} is the name of Python code, and it was read from a file (an operator's config, a record "
        f"or a "
        "benchmark). Files do not run code unless you say so: give --allow-code if you trust where they "
        "come from, "
        f"or type it yourself with --task {name}; in Python call paseo.task({name!r}) first."
    )
