"""Names of a package that are imported when they are first used (PEP 562), so that `import paseo` is quick.

__getattr__, __dir__ = lazy(__name__, {"Noise": "paseo.noise"})
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any
from warnings import warn


def lazy(
    package: str,
    names: Mapping[str, str],
    modules: Iterable[str] = (),
    moved: Mapping[str, str] | None = None,
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package.

    `names` maps a name to the module that has it ("paseo.noise", or "paseo.degrade:user_task" if it has
    another name there), `modules` are its own, and `moved` maps old names of modules to where they are now.
    """
    modules, moved = frozenset(modules), moved or {}

    def attribute(name: str) -> Any:
        if name in names:
            module, _, there = names[name].partition(":")
            value = getattr(import_module(module), there or name)
            setattr(sys.modules[package], name, value)  # the next time it is found without us
            return value
        if name in modules:
            return import_module(f"{package}.{name}")
        if name in moved:
            warn(f"{package}.{name} is now {moved[name]}.", DeprecationWarning, stacklevel=2)
            return import_module(moved[name])
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def listing() -> list[str]:
        return sorted({*vars(sys.modules[package]), *names, *modules, *moved})

    return attribute, listing
