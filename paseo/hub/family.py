"""The model families that are supported, told apart by their components rather than by a class name.

sd     U-Net, one text encoder           SD1.x and fine-tunes, SD2.x
sdxl   U-Net, two text encoders          SDXL and fine-tunes
sd3    transformer, two or three         SD3, SD3.5 (T5, the third, may be left out)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from paseo.errors import Unsupported


@dataclass(frozen=True)
class ModelFamily:
    """How one family's parts are called in a diffusers pipeline."""

    name: str
    pipeline: str  # the class whose encode_prompt is used
    network: str  # component
    network_class: str
    text: tuple[str, ...]  # tokenizers and text encoders
    optional: tuple[str, ...] = ()  # of these, the ones that may be missing


SD = ModelFamily(
    "sd", "StableDiffusionPipeline", "unet", "UNet2DConditionModel", ("tokenizer", "text_encoder")
)
SDXL = ModelFamily(
    "sdxl",
    "StableDiffusionXLPipeline",
    "unet",
    "UNet2DConditionModel",
    ("tokenizer", "text_encoder", "tokenizer_2", "text_encoder_2"),
    optional=("tokenizer", "text_encoder"),  # the refiner's layout, also used by some fine-tunes
)
SD3 = ModelFamily(
    "sd3",
    "StableDiffusion3Pipeline",
    "transformer",
    "SD3Transformer2DModel",
    ("tokenizer", "text_encoder", "tokenizer_2", "text_encoder_2", "tokenizer_3", "text_encoder_3"),
    optional=("tokenizer_3", "text_encoder_3"),
)
FAMILIES = {family.name: family for family in (SD, SDXL, SD3)}


def family_of(classes: Mapping[str, str | None], name: str) -> ModelFamily:
    """The family of a model with components of these classes; `name` is for the message."""
    network = classes.get("transformer") or classes.get("unet")
    if classes.get("transformer") == SD3.network_class:
        return SD3
    if classes.get("unet") == SD.network_class:
        return SDXL if classes.get("text_encoder_2") else SD
    known = "SD1.x, SD2.x, SDXL, SD3 and SD3.5"
    raise Unsupported(
        f"{name} is built around {network or 'no denoiser that is known here'}; supported are {known} and "
        "their fine-tunes."
    )


def classes_of(components: Mapping[str, Any]) -> dict[str, str | None]:
    """Component → class name, of a loaded pipeline."""
    return {key: None if part is None else type(part).__name__ for key, part in components.items()}
