"""PASEO: image restoration with latent diffusion priors and small learned operators.

    import paseo

    paseo.restore("photo.jpg").save("out.png")
    result = paseo.restore("small.png", task="sr4", samples=3)
    result.images  # (3, 3, H, W) in [0,1]: three draws from the posterior

The names below are loaded when they are first used (PEP 562), so that `import paseo` costs milliseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paseo.lazy import lazy
from paseo.version import __version__

if TYPE_CHECKING:
    from paseo.apps.pipeline import PaseoPipeline as PaseoPipeline
    from paseo.apps.python import restore as restore
    from paseo.base import Problem as Problem
    from paseo.degrade import user_task as task  # noqa: F401 (the public name)
    from paseo.errors import BadInput as BadInput
    from paseo.errors import MissingWeights as MissingWeights
    from paseo.errors import NotFinite as NotFinite
    from paseo.errors import PaseoError as PaseoError
    from paseo.errors import Unsupported as Unsupported
    from paseo.models import Model as Model
    from paseo.models import load_model as load_model
    from paseo.noise import Noise as Noise
    from paseo.operators.store import load_operator as load_operator
    from paseo.priors import GaussianPrior as GaussianPrior
    from paseo.priors import MixturePrior as MixturePrior
    from paseo.restored import Restored as Restored
    from paseo.samplers import PASEO as PASEO
    from paseo.settings.presets import preset as preset

_HOME = {
    "PASEO": "paseo.samplers",
    "restore": "paseo.apps.python",
    "Restored": "paseo.restored",
    "load_model": "paseo.models",
    "load_operator": "paseo.operators.store",
    "Model": "paseo.models",
    "task": "paseo.degrade:user_task",
    "preset": "paseo.settings.presets",
    "Noise": "paseo.noise",
    "Problem": "paseo.base",
    "GaussianPrior": "paseo.priors",
    "MixturePrior": "paseo.priors",
    "PaseoPipeline": "paseo.apps.pipeline",
    "PaseoError": "paseo.errors",
    "BadInput": "paseo.errors",
    "MissingWeights": "paseo.errors",
    "NotFinite": "paseo.errors",
    "Unsupported": "paseo.errors",
}
_SUBMODULES = (
    *("base", "errors", "noise", "schedule", "setting", "linalg", "degrade", "codecs", "priors", "operators"),
    *(
        "samplers",
        "metrics",
        "images",
        "record",
        "sheet",
        "models",
        "settings",
        "hub",
        "train",
        "lab",
        "apps",
    ),
    *("problem", "recipe", "seeds", "units"),
)
_MOVED = {  # deprecated names of modules → where they are now (the rule: CONTRIBUTING.md)
    "presets": "paseo.settings.presets",
    "pipeline": "paseo.apps.pipeline",
    "reproduce": "paseo.lab.reproduce",
    "bench": "paseo.lab.bench",
}

__all__ = [*_HOME, "__version__"]
__getattr__, __dir__ = lazy(__name__, _HOME, _SUBMODULES, _MOVED)
