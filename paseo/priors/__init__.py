"""Priors: denoisers x̂₀(x, t) with prompt and guidance already bound. The exact ones live in plain
mathematics.
"""

from paseo.base import Counted
from paseo.priors.covariance import (
    Covariance,
    Dense,
    Isotropic,
    Stationary,
    natural_spectrum,
    radial_frequency,
)
from paseo.priors.gaussian import Gaussian, GaussianPrior
from paseo.priors.mixture import Mixture, MixturePrior
from paseo.priors.posterior import posterior
from paseo.priors.views import View, as_flow, as_ve, as_vp

__all__ = [
    "Counted",
    "Covariance",
    "Dense",
    "Gaussian",
    "GaussianPrior",
    "Isotropic",
    "Mixture",
    "MixturePrior",
    "Stationary",
    "View",
    "as_flow",
    "as_ve",
    "as_vp",
    "natural_spectrum",
    "posterior",
    "radial_frequency",
]
