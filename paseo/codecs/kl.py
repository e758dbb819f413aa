"""AutoencoderKL of the Stable Diffusion family as a codec, with each family's normalisation.

    encode   z = (E(x) − shift) · scale          SD1.x, SD2.x: 0.18215, 0      SDXL: 0.13025, 0
    decode   x = D(z / scale + shift)            SD3, SD3.5:   1.5305, 0.0609  FLUX.1: 0.3611, 0.1159

E(x) is the posterior's mean unless noise is given. Some autoencoders carry a mean and std per channel instead
of the shift (`latents_mean`, `latents_std`); these are honoured. The network runs in its own dtype, latents
and images keep the caller's. Samples go through one by one: memory stays that of one image, and a batch
equals its members.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from paseo.codecs.weights import check_finite, check_image, check_latent, weights_hash
from paseo.errors import BadInput, MissingWeights, out_of_memory
from paseo.noise import Noise
from paseo.weights import pretrained

SPACES = {  # (channels, scale, shift) → id of the latent space
    (4, 0.18215, 0.0): "sd1",
    (4, 0.13025, 0.0): "sdxl",
    (16, 1.5305, 0.0609): "sd3",
    (16, 0.3611, 0.1159): "flux1",
}
LESS_MEMORY = "Turn tiling on, work on a smaller image, or free the accelerator."


class KLCodec(nn.Module):
    """E and D between images in [-1,1] and latents in the prior's units."""

    def __init__(
        self,
        vae: Any,
        *,
        tiling: bool | int = False,
        latent_space: str | None = None,
        around: Callable[[], AbstractContextManager] = nullcontext,
    ) -> None:
        """`tiling` may be a tile size in pixels; `around` wraps every pass, for instance to choose an
        attention kernel.
        """
        super().__init__()
        config = vae.config
        self.vae = vae.eval().requires_grad_(False)
        self.factor = 2 ** (len(config.block_out_channels) - 1)
        self.channels = int(config.latent_channels)
        self.scale = float(config.scaling_factor)
        self.shift = float(getattr(config, "shift_factor", None) or 0.0)
        self.latent_space = latent_space or SPACES.get(
            (self.channels, self.scale, self.shift), f"kl-{self.channels}-{self.scale:g}-{self.shift:g}"
        )
        self._mean, self._std = _statistics(config, self.channels, self.shift)
        self._around = around
        if tiling:
            self.tile(512 if tiling is True else tiling)

    @classmethod
    def from_pretrained(
        cls, path: str | Path, *, dtype: torch.dtype = torch.float32, device: str = "cpu", **options: Any
    ) -> KLCodec:
        """From a folder that holds the autoencoder, or a pipeline's folder with it in `vae`."""
        from diffusers import AutoencoderKL

        folder = Path(path)
        folder = folder / "vae" if (folder / "model_index.json").is_file() else folder
        if not (folder / "config.json").is_file():
            raise MissingWeights(
                f"{folder} holds no autoencoder (no config.json). Give a diffusers folder, or its "
                "subfolder 'vae'."
            )
        vae = pretrained(AutoencoderKL, folder, sorted(folder.glob("*.safetensors")), dtype=dtype)
        return cls(vae.to(device), **options)

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the encoder's weights and the normalisation: the identity of the latent space."""
        weights = {
            k: v for k, v in self.vae.state_dict().items() if k.startswith(("encoder.", "quant_conv."))
        }
        return weights_hash(
            weights, self.scale, self.shift, *self._mean.flatten().tolist(), *self._std.flatten().tolist()
        )

    @property
    def device(self) -> torch.device:
        """Where images are wanted: the accelerator, also while the weights wait in main memory."""
        hook = getattr(self.vae, "_hf_hook", None)
        place = getattr(hook, "execution_device", None)
        return torch.device(place) if place is not None else next(self.vae.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        return next(self.vae.parameters()).dtype

    def encode(self, x: Tensor, noise: Noise | None = None) -> Tensor:
        """The latent's mean, or a draw from its posterior where noise is given."""
        check_image(x, self.factor)
        posteriors = [self._posterior(part) for part in x.to(self.device).split(1)]
        raw = torch.cat([p.mean for p in posteriors]).to(x.dtype)
        if noise is not None:
            raw = raw + torch.cat([p.std for p in posteriors]).to(x.dtype) * noise.like(raw)
        z = (raw - self._mean.to(raw)) * (self.scale / self._std.to(raw))
        return check_finite(z, x, "encoder", self.dtype)

    def decode(self, z: Tensor) -> Tensor:
        """An image, nominally in [-1,1], not clamped."""
        check_latent(z, self.channels)
        z = z.to(self.device)
        raw = z * (self._std.to(z) / self.scale) + self._mean.to(z)
        with out_of_memory("decoding", LESS_MEMORY), self._around():
            parts = [self.vae.decode(part.to(self.dtype), return_dict=False)[0] for part in raw.split(1)]
        return check_finite(torch.cat(parts).to(z.dtype), z, "decoder", self.dtype)

    def tile(self, pixels: int) -> None:
        """Encode and decode in overlapping, blended tiles of this many pixels: less memory."""
        if pixels < 8 * self.factor or pixels % self.factor:
            raise BadInput(
                f"A tile of {pixels} pixels cannot be used: give a multiple of {self.factor}, at least "
                f"{8 * self.factor}."
            )
        self.vae.enable_tiling()
        self.vae.tile_sample_min_size, self.vae.tile_latent_min_size = pixels, pixels // self.factor

    def _posterior(self, x: Tensor) -> Any:
        with out_of_memory("encoding", LESS_MEMORY), self._around():
            return self.vae.encode(x.to(self.dtype), return_dict=False)[0]


def _statistics(config: object, channels: int, shift: float) -> tuple[Tensor, Tensor]:
    """Mean and std per channel, (1,c,1,1); the plain shift and 1 where the autoencoder has none."""
    mean, std = getattr(config, "latents_mean", None), getattr(config, "latents_std", None)
    if mean is None or std is None:
        return torch.full((1, channels, 1, 1), shift), torch.ones(1, channels, 1, 1)
    return torch.tensor(mean).float().view(1, channels, 1, 1), torch.tensor(std).float().view(
        1, channels, 1, 1
    )
