"""Prompts → embeddings, by the family's own diffusers pipeline, so that tokenisation and layer choice are
exactly theirs.

The pipeline is built around the text parts alone; no denoiser and no autoencoder need be loaded. SD3 without
T5 has zeros in its place, as its authors intend.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from paseo.errors import BadInput, MissingWeights, out_of_memory
from paseo.hub.conditioning import Conditioning
from paseo.hub.family import SD, SD3, ModelFamily

Prompt = str | Sequence[str]
LESS_MEMORY = (
    "Leave T5 out (t5=False), keep the text encoders on the CPU, or give embeddings that were computed "
    "before."
)


@torch.no_grad()
def encode_text(
    family: ModelFamily,
    parts: Mapping[str, Any],
    prompt: Prompt,
    negative_prompt: Prompt = "",
    *,
    guided: bool,
    device: torch.device | str | None = None,
    network_config: Mapping[str, Any] | None = None,
) -> Conditioning:
    """Embeddings of one prompt or several, the negative half only if `guided`."""
    prompts, negatives = _matching(prompt, negative_prompt)
    pipe = text_pipeline(family, parts, network_config)
    encoder = pipe.text_encoder if family is SD else pipe.text_encoder_2
    options: dict[str, Any] = dict(
        prompt=prompts,
        device=torch.device(device) if device is not None else encoder.device,
        num_images_per_prompt=1,
        do_classifier_free_guidance=guided,
        negative_prompt=negatives
        if guided and any(negatives)
        else None,  # SDXL has its own idea of an empty prompt: zeros
    )
    if family is not SD:
        options["prompt_2"] = None
    if family is SD3:
        options["prompt_3"] = None
    with out_of_memory("encoding the prompt", LESS_MEMORY):
        embeddings = pipe.encode_prompt(**options)
    prompt_embeds, negative_embeds, *pooled = embeddings
    if not guided:
        negative_embeds = None
    return Conditioning(
        prompt_embeds,
        pooled[0] if pooled else None,
        negative_embeds,
        pooled[1] if pooled and guided else None,
    )


def text_pipeline(
    family: ModelFamily, parts: Mapping[str, Any], network_config: Mapping[str, Any] | None = None
) -> Any:
    """The family's pipeline with nothing but its text parts."""
    import diffusers

    missing = [name for name in family.text if parts.get(name) is None and name not in family.optional]
    if missing:
        raise MissingWeights(
            f"The text parts {', '.join(missing)} are not loaded. Load them, or give prompt embeddings."
        )
    components: dict[str, Any] = {name: parts.get(name) for name in family.text}
    components |= {"vae": None, "scheduler": None, family.network: None}
    if family is SD:
        components |= {"safety_checker": None, "feature_extractor": None, "requires_safety_checker": False}
    if family is SD3 and components["text_encoder_3"] is None:
        components["transformer"] = _hollow(network_config)  # it is asked for the width of T5's zeros
    pipe = getattr(diffusers, family.pipeline)(**components)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def _hollow(config: Mapping[str, object] | None) -> object:
    """The transformer without weights: only its config is read."""
    from diffusers import SD3Transformer2DModel

    if config is None:
        raise MissingWeights(
            "SD3 without T5 needs the transformer's config to know the width of the text embeddings."
        )
    small = dict(config) | {"num_layers": 0, "dual_attention_layers": ()}
    with torch.device("meta"):
        return SD3Transformer2DModel.from_config(small)


def _matching(prompt: Prompt, negative_prompt: Prompt) -> tuple[list[str], list[str]]:
    prompts = [prompt] if isinstance(prompt, str) else list(prompt)
    negatives = [negative_prompt] if isinstance(negative_prompt, str) else list(negative_prompt)
    if not prompts or not all(isinstance(p, str) for p in (*prompts, *negatives)):
        raise BadInput(f"A prompt is a string or a list of strings, got {prompt!r} and {negative_prompt!r}.")
    if len(negatives) not in (1, len(prompts)):
        raise BadInput(
            f"{len(prompts)} prompts and {len(negatives)} negative prompts: give one negative prompt, or "
            "one for each."
        )
    return prompts, negatives * len(prompts) if len(negatives) == 1 else negatives
