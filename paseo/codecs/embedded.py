"""The embedded autoencoder as a codec: E and D between images in [-1,1] and normalised latents."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import torch
from torch import Tensor, nn

from paseo.codecs.net import AutoencoderNet
from paseo.errors import BadInput, MissingWeights


class EmbeddedCodec(nn.Module):
    """`encode` and `decode` of `AutoencoderNet`, frozen; latents are zero-mean and unit-variance per channel."""

    factor = 8

    def __init__(self, net: AutoencoderNet, latent_space: str = "embedded", digest: str = "") -> None:
        super().__init__()
        self.net = net.eval().requires_grad_(False)
        self.latent_space = latent_space
        self.hash = digest  # SHA-256 of the weights file: operators remember which codec they belong to
        self.channels: int = int(net.mean.shape[1])

    def encode(self, x: Tensor) -> Tensor:
        if x.ndim != 4 or x.shape[1] != 3 or x.shape[2] % 8 or x.shape[3] % 8:
            raise BadInput(f"The codec takes (B,3,H,W) with H and W multiples of 8, got {tuple(x.shape)}.")
        return self.net.encode(x)

    def decode(self, z: Tensor) -> Tensor:
        if z.ndim != 4 or z.shape[1] != self.channels:
            raise BadInput(f"The codec decodes (B,{self.channels},h,w), got {tuple(z.shape)}.")
        return self.net.decode(z)

    @classmethod
    def load(cls, folder: Path, latent_space: str = "embedded") -> EmbeddedCodec:
        """From a folder with `codec.safetensors` and the entry "codec" of `config.json`."""
        from safetensors.torch import load_file

        path = folder / "codec.safetensors"
        if not path.is_file():
            raise MissingWeights(f"{path.name} is missing in {folder}. Reinstall the package or train one with `paseo train codec`.")
        net = AutoencoderNet(**json.loads((folder / "config.json").read_text())["codec"])
        state = {k: v.to(torch.float32) for k, v in load_file(path).items()}
        net.load_state_dict(state)
        return cls(net, latent_space, hashlib.sha256(path.read_bytes()).hexdigest())
