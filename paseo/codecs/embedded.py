"""The embedded autoencoder as a codec: E and D between images in [-1,1] and normalised latents."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor, nn

from paseo.codecs.net import AutoencoderNet
from paseo.codecs.weights import check_image, check_latent, weights_hash
from paseo.errors import MissingWeights
from paseo.weights import build, part_of


class EmbeddedCodec(nn.Module):
    """`encode` and `decode` of `AutoencoderNet`, frozen; latents have mean 0 and variance 1 per channel."""

    factor = 8

    def __init__(self, net: AutoencoderNet, latent_space: str = "embedded") -> None:
        super().__init__()
        self.net = net.eval().requires_grad_(False)
        self.latent_space = latent_space
        self.channels: int = int(net.mean.shape[1])
        # Operators map encodings to encodings: they remember the encoder they belong to, and any decoder may
        # follow.

        self.hash = weights_hash({**net.encoder.state_dict(), "mean": net.mean, "std": net.std})

    @property
    def cell_bytes(self) -> int:
        """Peak memory per latent cell, measured (see paseo.memory): seven maps at half the picture's
        resolution.
        """
        return 7 * 4 * 16 * self.net.decoder.head.in_channels

    def encode(self, x: Tensor) -> Tensor:
        check_image(x, self.factor)
        return self.net.encode(x)

    def decode(self, z: Tensor) -> Tensor:
        check_latent(z, self.channels)
        return self.net.decode(z)

    @classmethod
    def load(cls, folder: Path, latent_space: str = "embedded") -> EmbeddedCodec:
        """From a folder with `codec.safetensors` and the entry "codec" of `config.json`."""
        path = folder / "codec.safetensors"
        if not path.is_file():
            raise MissingWeights(
                f"{path.name} is missing in {folder}. Reinstall the package or train one with `paseo train "
                "codec`."
            )
        settings, sums = part_of(folder, "codec")
        net, _ = build(lambda: AutoencoderNet(**settings), path, sums)
        return cls(net, latent_space)
