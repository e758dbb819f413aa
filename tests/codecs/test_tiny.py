"""TAESD and its siblings, from diffusers folders and from the original files, against the original module
written out.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from paseo.codecs.tiny import SPACES, TinyCodec
from paseo.errors import BadInput, MissingWeights
from paseo.hub.autoencoder import is_codec, open_codec

WEIGHTS = os.environ.get("PASEO_TAESD_DIR", "")


class Block(nn.Module):
    def __init__(self, width: int = 64) -> None:
        super().__init__()
        layers = [layer for i in range(3) for layer in (nn.Conv2d(width, width, 3, padding=1), nn.ReLU())]
        self.conv, self.fuse = nn.Sequential(*layers[:-1]), nn.ReLU()
        self.skip = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.fuse(self.conv(x) + self.skip(x))


class Clamp(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x / 3) * 3


def original_encoder(channels: int) -> nn.Sequential:
    """Images in [0,1] → latents."""
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 3, padding=1), Block()]
    for _ in range(3):
        layers += [nn.Conv2d(64, 64, 3, padding=1, stride=2, bias=False), Block(), Block(), Block()]
    return nn.Sequential(*layers, nn.Conv2d(64, channels, 3, padding=1))


def original_decoder(channels: int) -> nn.Sequential:
    """Latents → images in [0,1]."""
    layers: list[nn.Module] = [Clamp(), nn.Conv2d(channels, 64, 3, padding=1), nn.ReLU()]
    for _ in range(3):
        layers += [
            Block(),
            Block(),
            Block(),
            nn.Upsample(scale_factor=2),
            nn.Conv2d(64, 64, 3, padding=1, bias=False),
        ]
    return nn.Sequential(*layers, Block(), nn.Conv2d(64, 3, 3, padding=1))


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, nn.Sequential, nn.Sequential]:
    from safetensors.torch import save_file

    folder = tmp_path_factory.mktemp("taesd")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoder, decoder = original_encoder(16), original_decoder(16)
    save_file(encoder.state_dict(), folder / "taesd3_encoder.safetensors")
    save_file(decoder.state_dict(), folder / "taesd3_decoder.safetensors")
    return folder, encoder, decoder


@torch.no_grad()
def test_the_original_files_give_the_original_modules(
    originals: tuple[Path, nn.Sequential, nn.Sequential],
) -> None:
    folder, encoder, decoder = originals
    codec = TinyCodec.from_original(folder, "taesd3")
    assert (codec.channels, codec.factor, codec.latent_space) == (16, 8, "sd3")
    x = torch.rand(2, 3, 40, 64, generator=torch.Generator().manual_seed(0))
    z = codec.encode(2 * x - 1)
    torch.testing.assert_close(z, encoder(x))
    big = 5 * torch.randn(1, 16, 4, 6, generator=torch.Generator().manual_seed(1))  # beyond the clamp
    torch.testing.assert_close(codec.decode(big), 2 * decoder(big) - 1)


@torch.no_grad()
def test_a_diffusers_folder_gives_the_same(
    originals: tuple[Path, nn.Sequential, nn.Sequential], tmp_path: Path
) -> None:
    codec = TinyCodec.from_original(originals[0], "taesd3")
    codec.vae.save_pretrained(tmp_path / "tiny")
    again = open_codec(tmp_path / "tiny")
    x = torch.rand(1, 3, 32, 32, generator=torch.Generator().manual_seed(2)) * 2 - 1
    assert again.hash == codec.hash
    assert torch.equal(again.encode(x), codec.encode(x))


def test_by_its_stem(originals: tuple[Path, nn.Sequential, nn.Sequential]) -> None:
    assert is_codec(originals[0] / "taesd3")
    assert open_codec(originals[0] / "taesd3").hash == TinyCodec.from_original(originals[0], "taesd3").hash
    assert not is_codec(originals[0] / "taesd")


def test_missing_and_foreign_files_are_named(
    originals: tuple[Path, nn.Sequential, nn.Sequential], tmp_path: Path
) -> None:
    from safetensors.torch import save_file

    with pytest.raises(MissingWeights, match=r"taesd_encoder\.safetensors does not exist"):
        TinyCodec.from_original(originals[0], "taesd")
    with pytest.raises(BadInput, match="taesd3"):
        TinyCodec.from_original(originals[0], "taesd4")
    for part in ("encoder", "decoder"):
        save_file({"0.weight": torch.zeros(4, 3, 3, 3)}, tmp_path / f"taesd_{part}.safetensors")
    with pytest.raises(MissingWeights, match="do not hold a tiny autoencoder"):
        TinyCodec.from_original(tmp_path, "taesd")
    with pytest.raises(MissingWeights, match="no AutoencoderTiny"):
        TinyCodec.from_pretrained(tmp_path)


def test_refusals(originals: tuple[Path, nn.Sequential, nn.Sequential]) -> None:
    codec = TinyCodec.from_original(originals[0], "taesd3")
    with pytest.raises(BadInput, match="multiple of 8"):
        codec.encode(torch.zeros(1, 3, 7, 9))
    with pytest.raises(BadInput, match="another model"):
        codec.decode(torch.zeros(1, 4, 8, 8))


@pytest.mark.weights
@pytest.mark.skipif(
    not WEIGHTS, reason="set PASEO_TAESD_DIR to a folder with the original TAESD safetensors files"
)
@torch.no_grad()
@pytest.mark.parametrize(
    ("name", "floor"), [("taesd", 24.0), ("taesdxl", 24.0), ("taesd3", 27.0), ("taef1", 27.0)]
)
def test_real_weights_reconstruct_a_photograph(name: str, floor: float) -> None:
    from skimage import data

    x = torch.from_numpy(data.chelsea()[60:188, 100:228].copy()).permute(2, 0, 1)[None].float() / 255
    codec = TinyCodec.from_original(WEIGHTS, name)
    assert codec.latent_space == SPACES[name]
    error = (codec.decode(codec.encode(2 * x - 1)).clamp(-1, 1) / 2 + 0.5 - x).square().mean()
    assert -10 * torch.log10(error) > floor
