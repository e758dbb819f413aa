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
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from paseo.operators.embedding import noise_embedding

if TYPE_CHECKING:
    from paseo.operators.net import Block, OperatorNet

Map = Callable[[Tensor], Tensor]
aten = torch.ops.aten
FUSED_DEVICES = ("cpu", "cuda")  # where aten has a GroupNorm backward kernel


class BoundOperator:
    """z ↦ H(z, s) for one noise level s (std on [-1,1] images): what samplers call and linearise."""

    def __init__(self, net: OperatorNet, s: float) -> None:
        self.net, self.s = net, s
        self._packed: PackedNet | None = None
        self._seen: tuple[tuple[int, int], ...] = ()

    def __call__(self, z: Tensor) -> Tensor:
        return self.net(z, self.s)

    @property
    def residual(self) -> Tensor | None:
        """RMS error of H per channel on held-out images (C, 1, 1), None where the operator's config does not
        tell.
        """
        errors = self.net.spec.residual
        return torch.tensor(errors).view(-1, 1, 1) if errors else None

    @torch.no_grad()
    def linearize(self, z: Tensor) -> tuple[Tensor, Map, Map]:
        """(H(z), v ↦ J v, u ↦ Jᵀ u) at z."""
        self.net.check_latent(z)
        tangent = NetTangent(self._weights(), z.detach().contiguous(), self.net.positions(z))
        return tangent.value, tangent.jvp, tangent.vjp

    def _weights(self) -> PackedNet:
        now = tuple((p.data_ptr(), 0 if p.is_inference() else p._version) for p in self.net.parameters())
        if self._packed is None or now != self._seen:
            self._packed, self._seen = PackedNet(self.net, self.s), now
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
    """A residual block whose noise embedding has become a bias."""

    __slots__ = ("conv1", "conv2", "norm1", "norm2", "shift", "skip")

    def __init__(self, block: Block, e: Tensor) -> None:
        self.conv1, self.conv2 = _packed(block.conv1), _packed(block.conv2)
        self.norm1, self.norm2 = block.norm1, block.norm2
        self.shift = block.noise(e)[:, :, None, None]
        self.skip = _packed(block.skip) if isinstance(block.skip, nn.Conv2d) else None


class PackedNet:
    """The network's weights as the tangent uses them; the factor 1 − g of the body is part of its head."""

    def __init__(self, net: OperatorNet, s: float) -> None:
        e = noise_embedding(s, net.stem.weight)
        self.gate = torch.sigmoid(net.gate(e)).item()
        self.skip_scale = net.skip_scale.item()
        self.stem = _packed(net.stem)
        self.stem_z = PackedConv(net.stem.weight[:, : net.spec.channels], None)  # positions do not move
        self.colour = _packed(net.colour)
        self.head = _packed(net.head, 1 - self.gate)
        self.blocks = [PackedBlock(block, e) for block in net.blocks()]


class NormTangent:
    """A GroupNorm at a."""

    __slots__ = ("a", "gamma", "groups", "mean", "rstd", "shape", "weight")

    def __init__(self, norm: nn.GroupNorm, a: Tensor) -> None:
        self.a, self.groups, self.shape = (
            a,
            norm.num_groups,
            (a.shape[0], a.shape[1], a.shape[2] * a.shape[3]),
        )
        self.weight = norm.weight.detach()
        self.gamma = self.weight.view(1, -1, 1, 1)

    def value(self, norm: nn.GroupNorm) -> Tensor:
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


class BlockTangent:
    """A residual block at x: SiLU(skip(x) + GN2(Conv2(SiLU(GN1(Conv1 x)) + shift)))."""

    __slots__ = ("factor1", "factor2", "norm1", "norm2", "p", "value")

    def __init__(self, p: PackedBlock, x: Tensor) -> None:
        self.p = p
        self.norm1 = NormTangent(p.norm1, p.conv1.value(x))
        n = self.norm1.value(p.norm1)
        self.factor1 = aten.silu_backward(self.norm1.gamma.expand_as(n), n)  # γ SiLU′
        self.norm2 = NormTangent(p.norm2, p.conv2.value(F.silu(n, inplace=True).add_(p.shift)))
        n = self.norm2.value(p.norm2).add_(x if p.skip is None else p.skip.value(x))
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
    """The network at z: H = (1 − g) head(body([z, p])) + g SiLU(colour(z)) + k z."""

    def __init__(self, p: PackedNet, z: Tensor, positions: Tensor) -> None:
        self.p = p
        k0 = p.stem.value(torch.cat([z, positions.expand(z.shape[0], -1, -1, -1)], dim=1))
        self.blocks: list[BlockTangent] = []
        k1 = self._enter(k0)
        h = k1
        for _ in range(4):
            h = self._enter(h)
        self.split1, self.split0 = h.shape[1], k1.shape[1]
        h = self._enter(torch.cat([h, k1], dim=1))
        h = self._enter(torch.cat([h, k0], dim=1))
        c = p.colour.value(z)
        self.factor = aten.silu_backward(c.new_tensor(p.gate).expand_as(c), c)  # g SiLU′
        self.value = p.head.value(h).add_(F.silu(c), alpha=p.gate).add_(z, alpha=p.skip_scale)

    def _enter(self, x: Tensor) -> Tensor:
        self.blocks.append(BlockTangent(self.p.blocks[len(self.blocks)], x))
        return self.blocks[-1].value

    @torch.no_grad()
    def jvp(self, v: Tensor) -> Tensor:
        p, v = self.p, v.contiguous()
        k0 = p.stem_z.jvp(v)
        k1 = self.blocks[0].jvp(k0)
        t = k1
        for block in self.blocks[1:5]:
            t = block.jvp(t)
        t = self.blocks[5].jvp(torch.cat([t, k1], dim=1))
        t = self.blocks[6].jvp(torch.cat([t, k0], dim=1))
        return p.head.jvp(t).addcmul_(self.factor, p.colour.jvp(v)).add_(v, alpha=p.skip_scale)

    @torch.no_grad()
    def vjp(self, u: Tensor) -> Tensor:
        p, u = self.p, u.contiguous()
        t = self.blocks[6].vjp(p.head.vjp(u))
        t, k0 = t[:, : self.split0].contiguous(), t[:, self.split0 :]
        t = self.blocks[5].vjp(t)
        t, k1 = t[:, : self.split1].contiguous(), t[:, self.split1 :]
        for block in reversed(self.blocks[1:5]):
            t = block.vjp(t)
        t = self.blocks[0].vjp(t.add_(k1)).add_(k0)
        return p.stem_z.vjp(t).add_(p.colour.vjp(self.factor * u)).add_(u, alpha=p.skip_scale)


def _packed(conv: nn.Conv2d, factor: float = 1.0) -> PackedConv:
    bias = None if conv.bias is None else conv.bias.detach()
    if factor == 1.0:
        return PackedConv(conv.weight, bias)
    return PackedConv(factor * conv.weight, None if bias is None else factor * bias)
