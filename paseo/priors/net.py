"""The embedded prior's network: a small U-Net that predicts the flow's velocity u(x, t) ≈ E[ε − z | x_t = x].

Made for 16×16 latents on two CPU cores: residual blocks with time-modulated group norms, attention only where
there are at most 64 cells, two coordinate channels because the faces are aligned. Any latent size that is a
multiple of 4 works.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

FUSED_FROM = 1024
"""Cells above which attention is given contiguous heads. Only with them torch takes its fused kernel; the
other
one holds all pairs of cells (6.6 GB at 2048×1536), but at 128 px it is as fast, and stored records replay
to the same bytes.
"""


class ResBlock(nn.Module):
    """x + Conv(SiLU(GN(Conv(SiLU(GN(x)))·(1+a)+b))), with (a, b) from the time embedding; the last conv
    starts at zero.
    """

    def __init__(self, c_in: int, c_out: int, c_time: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(8, c_in), nn.Conv2d(c_in, c_out, 3, padding=1)
        self.time = nn.Linear(c_time, 2 * c_out)
        self.norm2, self.conv2 = nn.GroupNorm(8, c_out), nn.Conv2d(c_out, c_out, 3, padding=1)
        self.skip = nn.Conv2d(c_in, c_out, 1) if c_in != c_out else nn.Identity()
        for p in (*self.conv2.parameters(), *self.time.parameters()):
            nn.init.zeros_(p)

    def forward(self, x: Tensor, e: Tensor) -> Tensor:
        a, b = self.time(e)[:, :, None, None].chunk(2, dim=1)
        h = self.conv1(F.silu(self.norm1(x)))
        h = self.conv2(F.silu(self.norm2(h) * (1 + a) + b))
        return self.skip(x) + h


class Attention(nn.Module):
    """Self-attention over the cells, as a residual that starts at zero."""

    def __init__(self, width: int, head: int = 32) -> None:
        super().__init__()
        self.heads = width // head
        self.norm, self.qkv, self.out = (
            nn.GroupNorm(8, width),
            nn.Conv2d(width, 3 * width, 1),
            nn.Conv2d(width, width, 1),
        )
        for p in self.out.parameters():
            nn.init.zeros_(p)

    def forward(self, x: Tensor) -> Tensor:
        b, c, h, w = x.shape
        qkv = self.qkv(self.norm(x)).reshape(b, 3, self.heads, c // self.heads, h * w).transpose(-1, -2)
        q, k, v = (qkv.contiguous() if h * w > FUSED_FROM else qkv).unbind(1)
        y = F.scaled_dot_product_attention(q, k, v)
        return x + self.out(y.transpose(-1, -2).reshape(b, c, h, w))


class Level(nn.Module):
    """Some blocks at one resolution, each followed by attention where asked for."""

    def __init__(self, c_ins: list[int], c_out: int, c_time: int, attend: bool) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(ResBlock(c, c_out, c_time) for c in c_ins)
        self.attention = nn.ModuleList(Attention(c_out) if attend else nn.Identity() for _ in c_ins)


def pairs(level: Any) -> Iterator[tuple[nn.Module, nn.Module]]:
    """Each block of a level with the attention that follows it."""
    return zip(level.blocks, level.attention, strict=True)


class FlowUNet(nn.Module):
    """u(x, t) for x (B,c,h,w) and t (B,) in [0, 1]."""

    def __init__(
        self,
        channels: int = 16,
        widths: tuple[int, ...] = (96, 160, 192),
        blocks: int = 2,
        attend_from: int = 1,
    ) -> None:
        super().__init__()
        widths = tuple(widths)
        self.config = dict(channels=channels, widths=list(widths), blocks=blocks, attend_from=attend_from)
        c_time = 2 * widths[0]
        self.frequencies = 2 * widths[0]
        self.embed = nn.Sequential(
            nn.Linear(self.frequencies, c_time), nn.SiLU(), nn.Linear(c_time, c_time), nn.SiLU()
        )
        self.stem = nn.Conv2d(channels + 2, widths[0], 3, padding=1)
        ins = (widths[0], *widths[:-1])
        self.down = nn.ModuleList(
            Level([c_in] + [w] * (blocks - 1), w, c_time, i >= attend_from)
            for i, (c_in, w) in enumerate(zip(ins, widths, strict=True))
        )
        self.shrink = nn.ModuleList(nn.Conv2d(w, w, 2, stride=2) for w in widths[:-1])
        self.middle = Level([widths[-1]], widths[-1], c_time, True)
        outs = (*widths[1:], widths[-1])
        self.up = nn.ModuleList(
            Level([c_above + w] + [2 * w] * (blocks - 1), w, c_time, i >= attend_from)
            for i, (c_above, w) in enumerate(zip(outs, widths, strict=True))
        )
        self.norm, self.head = nn.GroupNorm(8, widths[0]), nn.Conv2d(widths[0], channels, 3, padding=1)
        for p in self.head.parameters():
            nn.init.zeros_(p)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        e = self.embed(sinusoids(t, self.frequencies).to(x.dtype))
        h = self.stem(torch.cat([x, coordinates(x)], dim=1))
        skips: list[Tensor] = []
        for i, level in enumerate(self.down):
            for block, attend in pairs(level):
                h = attend(block(h, e))
                skips.append(h)
            if i < len(self.shrink):
                h = self.shrink[i](h)
        h = self.middle.attention[0](self.middle.blocks[0](h, e))
        for i in reversed(range(len(self.up))):
            if i < len(self.shrink):
                h = F.interpolate(h, scale_factor=2.0, mode="nearest")
            for block, attend in pairs(self.up[i]):
                h = attend(block(torch.cat([h, skips.pop()], dim=1), e))
        return self.head(F.silu(self.norm(h)))


def sinusoids(t: Tensor, count: int) -> Tensor:
    """Sine and cosine features of 1000·t, (B, count)."""
    f = torch.exp(
        -math.log(10000.0) * torch.arange(count // 2, device=t.device, dtype=torch.float32) / (count // 2)
    )
    a = 1000.0 * t.float()[:, None] * f
    return torch.cat([a.sin(), a.cos()], dim=1)


def coordinates(x: Tensor) -> Tensor:
    """Two channels with the cell's position in [-1, 1]."""
    b, _, h, w = x.shape
    ys = torch.linspace(-1, 1, h, device=x.device, dtype=x.dtype).view(1, 1, h, 1).expand(b, 1, h, w)
    xs = torch.linspace(-1, 1, w, device=x.device, dtype=x.dtype).view(1, 1, 1, w).expand(b, 1, h, w)
    return torch.cat([ys, xs], dim=1)
