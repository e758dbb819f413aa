"""What every codec made from a network shares: the identity of its latent space, and checks on what goes in.

The identity is a SHA-256 over the *encoder's* weights and the normalisation (scale, shift). A learned
operator maps encodings to encodings, so two autoencoders that differ in the decoder alone, such as the
fine-tuned decoders of SD1.x, share one latent space and one hash. The values are taken in float16, to which a
model and its fp16 variant agree.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor

from paseo.errors import BadInput, NotFinite


def weights_hash(weights: Mapping[str, Tensor], *numbers: float) -> str:
    """SHA-256 over names, shapes and float16 values; empty, for unknown, while the weights are not there
    (sequential offload).
    """
    if any(value.is_meta for value in weights.values()):
        return ""
    h = hashlib.sha256()
    for name in sorted(weights):
        value = weights[name].detach().to("cpu", torch.float16).contiguous()
        h.update(f"{name}{tuple(value.shape)}".encode())
        h.update(value.numpy().tobytes())
    h.update(repr(numbers).encode())
    return h.hexdigest()


def check_image(x: Tensor, factor: int) -> None:
    """(B,3,H,W), sides a multiple of the codec's factor."""
    if x.ndim != 4 or x.shape[1] != 3 or not x.is_floating_point():
        raise BadInput(f"A codec encodes float images (B,3,H,W) in [-1,1], got {x.dtype} {tuple(x.shape)}.")
    height, width = x.shape[-2:]
    if height % factor or width % factor or not height or not width:
        raise BadInput(
            f"An image of {width}×{height} pixels cannot be encoded: each side must be a multiple of "
            f"{factor}. Pad it first."
        )


def check_latent(z: Tensor, channels: int) -> None:
    """(B,c,h,w) with the codec's own channel count."""
    if z.ndim != 4 or z.shape[1] != channels or not z.is_floating_point():
        raise BadInput(
            f"This codec decodes float latents (B,{channels},h,w), got {z.dtype} {tuple(z.shape)}. Is it a "
            "latent of another model?"
        )


def check_finite(value: Tensor, given: Tensor, what: str, dtype: torch.dtype) -> Tensor:
    """Half precision overflows in some autoencoders and gives black images; say so instead of saving one."""
    if dtype == torch.float32 or torch.isfinite(value).all():
        return value
    if not torch.isfinite(given).all():
        raise NotFinite(f"The {what} was given NaN or infinite values.")
    raise NotFinite(
        f"The {what} overflowed in {str(dtype).removeprefix('torch.')}. Load the autoencoder in float32."
    )
