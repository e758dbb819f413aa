"""How parameters c enter the operator network, at no cost to its Jacobian products.

    u      = MLP([waves(c), noise embedding])
    e      ← e + A u                     added to the noise embedding: a bias inside every block
    h      ← h · (1 + B_i u)             a factor per hidden channel of block i
    k z    ← k z + Σ_j a_j(u) W_j ∗ z    a small convolution mixed from a few
    z      ← m z                         m the share of a cell that is seen: hidden pixels count nothing;
                                         with a reach, the largest share within that many cells, since a
                                         decoder draws seen pixels from hidden cells beside them, too

For one degradation all of these are constants: biases, factors that merge with the kept derivative of SiLU,
and one 5×5 convolution between latents. A, B and a start at zero, so that a network that takes over dedicated
weights begins as that dedicated operator.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from paseo.operators.embedding import EMBEDDING

OCTAVES = 4  # waves per parameter: sin and cos of c·2^j/2
MIXED = 16  # convolutions in the mixture
REACH = 5  # side of the mixed convolution in cells: a blur of 5 px is over after 20


class ParameterEncoder(nn.Module):
    """c and the noise embedding ↦ u (B, 128), the shift of the noise embedding, and the mixed convolution."""

    def __init__(self, parameters: int, channels: int, blocks: list[int]) -> None:
        super().__init__()
        self.first = nn.Linear(parameters * (1 + 2 * OCTAVES) + EMBEDDING, EMBEDDING)
        self.second = nn.Linear(EMBEDDING, EMBEDDING)
        self.shift = _zero(nn.Linear(EMBEDDING, EMBEDDING))
        self.scales = nn.ModuleList([_zero(nn.Linear(EMBEDDING, width)) for width in blocks])
        self.mix = _zero(nn.Linear(EMBEDDING, MIXED))
        spread = 1 / math.sqrt(channels * REACH)
        self.kernels = nn.Parameter(spread * torch.randn(MIXED * channels, channels, REACH, REACH))

    def forward(self, c: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
        """(u, e + A u)."""
        rows = max(len(c), len(e))
        u = torch.cat([waves(c).expand(rows, -1), e.expand(rows, -1)], dim=1)
        u = F.silu(self.second(F.silu(self.first(u))))
        return u, e + self.shift(u)

    def scale(self, block: int, u: Tensor) -> Tensor:
        """(B, width, 1, 1): the factors of a block's hidden channels."""
        return (1 + self.scales[block](u))[:, :, None, None]

    def kernel(self, u: Tensor) -> Tensor:
        """(B, C, C, 5, 5): the mixed convolution."""
        a = self.mix(u)
        return torch.einsum("bj,jxyhw->bxyhw", a, self.kernels.to(a.dtype).unflatten(0, (MIXED, -1)))

    def convolve(self, z: Tensor, u: Tensor) -> Tensor:
        """Each sample with its own mixture; one row of u serves all."""
        w = self.kernel(u)
        if len(w) == 1:
            return F.conv2d(z, w[0], padding=REACH // 2)
        b, c, height, width = z.shape
        flat = F.conv2d(z.reshape(1, b * c, height, width), w.flatten(0, 1), padding=REACH // 2, groups=b)
        return flat.view(b, c, height, width)


class AffineCellNorm(nn.Module):
    """Normalises the channels of every cell by themselves: no statistics over the picture, so that a window
    of it gives what the whole gives.
    """

    eps = 1e-5

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))

    def forward(self, a: Tensor) -> Tensor:
        centred = a - a.mean(1, keepdim=True)
        rstd = (centred.square().mean(1, keepdim=True) + self.eps).rsqrt()
        return centred * rstd * self.weight.view(1, -1, 1, 1) + self.bias.view(1, -1, 1, 1)


def shown(seen: Tensor, reach: int) -> Tensor:
    """m (1 or B, 1, h, w) from the shares of seen pixels in the parts of each cell (1 or B, n², h, w)."""
    m = seen.mean(1, keepdim=True)
    return F.max_pool2d(m, 2 * reach + 1, stride=1, padding=reach) if reach else m


def waves(c: Tensor) -> Tensor:
    """(B, 9 P): c itself and sin, cos of c/2, c, 2c, 4c."""
    a = c[:, :, None] * 2.0 ** (torch.arange(OCTAVES, dtype=c.dtype, device=c.device) - 1)
    return torch.cat([c, torch.sin(a).flatten(1), torch.cos(a).flatten(1)], dim=1)


def _zero(layer: nn.Linear) -> nn.Linear:
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer
