"""The operator network at one noise level, with products J v and Jᵀ u that cost about one forward each.

Linearising at z runs the network once and keeps what its derivative needs. For a GroupNorm with input a,
output n and scale γ, let P remove from each group its mean and its component along the normalised a. Then

    d Conv   the convolution without bias; its transpose has flipped and transposed weights
    d GN     γ · P/std, and P is symmetric: aten's GroupNorm backward with unit scale serves both products
    d SiLU   SiLU′(n), an entrywise factor

so a product is the network's own convolutions, one projection per GroupNorm and one kept factor per SiLU:
nothing of the primal is computed twice and no graph is held. Transposed weights are made once per bound
operator, and again when a parameter has changed (by its version counter or address; a write through `.data`
is seen by the next `bind`).
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from paseo.base import Condition, Knob
from paseo.operators.conditioning import AffineCellNorm
from paseo.operators.embedding import noise_embedding
from paseo.operators.knobs import knobs_of, turned
from paseo.operators.pool import doubled, halved
from paseo.windows import Area

if TYPE_CHECKING:
    from paseo.operators.net import OperatorBlock, OperatorNet

Map = Callable[[Tensor], Tensor]
aten = torch.ops.aten
FUSED_DEVICES = ("cpu", "cuda")  # where aten has a GroupNorm backward kernel


class BoundOperator:
    """z ↦ H(z, s, c) for one noise level s (std on [-1,1] images) and, of a family, one degradation: what
    samplers call and linearise.
    """

    cell_bytes = 19 * 1024  # linearised, per latent cell (see paseo.memory)

    def __init__(self, net: OperatorNet, s: float, condition: Condition | None = None) -> None:
        self.net, self.s, self.condition = net, s, condition
        self.c, self.seen = _parameters(net, condition)
        self._packed: PackedNet | None = None
        self._seen: tuple[tuple[int, int], ...] = ()

    def __call__(self, z: Tensor) -> Tensor:
        return self.net(z, self.s, self.c, self.seen)

    @property
    def residual(self) -> Tensor | None:
        """RMS error of H per channel on held-out images (C, 1, 1), None where the operator's config does not
        tell; a family's at the parameters at hand.
        """
        errors, family = self.net.spec.residual, self.net.spec.family
        if family is not None and self.condition is not None:
            errors = family.residual_at(self.condition.numbers)
        return torch.tensor(errors).view(-1, 1, 1) if errors else None

    @torch.no_grad()
    def linearize(self, z: Tensor) -> tuple[Tensor, Map, Map]:
        """(H(z), v ↦ J v, u ↦ Jᵀ u) at z."""
        self.net.check_latent(z)
        self.net.check_seen(z, self.seen)
        m = self.net.shown(z, self.seen)
        z = (z.detach() * m).contiguous()
        tangent = NetTangent(self._weights(), z, self.net.stem_input(z, self.seen), m)
        return tangent.value, tangent.jvp, tangent.vjp

    def knobs(self) -> dict[str, Knob]:
        """What a family's operator can be turned to; a dedicated one has none."""
        return {} if self.condition is None else knobs_of(self.net.spec.family, self.condition)

    def turned(self, values: dict[str, float]) -> BoundOperator:
        """The operator with other parameters."""
        assert self.condition is not None
        here = copy(self)
        here.condition = turned(self.condition, values)
        here.c, _ = _parameters(self.net, here.condition)
        here._packed = None
        return here

    def at(self, area: Area, canvas: tuple[int, int]) -> BoundOperator:
        """The operator at a window of a canvas of (h, w) cells; the packed weights are shared."""
        self._weights()
        here = copy(self)
        here.net = self.net.at(area, canvas)
        if here.seen is not None:
            here.seen = area.cut(here.seen)
        return here

    def _weights(self) -> PackedNet:
        now = tuple((p.data_ptr(), 0 if p.is_inference() else p._version) for p in self.net.parameters())
        if self._packed is None or now != self._seen:
            self._packed, self._seen = PackedNet(self.net, self.s, self.c), now
        return self._packed


class PackedConv:
    """A stride-1 convolution that keeps the size, and its transpose."""

    __slots__ = ("bias", "padding", "transposed", "weight")

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.weight, self.bias = weight.detach().contiguous(), bias
        self.transposed = self.weight.flip(2, 3).transpose(0, 1).contiguous()
        self.padding = weight.shape[-1] // 2

    def value(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weight, self.bias, padding=self.padding)

    def jvp(self, v: Tensor) -> Tensor:
        return F.conv2d(v, self.weight, None, padding=self.padding)

    def vjp(self, u: Tensor) -> Tensor:
        return F.conv2d(u, self.transposed, None, padding=self.padding)


class PackedBlock:
    """A residual block whose embedding has become a bias and, of a family, a factor per hidden channel."""

    __slots__ = ("conv1", "conv2", "norm1", "norm2", "scale", "shift", "skip")

    def __init__(self, block: OperatorBlock, e: Tensor, scale: Tensor | None) -> None:
        self.scale = scale
        self.conv1, self.conv2 = _packed(block.conv1), _packed(block.conv2)
        self.norm1, self.norm2 = block.norm1, block.norm2
        self.shift = block.noise(e)[:, :, None, None]
        self.skip = _packed(block.skip) if isinstance(block.skip, nn.Conv2d) else None


