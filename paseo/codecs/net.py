"""The embedded autoencoder's network: 128×128×3 images to 16×16×c latents and back, for two CPU cores.

The encoder is a wide linear filter bank (a 16-pixel patch, stride 8) plus a small smooth correction, so that
a linear degradation of the image stays close to a linear map of the latent: that is what H_ψ has to learn and
what each PASEO step linearises. The decoder carries the weight. No normalisation layers: a latent cell's
image does not depend on far cells, and any size that is a multiple of 8 works. SiLU throughout, so that E∘A∘D
has a derivative.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Block(nn.Module):
    """Residual block: x + Conv(SiLU(Conv(SiLU(x)))), the last convolution starting at zero."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.a = nn.Conv2d(width, width, 3, padding=1)
        self.b = nn.Conv2d(width, width, 3, padding=1)
        nn.init.zeros_(self.b.weight)
        nn.init.zeros_(torch.as_tensor(self.b.bias))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.b(F.silu(self.a(F.silu(x))))


class Encoder(nn.Module):
    """(B,3,H,W) in [-1,1] → (B,c,H/8,W/8), before normalisation."""

    def __init__(self, channels: int, widths: tuple[int, int, int], blocks: tuple[int, int, int]) -> None:
        super().__init__()
        w64, w32, w16 = widths
        self.linear = nn.Conv2d(3, channels, 16, stride=8, padding=4)
        self.stem = nn.Conv2d(12, w64, 3, padding=1)  # after a pixel-unshuffle by 2
        self.body64 = nn.Sequential(*[Block(w64) for _ in range(blocks[0])])
        self.down32 = nn.Conv2d(w64, w32, 2, stride=2)
        self.body32 = nn.Sequential(*[Block(w32) for _ in range(blocks[1])])
        self.down16 = nn.Conv2d(w32, w16, 2, stride=2)
        self.body16 = nn.Sequential(*[Block(w16) for _ in range(blocks[2])])
        self.head = nn.Conv2d(w16, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        h = self.body64(self.stem(F.pixel_unshuffle(x, 2)))
        h = self.body16(self.down16(self.body32(self.down32(h))))
        return self.linear(x) + self.head(F.silu(h))


class Decoder(nn.Module):
    """(B,c,h,w) → (B,3,8h,8w), nominally in [-1,1], not clamped."""

    def __init__(self, channels: int, widths: tuple[int, int, int], blocks: tuple[int, int, int]) -> None:
        super().__init__()
        w64, w32, w16 = widths
        self.stem = nn.Conv2d(channels, w16, 3, padding=1)
        self.body16 = nn.Sequential(*[Block(w16) for _ in range(blocks[2])])
        self.up32 = nn.Conv2d(w16, 4 * w32, 1)  # then a pixel-shuffle by 2
        self.body32 = nn.Sequential(*[Block(w32) for _ in range(blocks[1])])
        self.up64 = nn.Conv2d(w32, 4 * w64, 1)
        self.body64 = nn.Sequential(*[Block(w64) for _ in range(blocks[0])])
        self.head = nn.Conv2d(w64, 12, 3, padding=1)

    def forward(self, z: Tensor) -> Tensor:
        h = self.body16(self.stem(z))
        h = self.body32(F.pixel_shuffle(self.up32(h), 2))
        h = self.body64(F.pixel_shuffle(self.up64(h), 2))
        return F.pixel_shuffle(self.head(F.silu(h)), 2)


class AutoencoderNet(nn.Module):
    """Encoder, decoder and the per-channel statistics that make latents zero-mean and unit-variance."""

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        channels: int = 16,
        widths: tuple[int, int, int] = (32, 64, 128),
        encoder_blocks: tuple[int, int, int] = (1, 1, 2),
        decoder_blocks: tuple[int, int, int] = (2, 4, 4),
    ) -> None:
        super().__init__()
        self.config = dict(
            channels=channels, widths=widths, encoder_blocks=encoder_blocks, decoder_blocks=decoder_blocks
        )
        self.encoder = Encoder(channels, tuple(widths), tuple(encoder_blocks))  # type: ignore[arg-type]
        self.decoder = Decoder(channels, tuple(widths), tuple(decoder_blocks))  # type: ignore[arg-type]
        self.register_buffer("mean", torch.zeros(1, channels, 1, 1))
        self.register_buffer("std", torch.ones(1, channels, 1, 1))

    def encode(self, x: Tensor) -> Tensor:
        return (self.encoder(x) - self.mean) / self.std

    def decode(self, z: Tensor, decoder: Decoder | None = None) -> Tensor:
        """By its own decoder, or by another of the same latents."""
        return (decoder or self.decoder)(z * self.std + self.mean)
