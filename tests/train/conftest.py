"""Small pictures and a small codec, for training tests."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from toy_pictures import picture

from paseo.codecs.embedded import EmbeddedCodec
from paseo.codecs.net import AutoencoderNet


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Twenty PNG files of 32×32."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for i in range(20):
        picture(i).save(folder / f"p{i:02d}.png")
    return folder


@pytest.fixture
def codec() -> EmbeddedCodec:
    """Four channels, untrained but with unit-variance latents."""
    torch.manual_seed(0)
    net = AutoencoderNet(4, (8, 8, 16), (1, 1, 1), (1, 1, 1))
    with torch.no_grad():
        z = net.encoder(torch.randn(8, 3, 32, 32))
        net.std.copy_(z.std((0, 2, 3), keepdim=True))
    return EmbeddedCodec(net, "tiny")
