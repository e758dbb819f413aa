"""Linear measurement models y = A z + noise for DDS, DiffPIR and DDNM: products with A and Aᵀ, and the solves
they need.

Where A comes from, in this order:
    1. a linear degradation behind the identity codec, with y the measurement itself;
    2. an exact latent operator (it has `adjoint`), with y the encoded measurement where it is observed;
    3. the mask of observed latent cells, with y the encoded measurement (inpainting with any codec).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from paseo.base import (
    Codec,
    FitsSize,
    HasAdjoint,
    HasLatentSpace,
    HasStd,
    LatentOperator,
    Problem,
    SolvesExactly,
)
from paseo.errors import Unsupported
from paseo.linalg import cg
from paseo.samplers.misfit import adjoint, codec_of, degradation_of, has_adjoint

Map = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class LinearModel:
    y: Tensor
    A: Map
    AT: Map
    # (b, ρ) ↦ (A Aᵀ + ρ I)⁻¹ b, where a closed form is known
    exact: Callable[[Tensor, float], Tensor] | None = None

    def correct(self, z: Tensor, trust: float, ridge: float, budget: int, tolerance: float) -> Tensor:
        """argmin trust·‖y − A·‖² + ridge·‖· − z‖², by CG on (ridge·I + trust·AᵀA) from z.

        With ridge 0 this is z + A⁺(y − A z): started in the range of Aᵀ, CG stays there and finds the least
        correction, also where y holds what no z can explain (noise in a hole).
        """
        b = trust * self.AT(self.y - self.A(z))
        return z + cg(lambda d: ridge * d + trust * self.AT(self.A(d)), b, budget, tolerance).v

    def closed_form(self, z: Tensor, rho: float) -> Tensor | None:
        """The same minimiser at trust 1 and ridge ρ, as z + Aᵀ (A Aᵀ + ρ I)⁻¹ (y − A z), where the inverse is
        known.
        """
        return None if self.exact is None else z + self.AT(self.exact(self.y - self.A(z), rho))


def linear_model(problem: Problem) -> LinearModel:
    """The problem as a linear one; `needs_linear` says beforehand whether it is."""
    H = problem.operator
    if is_identity(problem) and has_adjoint(problem):
        return _in_pixels(problem)
    if isinstance(H, HasAdjoint) and problem.observed is None:
        return LinearModel(problem.y_z, H, H.adjoint, _exact(H))
    if problem.observed is None:
        raise Unsupported(needs_linear(problem) or "")
    mask = (problem.observed.to(problem.y_z) > 0.5).to(problem.y_z)
    if isinstance(H, HasAdjoint):  # hidden cells do not count
        return LinearModel(mask * problem.y_z, lambda z: mask * H(z), lambda r: H.adjoint(mask * r))
    return LinearModel(
        mask * problem.y_z, lambda z: mask * z, lambda r: mask * r, lambda b, rho: b / (mask + rho)
    )


def _exact(H: LatentOperator) -> Callable[[Tensor, float], Tensor] | None:
    return (lambda b, rho: H.solve(b, rho, 1.0)) if isinstance(H, SolvesExactly) else None


def _in_pixels(problem: Problem) -> LinearModel:
    A, codec = degradation_of(problem), codec_of(problem)
    inner = _inner(codec)
    scale = inner.std**2 if isinstance(inner, HasStd) else 1.0  # D is a permutation times std, so Dᵀ = std² E
    return LinearModel(
        problem.y, lambda z: A(codec.decode(z)), lambda r: scale * codec.encode(adjoint(problem, r))
    )


def needs_linear(problem: Problem) -> str | None:
    """The reason why a method for linear measurements cannot run, or None."""
    if (
        isinstance(problem.operator, HasAdjoint)
        or (is_identity(problem) and has_adjoint(problem))
        or problem.observed is not None
    ):
        return None
    name = "this measurement" if problem.degradation is None else problem.degradation.name
    return (
        f"it needs a measurement that is linear in the latent, and {name} seen through the codec is not."
        " It runs on latent masks, exact latent operators and the identity codec. Try PASEO."
    )


def is_identity(problem: Problem) -> bool:
    """A codec that only rearranges pixels, and neither pads nor crops them."""
    codec = problem.codec
    if isinstance(codec, FitsSize) and codec.padded != codec.size:
        return False
    inner = _inner(codec)
    return isinstance(inner, HasLatentSpace) and inner.latent_space.startswith("identity")


def _inner(codec: Codec | None) -> Codec | None:
    """The codec itself, without what fits images to it."""
    return codec.codec if isinstance(codec, FitsSize) else codec
