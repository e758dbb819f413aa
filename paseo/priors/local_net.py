"""The `photos` prior's network: a U-Net velocity u(x, t) ≈ E[ε − z | x_t = x] that does not know where it is.

Fully convolutional and translation-equivariant, so that a larger picture is more of the same and a window of
a picture gives what the whole gives: no position channels, no attention, no statistics over the picture (each
cell is normalised over its own channels). Two halvings by stride make it equivariant to shifts of `multiple`
= 4 cells.

Padding is zeros by default: outside of a crop nothing is known, and zeros say so. Training crops are cut
anywhere, so a border means "unknown from here on" and never "the picture ends", which is what a window's
border means too. Repeating the edge cell ("replicate") claims that the picture goes on unchanged; it keeps
the activations' statistics near a border, but costs a quarter of the training speed on 16×16 crops (a
convolution skips zeros for free). Both have the same weights, so a network can be trained with one and
finished with the other.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from paseo.priors.net import sinusoids

Padding = Literal["zeros", "reflect", "replicate"]


class CellNorm(nn.Module):
    """Each cell over its own channels to mean 0 and variance 1, without a scale of its own: the convolution
    or the modulation after it has one. In channels_last the permuted view is contiguous and costs nothing.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.shape = (width,)

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x.permute(0, 2, 3, 1), self.shape).permute(0, 3, 1, 2)


def conv3(c_in: int, c_out: int, padding_mode: Padding) -> nn.Conv2d:
    return nn.Conv2d(c_in, c_out, 3, padding=1, padding_mode=padding_mode)


class LocalBlock(nn.Module):
    """x + Conv(SiLU(N(Conv(SiLU(N(x))))·(1+a)+b)), with (a, b) from the time embedding; the last conv starts
    at zero.
    """

    def __init__(self, c_in: int, c_out: int, c_time: int, padding_mode: Padding) -> None:
        super().__init__()
        self.norm1, self.conv1 = CellNorm(c_in), conv3(c_in, c_out, padding_mode)
        self.time = nn.Linear(c_time, 2 * c_out)
        self.norm2, self.conv2 = CellNorm(c_out), conv3(c_out, c_out, padding_mode)
        self.skip = nn.Conv2d(c_in, c_out, 1) if c_in != c_out else nn.Identity()
        for p in (*self.conv2.parameters(), *self.time.parameters()):
            nn.init.zeros_(p)

    def forward(self, x: Tensor, e: Tensor) -> Tensor:
        a, b = self.time(e)[:, :, None, None].chunk(2, dim=1)
        h = self.conv1(F.silu(self.norm1(x)))
        h = self.conv2(F.silu(torch.addcmul(b, self.norm2(h), 1 + a)))
        return self.skip(x) + h


class LocalUNet(nn.Module):
    """u(x, t) for x (B,c,h,w) with sides that are multiples of `multiple`, and t (B,) in [0, 1]."""

    def __init__(
        self,
        channels: int = 16,
        widths: tuple[int, ...] = (96, 192, 256),
        blocks: int = 2,
        padding: Padding = "zeros",
    ) -> None:
        super().__init__()
        widths = tuple(widths)
        self.config = dict(
            kind="local", channels=channels, widths=list(widths), blocks=blocks, padding=padding
        )
        self.multiple = 2 ** (len(widths) - 1)
        self.receptive_field = receptive_field(len(widths), blocks)
        c_time = 2 * widths[0]
        self.frequencies = c_time
        self.embed = nn.Sequential(
            nn.Linear(self.frequencies, c_time), nn.SiLU(), nn.Linear(c_time, c_time), nn.SiLU()
        )
        self.stem = conv3(channels, widths[0], padding)
        ins = (widths[0], *widths[:-1])
        self.down = nn.ModuleList(
            nn.ModuleList(LocalBlock(c, w, c_time, padding) for c in [c_in] + [w] * (blocks - 1))
            for c_in, w in zip(ins, widths, strict=True)
        )
        self.shrink = nn.ModuleList(nn.Conv2d(w, w, 2, stride=2) for w in widths[:-1])
        self.middle = LocalBlock(widths[-1], widths[-1], c_time, padding)
        outs = (*widths[1:], widths[-1])
        self.up = nn.ModuleList(
            nn.ModuleList(LocalBlock(c, w, c_time, padding) for c in [c_above + w] + [2 * w] * (blocks - 1))
            for c_above, w in zip(outs, widths, strict=True)
        )
        self.norm, self.head = CellNorm(widths[0]), conv3(widths[0], channels, padding)
        for p in self.head.parameters():
            nn.init.zeros_(p)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        e = self.embed(sinusoids(t, self.frequencies).to(x.dtype))
        h = self.stem(x.contiguous(memory_format=torch.channels_last))
        skips: list[Tensor] = []
        for i, level in enumerate(self.down):
            for block in level.children():
                h = block(h, e)
                skips.append(h)
            if i < len(self.shrink):
                h = self.shrink[i](h)
        h = self.middle(h, e)
        for i in reversed(range(len(self.up))):
            if i < len(self.shrink):
                h = F.interpolate(h, scale_factor=2.0, mode="nearest")
            for block in self.up[i].children():
                h = block(torch.cat([h, skips.pop()], dim=1), e)
        return self.head(F.silu(self.norm(h)))


def receptive_field(levels: int, blocks: int) -> int:
    """How many cells to each side a cell of the output can see: 3×3 convolutions reach one cell of their own
    level, and a cell of level i stands for 2^i cells, of which the seen one may be the first or the last.
    """
    reach = 2  # stem and head
    for level in range(levels - 1):
        reach += 4 * blocks * 2**level  # two convolutions per block, on the way down and on the way up
    reach += (4 * blocks + 2) * 2 ** (levels - 1)  # the lowest level, and the block in the middle
    return reach + 2 ** (levels - 1) - 1
