"""Small pictures and a small codec, for training tests."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from toy_pictures import picture

from paseo.codecs.embedded import EmbeddedCodec
from paseo.codecs.net import AutoencoderNet
from paseo.train.export import half, write_model_config, write_weights


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


@pytest.fixture
def codec_model(tmp_path: Path, codec: EmbeddedCodec) -> Path:
    """The folder of a model that has the small codec and no prior."""
    folder = tmp_path / "codec-model"
    digest = write_weights(half(codec.net), folder / "codec.safetensors")
    base = {"name": "tiny", "latent_space": "tiny", "size": 32}
    write_model_config(folder, base, "codec", dict(codec.net.config), {}, {"codec.safetensors": digest})
    return folder
