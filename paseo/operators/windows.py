"""A latent operator on a large canvas, in windows: value, J and Jᵀ of one blended map.

    H(z) = Σ_k R_kᵀ W_k H_k(R_k z)      J v = Σ_k R_kᵀ W_k J_k R_k v      Jᵀ u = Σ_k R_kᵀ J_kᵀ W_k R_k u

so J is the derivative of H, and J and Jᵀ are each other's transposes to rounding error. H_k is the operator
as it stands at window k: position maps and masks are cut from the whole canvas's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from paseo.base import HasKnobs, Knob, KnowsResidual, LatentOperator, LocalOperator
from paseo.errors import BadInput
from paseo.linalg.jacobian import Linearization, linearize
from paseo.windows import Area, Cover, add, canvas_like

Map = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class WindowedOperator:
    """`operator` on the windows of a canvas."""

    operator: LocalOperator
    cover: Cover
    keep: bool = (
        True  # linearisations of all windows until the next; else they are made again for each product
    )
    _places: dict[Area, LatentOperator] = field(default_factory=dict, repr=False)

    @property
    def residual(self) -> Tensor | None:
        """The operator's own error per channel, where it knows it."""
        return self.operator.residual if isinstance(self.operator, KnowsResidual) else None

    def knobs(self) -> dict[str, Knob]:
        """What the operator itself can be turned to."""
        return self.operator.knobs() if isinstance(self.operator, HasKnobs) else {}

    def turned(self, values: dict[str, float]) -> WindowedOperator:
        """The operator with other parameters, on the same windows."""
        if not isinstance(self.operator, HasKnobs) or not values.keys() <= self.knobs().keys():
            raise BadInput(f"This operator has no {', '.join(values)} to be turned: take that of a family.")
        other = self.operator.turned(values)
        assert isinstance(other, LocalOperator)  # a turn does not change what it is
        return WindowedOperator(other, self.cover, self.keep)

    def at(self, area: Area) -> LatentOperator:
        """H_k, made once."""
        if area not in self._places:
            self._places[area] = self.operator.at(area, self.cover.canvas)
        return self._places[area]

    def __call__(self, z: Tensor) -> Tensor:
        tracked = torch.is_grad_enabled() and z.requires_grad

        def value(area: Area) -> Tensor:
            z_k = area.cut(z)
            return checkpoint(self.at(area), z_k, use_reentrant=False) if tracked else self.at(area)(z_k)

        return self._joined(value)

    def linearize(self, z: Tensor) -> tuple[Tensor, Map, Map]:
        """(H(z), v ↦ J v, u ↦ Jᵀ u) at z."""
        kept: dict[Area, Linearization] = {}

        def tangent(area: Area) -> Linearization:
            if area in kept:
                return kept[area]
            made = linearize(self.at(area), area.cut(z).contiguous())
            if self.keep:
                kept[area] = made
            return made

        def J(v: Tensor) -> Tensor:
            return self._joined(lambda area: tangent(area).J(area.cut(v).contiguous()))

        def JT(u: Tensor) -> Tensor:
            whole = torch.zeros_like(z)
            for area in self.cover.areas:
                u_k = area.cut(u)
                area.cut(whole).add_(tangent(area).JT(u_k * self.cover.weight(area, 1, u_k)))
            return whole

        return self._joined(lambda area: tangent(area).h), J, JT

    def _joined(self, part: Callable[[Area], Tensor]) -> Tensor:
        """Σ_k R_kᵀ W_k part_k."""
        whole: Tensor | None = None
        for area in self.cover.areas:
            y = part(area)
            whole = canvas_like(y, y.shape[0], self.cover, 1) if whole is None else whole
            add(whole, y, area, self.cover, 1)
        assert whole is not None
        return whole
