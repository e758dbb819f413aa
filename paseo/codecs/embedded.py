"""The embedded autoencoder as a codec: E and D between images in [-1,1] and normalised latents."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor, nn

from paseo.codecs.net import AutoencoderNet, Decoder
from paseo.codecs.weights import check_image, check_latent, weights_hash
from paseo.errors import MissingWeights
from paseo.weights import build, part_of

SKETCH = "sketch"  # the quick decoder's entry in config.json and the name of its file


class EmbeddedCodec(nn.Module):
    """`encode` and `decode` of `AutoencoderNet`, frozen; latents have mean 0 and variance 1 per channel. With
    a quick decoder beside it also `sketch`.
    """

    factor = 8

    def __init__(
        self, net: AutoencoderNet, latent_space: str = "embedded", quick: Decoder | None = None
    ) -> None:
        super().__init__()
        self.net = net.eval().requires_grad_(False)
        self.quick = None if quick is None else quick.eval().requires_grad_(False)
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

    def sketch(self, z: Tensor) -> Tensor:
        check_latent(z, self.channels)
        return self.net.decode(z, self.quick)

    @classmethod
    def load(cls, folder: Path, latent_space: str = "embedded") -> EmbeddedCodec:
        """From a folder with `codec.safetensors` and the entry "codec" of `config.json`; the quick decoder,
        if there is one, from `sketch.safetensors` and the entry "sketch".
        """
        path = folder / "codec.safetensors"
        if not path.is_file():
            raise MissingWeights(
                f"{path.name} is missing in {folder}. Reinstall the package or train one with `paseo train "
                "codec`."
            )
        settings, sums = part_of(folder, "codec")
        net, _ = build(lambda: AutoencoderNet(**settings), path, sums)
        return cls(net, latent_space, _quick_decoder(folder))


def _quick_decoder(folder: Path) -> Decoder | None:
    path = folder / f"{SKETCH}.safetensors"
    if not path.is_file():
        return None
    settings, sums = part_of(folder, SKETCH)
    return build(lambda: Decoder(**settings), path, sums)[0]
