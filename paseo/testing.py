"""Tiny random pipelines of every supported family, tokenizers included, built without any file or network.

They have the real classes, configs and file layout of their large relatives, weigh about a megabyte and run
in
milliseconds: fit for testing loading code, samplers and applications, not for looking at the images.
"""

from __future__ import annotations

import string
from typing import Any, Literal

import torch

FamilyName = Literal["sd", "sd-v", "sdxl", "sd3", "sd3-no-t5"]
WIDTH = 32  # of every tiny text encoder
_SPECIAL = ("<|startoftext|>", "<|endoftext|>")


def tiny_pipeline(family: FamilyName = "sd", seed: int = 0) -> Any:
    """A diffusers pipeline with random weights; the same seed gives the same weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        pipe = {"sd": _sd, "sd-v": _sd_v, "sdxl": _sdxl, "sd3": _sd3, "sd3-no-t5": _sd3_no_t5}[family]()
    pipe.set_progress_bar_config(disable=True)
    return pipe


def _sd(prediction: str = "epsilon") -> Any:
    from diffusers import DDIMScheduler, StableDiffusionPipeline

    parts: dict[str, Any] = dict(
        vae=_vae(4, 0.18215),
        text_encoder=_clip(projected=False),
        tokenizer=_clip_tokenizer(),
        unet=_unet(cross_attention_dim=WIDTH),
        scheduler=DDIMScheduler(**_betas(), prediction_type=prediction, clip_sample=False, steps_offset=1),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )
    return StableDiffusionPipeline(**parts)


def _sd_v() -> Any:
    return _sd("v_prediction")


def _sdxl() -> Any:
    from diffusers import EulerDiscreteScheduler, StableDiffusionXLPipeline

    unet = _unet(
        cross_attention_dim=2 * WIDTH,
        addition_embed_type="text_time",
        addition_time_embed_dim=8,
        projection_class_embeddings_input_dim=6 * 8 + WIDTH,
    )
    parts: dict[str, Any] = dict(
        vae=_vae(4, 0.13025),
        text_encoder=_clip(projected=False),
        text_encoder_2=_clip(projected=True),
        tokenizer=_clip_tokenizer(),
        tokenizer_2=_clip_tokenizer(),
        unet=unet,
        scheduler=EulerDiscreteScheduler(**_betas(), steps_offset=1),
    )
    return StableDiffusionXLPipeline(**parts)


def _sd3(t5: bool = True) -> Any:
    from diffusers import FlowMatchEulerDiscreteScheduler, SD3Transformer2DModel, StableDiffusion3Pipeline

    transformer = SD3Transformer2DModel(
        sample_size=16,
        patch_size=2,
        in_channels=16,
        out_channels=16,
        num_layers=2,
        attention_head_dim=8,
        num_attention_heads=4,
        joint_attention_dim=2 * WIDTH,
        caption_projection_dim=WIDTH,
        pooled_projection_dim=2 * WIDTH,
        pos_embed_max_size=24,
        dual_attention_layers=(0,),
        qk_norm="rms_norm",
    )
    parts: dict[str, Any] = dict(
        transformer=transformer,
        scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0),
        vae=_vae(16, 1.5305, 0.0609),
        text_encoder=_clip(projected=True),
        tokenizer=_clip_tokenizer(),
        text_encoder_2=_clip(projected=True),
        tokenizer_2=_clip_tokenizer(),
        text_encoder_3=_t5() if t5 else None,
        tokenizer_3=_t5_tokenizer() if t5 else None,
    )
    return StableDiffusion3Pipeline(**parts)


def _sd3_no_t5() -> Any:
    return _sd3(t5=False)


def _betas() -> dict[str, object]:
    return {
        "beta_start": 0.00085,
        "beta_end": 0.012,
        "beta_schedule": "scaled_linear",
        "num_train_timesteps": 1000,
    }


def _unet(**options: object) -> object:
    from diffusers import UNet2DConditionModel

    return UNet2DConditionModel(
        sample_size=8,
        in_channels=4,
        out_channels=4,
        block_out_channels=(16, 32),
        layers_per_block=1,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        norm_num_groups=8,
        attention_head_dim=8,
        **options,
    )


def _vae(channels: int, scale: float, shift: float | None = None) -> object:
    from diffusers import AutoencoderKL

    return AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        block_out_channels=(8, 8, 8, 8),
        norm_num_groups=4,
        latent_channels=channels,
        sample_size=64,
        scaling_factor=scale,
        shift_factor=shift,
        use_quant_conv=shift is None,
        use_post_quant_conv=shift is None,
    )


def _clip(projected: bool) -> object:
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

    size = len(_clip_vocabulary())
    config = CLIPTextConfig(
        vocab_size=size,
        hidden_size=WIDTH,
        intermediate_size=2 * WIDTH,
        num_hidden_layers=3,
        num_attention_heads=4,
        projection_dim=WIDTH,
        bos_token_id=size - 2,
        eos_token_id=size - 1,
        pad_token_id=size - 1,
    )
    return (CLIPTextModelWithProjection if projected else CLIPTextModel)(config).eval()


def _clip_vocabulary() -> dict[str, int]:
    """Every printable character, inside a word and at its end."""
    letters = sorted(set(string.ascii_lowercase + string.digits + string.punctuation))
    return {token: i for i, token in enumerate([*letters, *(f"{c}</w>" for c in letters), *_SPECIAL])}


def _clip_tokenizer() -> object:
    from transformers import CLIPTokenizer

    return CLIPTokenizer(vocab=_clip_vocabulary(), merges=[], model_max_length=77)


def _t5() -> object:
    from transformers import T5Config, T5EncoderModel

    config = T5Config(
        vocab_size=len(_t5_pieces()),
        d_model=2 * WIDTH,
        d_kv=8,
        d_ff=2 * WIDTH,
        num_layers=2,
        num_heads=4,
        feed_forward_proj="gated-gelu",
    )
    return T5EncoderModel(config).eval()


def _t5_pieces() -> list[tuple[str, float]]:
    letters = [(c, -3.0) for c in string.ascii_letters + string.digits + string.punctuation]
    return [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -2.0), *letters]


def _t5_tokenizer() -> object:
    from transformers import T5Tokenizer

    return T5Tokenizer(vocab=_t5_pieces(), extra_ids=0, model_max_length=256)
