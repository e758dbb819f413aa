"""Names of a package that are imported when they are first used (PEP 562), so that `import paseo` is quick.

__getattr__, __dir__ = lazy(__name__, {"Noise": "paseo.noise"})
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy(
    package: str, names: Mapping[str, str], modules: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package: `names` maps a name to the module that has it, `modules` an
    attribute to the module it is.
    """
    modules = modules or {}

    def attribute(name: str) -> Any:
        if name in names:
            value = getattr(import_module(names[name]), name)
            setattr(sys.modules[package], name, value)  # the next time it is found without us
            return value
        if name in modules:
            return import_module(modules[name])
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def listing() -> list[str]:
        return sorted({*vars(sys.modules[package]), *names, *modules})

    return attribute, listing
