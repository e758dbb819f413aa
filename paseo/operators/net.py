"""The learned latent operator H_ψ(z, s): the small convolutional network of SILO (1.2M parameters), at one
resolution throughout.

    H(z, s) = (1 − g) q + g c + k z

    c   colour path, SiLU(Conv1×1(z))
    q   body: stem on [z, p], seven residual blocks in a U without down-sampling, head
    p   eight fixed position channels, so that a network of local filters can know a mask
    g   gate in (0, 1), set by the noise level alone;   k   learned scalar, starts at 1
    s   std of the measurement noise on images in [-1,1], seen as a sine embedding and added as a bias inside every block

Smooth everywhere, so Jacobian products exist at every latent. GroupNorm couples all positions: H is not
strictly local. `net.bind(sigma_y)` fixes the noise level (in [0,1] units, so s = 2σ_y) and gives the z ↦ H(z)
that samplers use.
"""

from __future__ import annotations

import math
import warnings
from copy import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from paseo.errors import BadInput
from paseo.operators.config import OperatorConfig
from paseo.operators.embedding import EMBEDDING, POSITION_CHANNELS, noise_embedding, position_map
from paseo.operators.tangent import BoundOperator
from paseo.windows import Area

WIDTHS = (48, 96, 128)  # channels of the three levels
GROUPS = 8  # of every GroupNorm


class Block(nn.Module):
    """SiLU(skip(x) + GN(Conv(SiLU(GN(Conv x)) + Linear(e)))); the skip is a 1×1 convolution where the width
    changes.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.norm1 = nn.GroupNorm(GROUPS, outputs)
        self.noise = nn.Linear(EMBEDDING, outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.norm2 = nn.GroupNorm(GROUPS, outputs)
        self.skip = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1)

    def forward(self, x: Tensor, e: Tensor) -> Tensor:
        h = F.silu(self.norm1(self.conv1(x))) + self.noise(e)[:, :, None, None]
        return F.silu(self.skip(x) + self.norm2(self.conv2(h)))


class OperatorNet(nn.Module):
    """H_ψ(z, s) on latents (B, channels, h, w) of any size; the same network for every degradation and latent
    space.
    """

    position: Tensor  # (1, 8, 64, 64), fixed

    def __init__(self, config: OperatorConfig | int) -> None:
        super().__init__()
        self.spec = OperatorConfig(channels=config) if isinstance(config, int) else config
        narrow, middle, wide = WIDTHS
        channels = self.spec.channels
        self.colour = nn.Conv2d(channels, channels, 1)
        self.stem = nn.Conv2d(channels + POSITION_CHANNELS, narrow, 3, padding=1)
        self.down = nn.ModuleList([Block(narrow, narrow), Block(narrow, middle), Block(middle, wide)])
        self.middle = Block(wide, wide)
        self.up = nn.ModuleList(
            [Block(wide, middle), Block(middle + narrow, narrow), Block(narrow + narrow, narrow)]
        )
        self.head = nn.Conv2d(narrow, channels, 3, padding=1)
        self.gate = nn.Linear(EMBEDDING, 1)
        self.skip_scale = nn.Parameter(torch.ones(()))
        self.register_buffer("position", position_map(), persistent=False)

    def forward(self, z: Tensor, s: Tensor | float) -> Tensor:
        """H(z, s); s is the noise std on [-1,1] images, one number or one per sample."""
        self.check_latent(z)
        e = noise_embedding(s, z)
        if e.shape[0] not in (1, z.shape[0]):
            raise BadInput(
                f"{e.shape[0]} noise levels were given for {z.shape[0]} latents; give one, or one for each."
            )
        k0 = self.stem(torch.cat([z, self.positions(z).expand(z.shape[0], -1, -1, -1)], dim=1))
        k1 = self.down[0](k0, e)
        h = self.down[2](self.down[1](k1, e), e)
        h = self.up[0](self.middle(h, e), e)
        h = self.up[1](torch.cat([h, k1], dim=1), e)
        h = self.up[2](torch.cat([h, k0], dim=1), e)
        g = torch.sigmoid(self.gate(e))[:, :, None, None]
        return (1 - g) * self.head(h) + g * F.silu(self.colour(z)) + self.skip_scale * z

    def bind(self, sigma_y: float) -> BoundOperator:
        """z ↦ H(z) for measurements with noise of std σ_y, in [0,1] units; brings its own fast linearisation."""
        low, high = self.spec.unit_noise_range
        if not (math.isfinite(sigma_y) and sigma_y >= 0):
            raise BadInput(
                f"sigma_y={sigma_y} is no noise level: it is a standard deviation in [0,1] units, such as "
                "0.01."
            )
        if not low - 1e-9 <= sigma_y <= high + 1e-9:
            warnings.warn(
                f"sigma_y={sigma_y:g} lies outside {low:g} … {high:g}, the noise this operator was trained "
                "on; it will extrapolate.",
                stacklevel=2,
            )
        return BoundOperator(self, 2.0 * sigma_y)

    def at(self, area: Area, canvas: tuple[int, int]) -> OperatorNet:
        """The same network at a window of a canvas: its position map is cut from the whole canvas's."""
        whole = self.positions(self.position.new_empty(1).expand(1, 1, *canvas))
        here = copy(self)
        here._buffers = {**self._buffers, "position": area.cut(whole).contiguous()}
        return here

    def blocks(self) -> list[Block]:
        """The seven blocks in the order in which they run."""
        return [block for block in (*self.down, self.middle, *self.up) if isinstance(block, Block)]

    def positions(self, z: Tensor) -> Tensor:
        """The position map (1, 8, h, w) for z's size and dtype."""
        p = self.position.to(z)
        return (
            p
            if z.shape[-2:] == p.shape[-2:]
            else F.interpolate(p, size=z.shape[-2:], mode="bilinear", align_corners=False)
        )

    def check_latent(self, z: Tensor) -> None:
        """Refuse what the first convolution would refuse less clearly."""
        if z.ndim != 4 or z.shape[1] != self.spec.channels:
            raise BadInput(
                f"The operator of {self.spec.latent_space or 'this latent space'} takes latents (B, "
                f"{self.spec.channels}, h, w), "
                f"got {tuple(z.shape)}. Was the latent made by another model's encoder?"
            )
