"""The learned latent operator H_ψ(z, s) or H_ψ(z, s, c): the small convolutional network of SILO (1.2M
parameters), at one resolution throughout; or a leaner one, narrower and `pooled` (pool.py).

    H(z, s) = (1 − g) q + g c + k z

    c   colour path, SiLU(Conv1×1(z))
    q   body: stem on [z, p], seven residual blocks in a U without down-sampling, head
    p   eight fixed position channels, so that a network of local filters can know a mask
    g   gate in (0, 1), set by the noise level alone;   k   learned scalar, starts at 1
    s   std of the measurement noise on images in [-1,1], a sine embedding added as a bias inside every block

An operator for a family of degradations also sees their parameters c (conditioning.py) and, as further
channels of the stem, which pixels of every cell are seen.

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

from paseo.base import Condition
from paseo.errors import BadInput
from paseo.operators.conditioning import AffineCellNorm, ParameterEncoder, shown
from paseo.operators.config import GROUPS, OperatorConfig
from paseo.operators.embedding import EMBEDDING, POSITION_CHANNELS, noise_embedding, position_map
from paseo.operators.pool import doubled, halved
from paseo.operators.tangent import BoundOperator
from paseo.windows import Area


class OperatorBlock(nn.Module):
    """SiLU(skip(x) + GN(Conv(SiLU(GN(Conv x)) + Linear(e)))); the skip is a 1×1 convolution where the width
    changes.
    """

    def __init__(self, inputs: int, outputs: int, local: bool = False) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.norm1 = AffineCellNorm(outputs) if local else nn.GroupNorm(GROUPS, outputs)
        self.noise = nn.Linear(EMBEDDING, outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.norm2 = AffineCellNorm(outputs) if local else nn.GroupNorm(GROUPS, outputs)
        self.skip = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1)

    def forward(self, x: Tensor, e: Tensor, scale: Tensor | None = None) -> Tensor:
        h = F.silu(self.norm1(self.conv1(x)))
        h = (h if scale is None else h * scale) + self.noise(e)[:, :, None, None]
        return F.silu(self.skip(x) + self.norm2(self.conv2(h)))


class OperatorNet(nn.Module):
    """H_ψ(z, s, c) on latents (B, channels, h, w) of any size; the same network for every degradation and
    latent space.
    """

    position: Tensor  # (1, 8, 64, 64), fixed

    def __init__(self, config: OperatorConfig | int) -> None:
        super().__init__()
        self.spec = OperatorConfig(channels=config) if isinstance(config, int) else config
        narrow, middle, wide = self.spec.widths
        channels, family = self.spec.channels, self.spec.family
        local = family is not None and family.local
        inputs = channels + (0 if local else POSITION_CHANNELS) + (family.subcells**2 if family else 0)
        self.colour = nn.Conv2d(channels, channels, 1)
        self.stem = nn.Conv2d(inputs, narrow, 3, padding=1)
        self.down = nn.ModuleList(
            [
                OperatorBlock(narrow, narrow, local),
                OperatorBlock(narrow, middle, local),
                OperatorBlock(middle, wide, local),
            ]
        )
        self.middle = OperatorBlock(wide, wide, local)
        self.up = nn.ModuleList(
            [
                OperatorBlock(wide, middle, local),
                OperatorBlock(middle + narrow, narrow, local),
                OperatorBlock(narrow + narrow, narrow, local),
            ]
        )
        self.head = nn.Conv2d(narrow, channels, 3, padding=1)
        self.gate = nn.Linear(EMBEDDING, 1)
        self.skip_scale = nn.Parameter(torch.ones(()))
        self.register_buffer("position", position_map(), persistent=False)
        if family is not None:
            widths = [block.conv1.out_channels for block in self.blocks()]
            self.encoder = ParameterEncoder(len(family.parameters), channels, widths)

    def forward(
        self, z: Tensor, s: Tensor | float, c: Tensor | None = None, seen: Tensor | None = None
    ) -> Tensor:
        """H(z, s, c); s is the noise std on [-1,1] images, one number or one per sample. c (1 or B, P) and
        the seen shares (1 or B, n², h, w) belong to a family's operator; without `seen` all is seen.
        """
        self.check_latent(z)
        e = noise_embedding(s, z)
        if e.shape[0] not in (1, z.shape[0]):
            raise BadInput(
                f"{e.shape[0]} noise levels were given for {z.shape[0]} latents; give one, or one for each."
            )
        u: Tensor | None = None
        scales: list[Tensor | None] = [None] * 7
        if self.spec.family is not None:
            u, e = self.encoder(self.check_parameters(c, z), e)
            scales = [self.encoder.scale(i, u) for i in range(7)]
        self.check_seen(z, seen)
        z = z * self.shown(z, seen)
        k0 = self.stem(self.stem_input(z, seen))
        k1 = self.down[0](k0, e, scales[0])
        h = halved(k1) if self.spec.pooled else k1
        h = self.down[2](self.down[1](h, e, scales[1]), e, scales[2])
        h = self.up[0](self.middle(h, e, scales[3]), e, scales[4])
        h = doubled(h, (z.shape[2], z.shape[3])) if self.spec.pooled else h
        h = self.up[1](torch.cat([h, k1], dim=1), e, scales[5])
        h = self.up[2](torch.cat([h, k0], dim=1), e, scales[6])
        g = torch.sigmoid(self.gate(e))[:, :, None, None]
        h = (1 - g) * self.head(h) + g * F.silu(self.colour(z)) + self.skip_scale * z
        return h if u is None else h + self.encoder.convolve(z, u)

    @property
    def serves_family(self) -> bool:
        """Whether it must be told the degradation at hand."""
        return self.spec.family is not None

    def bind(self, sigma_y: float, condition: Condition | None = None) -> BoundOperator:
        """z ↦ H(z) for measurements with noise of std σ_y, in [0,1] units; brings its own fast linearisation.

        A family's operator also needs the degradation's condition, a dedicated one does without.
        """
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
        if self.spec.family is None:
            return BoundOperator(self, 2.0 * sigma_y)
        if condition is None:
            raise BadInput(
                "This operator serves a family of degradations: bind it with the condition of one of them, "
                "`net.bind(sigma_y, paseo.degrade.condition_of(degradation, …))`."
            )
        if strange := self.spec.family.outside(condition.numbers):
            warnings.warn(f"The operator will extrapolate: {', '.join(strange)}.", stacklevel=2)
        return BoundOperator(self, 2.0 * sigma_y, condition)

    def at(self, area: Area, canvas: tuple[int, int]) -> OperatorNet:
        """The same network at a window of a canvas: its position map is cut from the whole canvas's."""
        whole = self.positions(self.position.new_empty(1).expand(1, 1, *canvas))
        here = copy(self)
        here._buffers = {**self._buffers, "position": area.cut(whole).contiguous()}
        return here

    def blocks(self) -> list[OperatorBlock]:
        """The seven blocks in the order in which they run."""
        return [block for block in (*self.down, self.middle, *self.up) if isinstance(block, OperatorBlock)]

    def positions(self, z: Tensor) -> Tensor:
        """The position map (1, 8, h, w) for z's size and dtype."""
        p = self.position.to(z)
        return (
            p
            if z.shape[-2:] == p.shape[-2:]
            else F.interpolate(p, size=z.shape[-2:], mode="bilinear", align_corners=False)
        )

    def stem_input(self, z: Tensor, seen: Tensor | None) -> Tensor:
        """[z, positions, seen shares] as far as this network has them."""
        parts, family = [z], self.spec.family
        if family is None or not family.local:
            parts.append(self.positions(z).expand(z.shape[0], -1, -1, -1))
        if family is not None and family.subcells:
            shape = (z.shape[0], family.subcells**2, *z.shape[-2:])
            parts.append(z.new_zeros(shape) if seen is None else (seen.to(z) - 1).expand(shape))  # 0 = seen
        return torch.cat(parts, dim=1)

    def shown(self, z: Tensor, seen: Tensor | None) -> Tensor | float:
        """m, the factor of every cell; 1 where all is seen."""
        family = self.spec.family
        return 1.0 if seen is None or family is None else shown(seen.to(z), family.reach)

    def check_seen(self, z: Tensor, seen: Tensor | None) -> None:
        """The seen shares fit the latent and are something this network knows."""
        if seen is None:
            return
        family = self.spec.family
        if family is None or not family.subcells:
            raise BadInput("This operator knows no masks. Use one whose family does.")
        shape = (family.subcells**2, *z.shape[-2:])
        if tuple(seen.shape[1:]) != shape or len(seen) not in (1, len(z)):
            raise BadInput(f"The seen shares are (B, {', '.join(map(str, shape))}), got {tuple(seen.shape)}.")

    def check_parameters(self, c: Tensor | None, z: Tensor) -> Tensor:
        """c (1 or B, P) of a family's operator."""
        assert self.spec.family is not None
        names = self.spec.family.parameters
        if c is None or c.ndim != 2 or c.shape[1] != len(names) or c.shape[0] not in (1, z.shape[0]):
            got = None if c is None else tuple(c.shape)
            raise BadInput(f"The parameters are (B, {len(names)}): {', '.join(names)}; got {got}.")
        return c.to(z)

    def check_latent(self, z: Tensor) -> None:
        """Refuse what the first convolution would refuse less clearly."""
        if z.ndim != 4 or z.shape[1] != self.spec.channels:
            raise BadInput(
                f"The operator of {self.spec.latent_space or 'this latent space'} takes latents (B, "
                f"{self.spec.channels}, h, w), "
                f"got {tuple(z.shape)}. Was the latent made by another model's encoder?"
            )
