"""TAESD and its siblings: autoencoders of 1.2M parameters each way that live in the latent spaces of SD1.x,
SDXL, SD3 and FLUX.1.

Hundreds of times cheaper than the full autoencoder and close to it (25 to 33 dB), so fit for previews, for
training operators on a CPU, and for tests. Their latents are already in the prior's units. Read from a
diffusers folder (`AutoencoderTiny`) or from the original pair of files with sequential keys; the original
modules take and give images in [0,1] and begin the decoder with 3·tanh(z/3), both of which `AutoencoderTiny`
does itself.
Source: Ollin Boer Bohan, madebyollin/taesd (MIT).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from paseo.codecs.weights import check_finite, check_image, check_latent, weights_hash
from paseo.errors import BadInput, MissingWeights, out_of_memory
from paseo.weights import damaged, pretrained, read_weights

SPACES = {
    "taesd": "sd1",
    "taesdxl": "sdxl",
    "taesd3": "sd3",
    "taef1": "flux1",
}  # whose latents each one reads and writes
LESS_MEMORY = "Work on a smaller image, or free the accelerator."


class TinyCodec(nn.Module):
    """E and D between images in [-1,1] and latents in the prior's units."""

    def __init__(self, vae: Any, *, latent_space: str | None = None) -> None:
        super().__init__()
        self.vae = vae.eval().requires_grad_(False)
        self.factor = 2 ** (len(vae.config.encoder_block_out_channels) - 1)
        self.channels = int(vae.config.latent_channels)
        self.scale = float(vae.config.scaling_factor)
        self.shift = float(getattr(vae.config, "shift_factor", None) or 0.0)
        self.latent_space = latent_space or f"tiny-{self.channels}"

    @classmethod
    def from_pretrained(
        cls, path: str | Path, *, latent_space: str | None = None, dtype: torch.dtype = torch.float32
    ) -> TinyCodec:
        """From a folder that diffusers' `AutoencoderTiny.save_pretrained` wrote."""
        from diffusers import AutoencoderTiny

        if not (Path(path) / "config.json").is_file():
            raise MissingWeights(
                f"{path} holds no AutoencoderTiny (no config.json). Give its folder, or use from_original."
            )
        return cls(
            pretrained(AutoencoderTiny, Path(path), sorted(Path(path).glob("*.safetensors")), dtype=dtype),
            latent_space=latent_space,
        )

    @classmethod
    def from_original(
        cls, folder: str | Path, name: str = "taesd3", *, dtype: torch.dtype = torch.float32
    ) -> TinyCodec:
        """From `<name>_encoder.safetensors` and `<name>_decoder.safetensors` with the keys of the original
        modules.
        """
        from diffusers import AutoencoderTiny

        if name not in SPACES:
            raise BadInput(f"{name!r} is not a tiny autoencoder known here: {', '.join(SPACES)}.")
        paths = [Path(folder) / f"{name}_{part}.safetensors" for part in ("encoder", "decoder")]
        for path in paths:
            if not path.is_file():
                raise MissingWeights(
                    f"{path} does not exist. Put the original {name} files (madebyollin/taesd) there, or "
                    "name their folder."
                )
        encoder, decoder = (read_weights(path)[0] for path in paths)
        with damaged(Path(folder) / name):
            channels = encoder[max(encoder, key=_position)].shape[0]
            vae: Any = AutoencoderTiny(latent_channels=channels)
            _fill(vae, {**renamed(encoder, "encoder", 0), **renamed(decoder, "decoder", -1)}, name)
        return cls(vae if dtype == torch.float32 else vae.to(dtype), latent_space=SPACES[name])

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the encoder's weights and the normalisation: the identity of the latent space."""
        weights = {k: v for k, v in self.vae.state_dict().items() if k.startswith("encoder.")}
        return weights_hash(weights, self.scale, self.shift)

    @property
    def device(self) -> torch.device:
        return next(self.vae.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        return next(self.vae.parameters()).dtype

    def encode(self, x: Tensor) -> Tensor:
        check_image(x, self.factor)
        with out_of_memory("encoding", LESS_MEMORY):
            raw = self.vae.encode(x.to(self.device, self.dtype), return_dict=False)[0].to(x.dtype)
        return check_finite((raw - self.shift) * self.scale, x, "encoder", self.dtype)

    def decode(self, z: Tensor) -> Tensor:
        """An image, nominally in [-1,1], not clamped."""
        check_latent(z, self.channels)
        with out_of_memory("decoding", LESS_MEMORY):
            x = self.vae.decode((z / self.scale + self.shift).to(self.device, self.dtype), return_dict=False)[
                0
            ]
        return check_finite(x.to(z.dtype), z, "decoder", self.dtype)


def renamed(weights: Mapping[str, Tensor], part: str, offset: int) -> dict[str, Tensor]:
    """ "3.conv.0.weight" → "encoder.layers.3.conv.0.weight"; the decoder's numbers shift by one, its clamp
    being no layer there.
    """
    return {
        re.sub(r"^\d+", lambda m: f"{part}.layers.{int(m[0]) + offset}", key): value
        for key, value in weights.items()
    }


def _position(key: str) -> int:
    number = key.split(".", 1)[0]
    return int(number) if number.isdigit() else -1


def _fill(vae: Any, weights: dict[str, Tensor], name: str) -> None:
    expected = vae.state_dict()
    wrong = sorted(
        k
        for k in {*expected, *weights}
        if k not in expected or k not in weights or expected[k].shape != weights[k].shape
    )
    if wrong:
        raise MissingWeights(
            f"The {name} files do not hold a tiny autoencoder: {len(wrong)} entries differ, first "
            f"{wrong[0]!r}."
        )
    vae.load_state_dict({k: v.to(expected[k].dtype) for k, v in weights.items()})
