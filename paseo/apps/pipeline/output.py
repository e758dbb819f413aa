"""What a call of the pipeline returns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from diffusers.utils import BaseOutput  # noqa: TID253 (this package is the diffusers face)
from PIL import Image
from torch import Tensor

from paseo.errors import BadInput
from paseo.images import to_pil

Images = list[Image.Image] | Tensor | np.ndarray
KINDS = ("pil", "pt", "np", "latent")


@dataclass
class PaseoPipelineOutput(BaseOutput):
    """Restored images and what they cost."""

    images: Images  # list of PIL images, (B,3,H,W) in [0,1], (B,H,W,3) array, or latents, by `output_type`
    nfe: int  # denoiser calls; a guided pair is one, a batch is one
    seconds: float
    peak_memory: int  # bytes: allocated on the accelerator, or resident on the CPU
    seeds: list[int]  # image i comes again from torch.Generator().manual_seed(seeds[i])
    interrupted: bool = False


def check_kind(output_type: str) -> None:
    if output_type not in KINDS:
        raise BadInput(f"output_type={output_type!r} is not one of {', '.join(KINDS)}.")


def as_kind(images: Tensor, latents: Tensor, output_type: str) -> Images:
    """Images (B,3,H,W) in [0,1] as what was asked for."""
    if output_type == "latent":
        return latents
    if output_type == "pil":
        return [to_pil(x) for x in images.float().cpu()]
    return images if output_type == "pt" else images.float().cpu().permute(0, 2, 3, 1).numpy()
