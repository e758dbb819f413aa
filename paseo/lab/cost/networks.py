"""Full-size networks with random weights: they say nothing about quality and everything about time and
memory.

The configs are those of Stable Diffusion 1.5 (also Realistic Vision 5.1) and of Stable Diffusion 3.5 medium.
Modules are built without storage, then filled from one small block of random numbers, which takes seconds
instead of minutes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from paseo.codecs.kl import KLCodec
from paseo.errors import BadInput, out_of_memory
from paseo.hub.build import build_prior
from paseo.hub.conditioning import Conditioning
from paseo.hub.denoiser import Denoiser
from paseo.hub.family import SD, SD3, ModelFamily

Arch = Literal["sd15", "sd35", "tiny-sd15", "tiny-sd35"]
_BLOCK = 1 << 20  # random numbers that are used over and over

VP_SCHEDULER = {
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
    "prediction_type": "epsilon",
}
FLOW_SCHEDULER = {"shift": 3.0}


@dataclass(frozen=True, eq=False)
class Rig:
    """A denoiser and a codec of one architecture, on one device."""

    arch: str
    side: int  # pixels
    family: ModelFamily
    network: Any
    codec: KLCodec
    tokens: tuple[int, int]  # of the prompt: count, width
    pooled: int | None
    device: torch.device

    def prior(self, guidance: float) -> Denoiser:
        """The denoiser with random embeddings in place of a prompt's."""
        embeddings = torch.randn(1, *self.tokens, generator=torch.Generator().manual_seed(0))
        pooled = (
            None
            if self.pooled is None
            else torch.randn(1, self.pooled, generator=torch.Generator().manual_seed(1))
        )
        scheduler = FLOW_SCHEDULER if self.family is SD3 else VP_SCHEDULER
        return build_prior(
            self.family,
            self.network,
            scheduler,
            Conditioning(embeddings, pooled, embeddings, pooled),
            guidance,
        )

    @property
    def latent(self) -> tuple[int, int, int]:
        return self.codec.channels, self.side // self.codec.factor, self.side // self.codec.factor

    @property
    def parameters(self) -> dict[str, int]:
        return {
            name: sum(p.numel() for p in m.parameters())
            for name, m in (("denoiser", self.network), ("autoencoder", self.codec.vae))
        }


def build_rig(arch: Arch, *, dtype: torch.dtype, device: torch.device, side: int | None = None) -> Rig:
    """Networks of an architecture with random weights; the autoencoder is in float32."""
    if arch not in get_args(Arch):
        raise BadInput(f"arch={arch!r} is not one of {', '.join(get_args(Arch))}.")
    small, flow = arch.startswith("tiny"), arch.endswith("35")
    side = side or (64 if small else 512)
    if side % 16 or side < 64:
        raise BadInput(f"side={side} cannot be used: give a multiple of 16, at least 64.")
    with out_of_memory(f"building {arch}", "Use dtype bf16, or the tiny architecture."):
        network = filled(_transformer(small) if flow else _unet(small), dtype, device)
        vae = filled(_vae(small, flow), torch.float32, device)
    width = network.config.joint_attention_dim if flow else network.config.cross_attention_dim
    pooled = network.config.pooled_projection_dim if flow else None
    return Rig(
        arch, side, SD3 if flow else SD, network, KLCodec(vae), (333 if flow else 77, width), pooled, device
    )


def filled(build: Callable[[], Any], dtype: torch.dtype, device: torch.device) -> Any:
    """The module with weights of the usual scale: N(0, 1/fan-in), norms at 1, biases at 0."""
    with torch.device("meta"):
        module = build()
    module = nn.Module.to(module, dtype).to_empty(device=device)
    block = torch.randn(_BLOCK, generator=torch.Generator().manual_seed(0)).to(device)
    with torch.no_grad():
        for name, value in [*module.named_parameters(), *module.named_buffers()]:
            if value.ndim >= 2:
                _tile(value, block, 1 / math.sqrt(value.numel() / value.shape[0]))
            else:
                value.fill_(0.0 if name.endswith("bias") else 1.0)
    return module.eval().requires_grad_(False)


def _tile(value: Tensor, block: Tensor, scale: float) -> None:
    flat, source = value.view(-1), (block * scale).to(value.dtype)
    for start in range(0, flat.numel(), _BLOCK):
        part = flat[start : start + _BLOCK]
        part.copy_(source[: part.numel()])


def _unet(small: bool) -> Callable[[], object]:
    def build() -> object:
        from diffusers import UNet2DConditionModel

        widths = (32, 64, 64, 64) if small else (320, 640, 1280, 1280)
        return UNet2DConditionModel(
            sample_size=64,
            in_channels=4,
            out_channels=4,
            block_out_channels=widths,
            layers_per_block=1 if small else 2,
            down_block_types=(*("CrossAttnDownBlock2D",) * 3, "DownBlock2D"),
            up_block_types=("UpBlock2D", *("CrossAttnUpBlock2D",) * 3),
            cross_attention_dim=64 if small else 768,
            attention_head_dim=8,  # in SD1.x this is the number of heads
        )

    return build


def _transformer(small: bool) -> Callable[[], object]:
    def build() -> object:
        from diffusers import SD3Transformer2DModel

        heads, layers, dual = (2, 3, 1) if small else (24, 24, 13)
        return SD3Transformer2DModel(
            sample_size=128,
            patch_size=2,
            in_channels=16,
            out_channels=16,
            num_layers=layers,
            attention_head_dim=64,
            num_attention_heads=heads,
            joint_attention_dim=128 if small else 4096,
            caption_projection_dim=64 * heads,
            pooled_projection_dim=128 if small else 2048,
            pos_embed_max_size=384,
            dual_attention_layers=tuple(range(dual)),
            qk_norm="rms_norm",
        )

    return build


def _vae(small: bool, flow: bool) -> Callable[[], object]:
    def build() -> object:
        from diffusers import AutoencoderKL

        return AutoencoderKL(
            down_block_types=("DownEncoderBlock2D",) * 4,
            up_block_types=("UpDecoderBlock2D",) * 4,
            block_out_channels=(32, 32, 32, 32) if small else (128, 256, 512, 512),
            layers_per_block=1 if small else 2,
            latent_channels=16 if flow else 4,
            sample_size=512,
            scaling_factor=1.5305 if flow else 0.18215,
            shift_factor=0.0609 if flow else None,
            use_quant_conv=not flow,
            use_post_quant_conv=not flow,
        )

    return build
