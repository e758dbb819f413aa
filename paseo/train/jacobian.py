"""Teaching an operator how the measurement changes, not only what it is (Sobolev training with random
directions).

    L_J = ½ E ‖ [H(z+v) − H(z−v)] − [R(z+v) − R(z−v)] ‖₁ ,      R = E ∘ lift ∘ A ∘ D,   v ~ N(0, δ² I)

A secant of length 2δ instead of a derivative: it is what the solver moves by, and it exists where R jumps
(JPEG rounds). No gradient passes through R. A quarter of each batch is used, because R decodes and encodes
twice.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

ONE_OF = 4  # so many samples is used


def secant_loss(
    net: nn.Module, R: Callable[[Tensor], Tensor], z: Tensor, s: Tensor, delta: float, rng: torch.Generator
) -> Tensor:
    """L_J of the first samples of a batch of clean latents z with noise levels s."""
    count = max(1, len(z) // ONE_OF)
    z, s = z[:count], s[:count]
    v = delta * torch.randn(z.shape, generator=rng).to(z)
    both = torch.cat([z + v, z - v])
    with torch.no_grad():
        true = R(both)
    learned = net(both, s.repeat(2)).float()
    plus, minus = (learned - true).chunk(2)
    return 0.5 * (plus - minus).abs().mean()