class PackedNet:
    """The network's weights as the tangent uses them; the factor 1 − g of the body is part of its head."""

    def __init__(self, net: OperatorNet, s: float, c: Tensor | None) -> None:
        e = noise_embedding(s, net.stem.weight)
        blocks = net.blocks()
        scales: list[Tensor | None] = [None] * len(blocks)
        self.mixed: PackedConv | None = None
        if c is not None:
            u, e = net.encoder(c.to(e), e)
            scales = [net.encoder.scale(i, u) for i in range(len(blocks))]
            self.mixed = PackedConv(net.encoder.kernel(u)[0], None)
        self.pooled = net.spec.pooled
        self.gate = torch.sigmoid(net.gate(e)).item()
        self.skip_scale = net.skip_scale.item()
        self.stem = _packed(net.stem)
        self.stem_z = PackedConv(net.stem.weight[:, : net.spec.channels], None)  # positions do not move
        self.colour = _packed(net.colour)
        self.head = _packed(net.head, 1 - self.gate)
        self.blocks = [PackedBlock(block, e, scale) for block, scale in zip(blocks, scales, strict=True)]


class NormTangent:
    """A GroupNorm at a."""

    __slots__ = ("a", "gamma", "groups", "mean", "norm", "rstd", "shape", "weight")

    def __init__(self, norm: nn.GroupNorm, a: Tensor) -> None:
        self.norm = norm
        self.a, self.groups, self.shape = (
            a,
            norm.num_groups,
            (a.shape[0], a.shape[1], a.shape[2] * a.shape[3]),
        )
        self.weight = norm.weight.detach()
        self.gamma = self.weight.view(1, -1, 1, 1)

    def value(self) -> Tensor:
        norm = self.norm
        n, self.mean, self.rstd = aten.native_group_norm(
            self.a, norm.weight, norm.bias, *self.shape, self.groups, norm.eps
        )
        return n

    def project(self, t: Tensor, weight: Tensor | None = None) -> Tensor:
        """P (γ t) / std with γ = `weight`, or P t / std; t is contiguous."""
        if t.device.type not in FUSED_DEVICES:
            return self.project_plain(t if weight is None else t * self.gamma)
        return aten.native_group_norm_backward(
            t, self.a, self.mean, self.rstd, weight, *self.shape, self.groups, (True, False, False)
        )[0]

    def project_plain(self, t: Tensor) -> Tensor:
        """P t / std without aten's kernel."""
        t, a = t.reshape(t.shape[0], self.groups, -1), self.a.reshape(t.shape[0], self.groups, -1)
        rstd = self.rstd.unsqueeze(-1)
        a = (a - self.mean.unsqueeze(-1)) * rstd
        return (rstd * (t - t.mean(-1, keepdim=True) - a * (a * t).mean(-1, keepdim=True))).view(self.a.shape)


class CellNormTangent:
    """A normalisation per cell at a: as NormTangent, with the channels of a cell as the one group."""

    __slots__ = ("a", "gamma", "norm", "rstd", "weight")

    def __init__(self, norm: AffineCellNorm, a: Tensor) -> None:
        self.norm = norm
        self.a, self.weight = a, norm.weight.detach()
        self.gamma = self.weight.view(1, -1, 1, 1)

    def value(self) -> Tensor:
        self.a = self.a - self.a.mean(1, keepdim=True)
        self.rstd = (self.a.square().mean(1, keepdim=True) + self.norm.eps).rsqrt()
        self.a.mul_(self.rstd)
        return torch.addcmul(self.norm.bias.view(1, -1, 1, 1), self.a, self.gamma)

    def project(self, t: Tensor, weight: Tensor | None = None) -> Tensor:
        """P (γ t) / std with γ = `weight`, or P t / std."""
        t = t if weight is None else t * self.gamma
        along = (self.a * t).mean(1, keepdim=True)
        return (t - t.mean(1, keepdim=True)).addcmul_(self.a, along, value=-1).mul_(self.rstd)


def norm_tangent(norm: nn.GroupNorm | AffineCellNorm, a: Tensor) -> NormTangent | CellNormTangent:
    return CellNormTangent(norm, a) if isinstance(norm, AffineCellNorm) else NormTangent(norm, a)


class BlockTangent:
    """A residual block at x: SiLU(skip(x) + GN2(Conv2(SiLU(GN1(Conv1 x)) + shift)))."""

    __slots__ = ("factor1", "factor2", "norm1", "norm2", "p", "value")

    def __init__(self, p: PackedBlock, x: Tensor) -> None:
        self.p = p
        self.norm1 = norm_tangent(p.norm1, p.conv1.value(x))
        n = self.norm1.value()
        gain = self.norm1.gamma if p.scale is None else self.norm1.gamma * p.scale
        self.factor1 = aten.silu_backward(gain.expand_as(n), n)  # γ SiLU′, times the family's factor
        n = F.silu(n, inplace=True)
        n = n.add_(p.shift) if p.scale is None else n.mul_(p.scale).add_(p.shift)
        self.norm2 = norm_tangent(p.norm2, p.conv2.value(n))
        n = self.norm2.value().add_(x if p.skip is None else p.skip.value(x))
        self.factor2 = aten.silu_backward(n.new_ones(()).expand_as(n), n)  # SiLU′
        self.value = F.silu(n, inplace=True)

    def jvp(self, v: Tensor) -> Tensor:
        p = self.p
        t = self.norm1.project(p.conv1.jvp(v)).mul_(self.factor1)
        t = self.norm2.project(p.conv2.jvp(t))
        skip = v if p.skip is None else p.skip.jvp(v)
        return torch.addcmul(skip, t, self.norm2.gamma, out=t).mul_(self.factor2)

    def vjp(self, u: Tensor) -> Tensor:
        """Jᵀ u; u is contiguous and is overwritten."""
        p, u = self.p, u.mul_(self.factor2)
        t = p.conv2.vjp(self.norm2.project(u, self.norm2.weight)).mul_(self.factor1)
        t = p.conv1.vjp(self.norm1.project(t))
        return t.add_(u if p.skip is None else p.skip.vjp(u))


class NetTangent:
    """The network at z: H = (1 − g) head(body([z, p])) + g SiLU(colour(z)) + k z, of a family + M z."""

    def __init__(self, p: PackedNet, z: Tensor, stem_input: Tensor, m: Tensor | float) -> None:
        self.p = p
        self.m = m
        k0 = p.stem.value(stem_input)
        self.blocks: list[BlockTangent] = []
        k1 = self._enter(k0)
        h = halved(k1) if p.pooled else k1
        for _ in range(4):
            h = self._enter(h)
        self.size = (z.shape[2], z.shape[3])
        h = doubled(h, self.size) if p.pooled else h
        self.split1, self.split0 = h.shape[1], k1.shape[1]
        h = self._enter(torch.cat([h, k1], dim=1))
        h = self._enter(torch.cat([h, k0], dim=1))
        c = p.colour.value(z)
        self.factor = aten.silu_backward(c.new_tensor(p.gate).expand_as(c), c)  # g SiLU′
        self.value = p.head.value(h).add_(F.silu(c), alpha=p.gate).add_(z, alpha=p.skip_scale)
        if p.mixed is not None:
            self.value.add_(p.mixed.value(z))

    def _enter(self, x: Tensor) -> Tensor:
        self.blocks.append(BlockTangent(self.p.blocks[len(self.blocks)], x))
        return self.blocks[-1].value

    @torch.no_grad()
    def jvp(self, v: Tensor) -> Tensor:
        p, v = self.p, (v * self.m).contiguous()
        k0 = p.stem_z.jvp(v)
        k1 = self.blocks[0].jvp(k0)
        t = halved(k1) if p.pooled else k1
        for block in self.blocks[1:5]:
            t = block.jvp(t)
        t = doubled(t, self.size) if p.pooled else t
        t = self.blocks[5].jvp(torch.cat([t, k1], dim=1))
        t = self.blocks[6].jvp(torch.cat([t, k0], dim=1))
        t = p.head.jvp(t).addcmul_(self.factor, p.colour.jvp(v)).add_(v, alpha=p.skip_scale)
        return t if p.mixed is None else t.add_(p.mixed.jvp(v))

    @torch.no_grad()
    def vjp(self, u: Tensor) -> Tensor:
        p, u = self.p, u.contiguous()
        t = self.blocks[6].vjp(p.head.vjp(u))
        t, k0 = t[:, : self.split0].contiguous(), t[:, self.split0 :]
        t = self.blocks[5].vjp(t)
        t, k1 = t[:, : self.split1].contiguous(), t[:, self.split1 :]
        t = halved(t).mul_(4) if p.pooled else t
        for block in reversed(self.blocks[1:5]):
            t = block.vjp(t)
        t = doubled(t, self.size).div(4) if p.pooled else t
        t = self.blocks[0].vjp(t.add_(k1)).add_(k0)
        t = p.stem_z.vjp(t).add_(p.colour.vjp(self.factor * u)).add_(u, alpha=p.skip_scale)
        return (t if p.mixed is None else t.add_(p.mixed.vjp(u))).mul_(self.m)


def _packed(conv: nn.Conv2d, factor: float = 1.0) -> PackedConv:
    bias = None if conv.bias is None else conv.bias.detach()
    if factor == 1.0:
        return PackedConv(conv.weight, bias)
    return PackedConv(factor * conv.weight, None if bias is None else factor * bias)


def _parameters(net: OperatorNet, condition: Condition | None) -> tuple[Tensor | None, Tensor | None]:
    """c (1, P) in the order of the network's family, and the seen shares."""
    family = net.spec.family
    if family is None or condition is None:
        return None, None
    return torch.tensor([family.vector(condition.numbers)], dtype=torch.float64), condition.seen
