"""What people hand to a pipeline, as tensors: images, masks, generators, embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from paseo.degrade import Mask
from paseo.errors import BadInput
from paseo.hub.conditioning import Conditioning
from paseo.hub.operator import OperatorModel
from paseo.images import to_tensor
from paseo.operators.net import OperatorNet
from paseo.units import to_signed, to_unit


def to_batch(image: object) -> Tensor:
    """PIL, array (h,w,3) or tensor (3,h,w), one or several of one size → (B,3,h,w) float32 in [0,1]."""
    if isinstance(image, list | tuple):
        if not image:
            raise BadInput("The list of images is empty.")
        rows = [to_batch(entry) for entry in image]
        sizes = {tuple(row.shape[-2:]) for row in rows}
        if len(sizes) > 1:
            raise BadInput(
                f"Images of one call must have one size, got {sorted(sizes)}. Call the pipeline once for "
                "each size."
            )
        return torch.cat(rows)
    if isinstance(image, Image.Image):
        return to_tensor(image)[None]
    if isinstance(image, np.ndarray):
        scale = 255.0 if image.dtype == np.uint8 else 1.0
        array = torch.from_numpy(np.ascontiguousarray(image)).float() / scale
        return (array[None] if array.ndim == 3 else array).movedim(-1, 1)
    if isinstance(image, Tensor):
        if not image.is_floating_point():
            raise BadInput(
                f"Image tensors are floating point in [0,1], got {image.dtype}. Divide by 255 first."
            )
        return (image[None] if image.ndim == 3 else image).float()
    raise BadInput(
        f"An image is a PIL image, a tensor (3,h,w) or an array (h,w,3) in [0,1], got {type(image).__name__}."
    )


def to_mask(mask_image: object, count: int) -> Mask:
    """White (≥ ½) is what is to be filled, as in diffusers; one mask for all images, or one for each."""
    if isinstance(mask_image, list | tuple):
        holes = torch.cat([_hole(entry) for entry in mask_image])
    else:
        holes = _hole(mask_image)
    if len(holes) not in (1, count):
        raise BadInput(
            f"{len(holes)} masks were given for {count} images: give one for all, or one for each."
        )
    return Mask.from_hole(holes)


def _hole(mask: object) -> Tensor:
    """(B,1,H,W) in [0,1]."""
    if isinstance(mask, Image.Image):
        return torch.from_numpy(np.array(mask.convert("L"))).float()[None, None] / 255
    if isinstance(mask, np.ndarray):
        mask = torch.from_numpy(np.ascontiguousarray(mask)).float() / (
            255.0 if mask.dtype == np.uint8 else 1.0
        )
    if not isinstance(mask, Tensor):
        raise BadInput(
            "A mask is a PIL image, a tensor or an array with 1 where it is to be filled, got "
            f"{type(mask).__name__}."
        )
    mask = mask.float()
    return mask.reshape(*[1] * (4 - mask.ndim), *mask.shape) if mask.ndim < 4 else mask


def blank(y: Tensor, mask: Mask) -> Tensor:
    """The image with mid-grey in the hole, as inpainting measures it."""
    return to_unit(mask(to_signed(y)))


def to_operator(operator: Any) -> Any:
    """A folder, hub id or network as the diffusers model that a pipeline can hold; other callables stay as
    they are.
    """
    if isinstance(operator, str | Path):
        from paseo.operators.store import load_operator

        return OperatorModel.from_net(load_operator(operator))
    if isinstance(operator, OperatorNet) and not isinstance(operator, OperatorModel):
        return OperatorModel.from_net(operator)
    return operator


def generators(
    generator: torch.Generator | Sequence[torch.Generator] | None, count: int
) -> list[torch.Generator]:
    """One generator per image. A single one that must serve several draws a seed for each; without any, seeds
    are drawn at random.
    """
    if isinstance(generator, list | tuple):
        if len(generator) != count:
            raise BadInput(
                f"{len(generator)} generators were given for {count} images (images × "
                "num_images_per_prompt): give one for each."
            )
        return list(generator)
    if isinstance(generator, torch.Generator) and count == 1:
        return [generator]
    if generator is not None and not isinstance(generator, torch.Generator):
        raise BadInput(f"generator is a torch.Generator or a list of them, got {type(generator).__name__}.")
    device = generator.device if generator is not None else "cpu"
    seeds = torch.randint(2**62, (count,), generator=generator, device=device).tolist()
    return [torch.Generator("cpu").manual_seed(seed) for seed in seeds]


def given_embeddings(
    prompt: Tensor | None, pooled: Tensor | None, negative: Tensor | None, negative_pooled: Tensor | None
) -> Conditioning | None:
    """Embeddings under their diffusers names, or None where none were given."""
    if prompt is None:
        if pooled is not None or negative is not None or negative_pooled is not None:
            raise BadInput("prompt_embeds is missing: the other embeddings mean nothing without it.")
        return None
    return Conditioning(prompt, pooled, negative, negative_pooled)
