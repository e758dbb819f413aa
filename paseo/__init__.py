"""PASEO: image restoration with latent diffusion priors and small learned operators.

    import paseo

    model = paseo.load_model("faces-128")
    task = paseo.task("sr4")
    result = paseo.restore(y, model=model, degradation=task, operator=model.operator("sr4"),
                           sampler=paseo.preset("faces-128", "sr4"), seeds=[0, 1, 2])
    result.images  # (3, 3, H, W) in [0,1]: three draws from the posterior

The names below are loaded when they are first used (PEP 562), so that `import paseo` costs milliseconds.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from paseo.base import Problem as Problem
    from paseo.degrade import task as task
    from paseo.errors import BadInput as BadInput
    from paseo.errors import MissingWeights as MissingWeights
    from paseo.errors import NotFinite as NotFinite
    from paseo.errors import PaseoError as PaseoError
    from paseo.errors import Unsupported as Unsupported
    from paseo.models import Model as Model
    from paseo.models import load_model as load_model
    from paseo.noise import Noise as Noise
    from paseo.operators.store import load_operator as load_operator
    from paseo.pipeline import PaseoPipeline as PaseoPipeline
    from paseo.presets import preset as preset
    from paseo.priors import GaussianPrior as GaussianPrior
    from paseo.priors import MixturePrior as MixturePrior
    from paseo.restore import Restored as Restored
    from paseo.restore import restore as restore
    from paseo.samplers import PASEO as PASEO

_HOME = {
    "PASEO": "paseo.samplers",
    "restore": "paseo.restore",
    "Restored": "paseo.restore",
    "load_model": "paseo.models",
    "load_operator": "paseo.operators.store",
    "Model": "paseo.models",
    "task": "paseo.degrade",
    "preset": "paseo.presets",
    "Noise": "paseo.noise",
    "Problem": "paseo.base",
    "GaussianPrior": "paseo.priors",
    "MixturePrior": "paseo.priors",
    "PaseoPipeline": "paseo.pipeline",
    "PaseoError": "paseo.errors",
    "BadInput": "paseo.errors",
    "MissingWeights": "paseo.errors",
    "NotFinite": "paseo.errors",
    "Unsupported": "paseo.errors",
}
_SUBMODULES = {
    *("base", "errors", "noise", "schedule", "linalg", "degrade", "codecs", "priors", "operators", "samplers", "metrics"),
    *("images", "record", "sheet", "models", "presets", "pipeline", "train", "reproduce", "bench"),
}

__all__ = [*_HOME, "__version__"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    if name in _SUBMODULES:
        return import_module(f"paseo.{name}")
    raise AttributeError(f"module 'paseo' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_SUBMODULES})


class _Package(ModuleType):
    """The package itself. Importing the file `paseo/restore.py` would bind the module to `paseo.restore`; the name is the function's."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "restore" and isinstance(value, ModuleType):
            value = value.restore
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
