"""Stable Diffusion's U-Nets as priors: SD1.x and its fine-tunes (Realistic Vision), SD2.x, SDXL.

    x_t = √ᾱ_t z + √(1−ᾱ_t) ε
    ε-prediction  ẑ₀ = (x − σ o)/α        v-prediction  ẑ₀ = α x − σ o        z-prediction  ẑ₀ = o

Time 0 … 1000 of `schedule.VP` has the clean level at 0; level i was trained as i − 1, and that is what the
network is told.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from itertools import accumulate
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from paseo.errors import BadInput, Unsupported
from paseo.hub.conditioning import Conditioning
from paseo.hub.denoiser import Denoiser
from paseo.schedule import VP, Point, scaled_linear

Prediction = Literal["epsilon", "v_prediction", "sample"]
PIXELS = 8  # per latent cell and side, for SDXL's size conditioning


class SDPrior(Denoiser):
    """A text-conditioned U-Net with its β table."""

    schedule: VP

    def __init__(
        self,
        unet: Any,
        conditioning: Conditioning,
        guidance: float = 1.0,
        *,
        schedule: VP | None = None,
        prediction: Prediction = "epsilon",
        published_time: bool = False,
        around: Callable[[], AbstractContextManager] = nullcontext,
    ) -> None:
        check_unet(unet.config)
        if prediction not in get_args(Prediction):
            raise BadInput(f"prediction={prediction!r} is not one of {', '.join(get_args(Prediction))}.")
        super().__init__(
            unet, schedule or VP(), conditioning, guidance, published_time=published_time, around=around
        )
        self.prediction = prediction
        self.sized = getattr(unet.config, "addition_embed_type", None) == "text_time"  # SDXL
        if self.sized and conditioning.pooled is None:
            raise BadInput(
                "This U-Net is of the SDXL kind and needs pooled prompt embeddings beside the token "
                "embeddings."
            )
        if prediction == "epsilon" and self.schedule.point(len(self.schedule.betas)).alpha == 0:
            raise Unsupported(
                "An ε-predicting network cannot start from pure noise (zero terminal SNR). Its scheduler "
                "must say v_prediction."
            )

    def network_time(self, t: float) -> float:
        return self.schedule.network_time(t, self.published_time)

    def call(self, x: Tensor, time: Tensor, conditioning: Conditioning) -> Tensor:
        extra = {"text_embeds": conditioning.pooled, "time_ids": self._size(x)} if self.sized else None
        return self.network(
            x, time, encoder_hidden_states=conditioning.prompt, added_cond_kwargs=extra, return_dict=False
        )[0]

    def clean(self, x: Tensor, o: Tensor, point: Point) -> Tensor:
        if self.prediction == "epsilon":
            return (x - point.sigma * o) / point.alpha
        return point.alpha * x - point.sigma * o if self.prediction == "v_prediction" else o

    def _size(self, x: Tensor) -> Tensor:
        """(B, 6): original size, no crop, target size, in pixels."""
        height, width = (PIXELS * side for side in x.shape[-2:])
        return torch.tensor([[height, width, 0, 0, height, width]], dtype=x.dtype, device=x.device).expand(
            len(x), -1
        )


def check_unet(config: Any) -> None:
    """Refuse U-Nets that are no plain text-to-image denoisers."""
    if config.in_channels != config.out_channels:
        raise Unsupported(
            f"This U-Net takes {config.in_channels} channels and gives {config.out_channels}: an "
            "inpainting or depth model. "
            "Use the plain text-to-image model, PASEO brings the measurement in itself."
        )
    if getattr(config, "time_cond_proj_dim", None) is not None:
        raise Unsupported(
            "This U-Net is distilled for few steps (it takes the guidance as an input, as LCM does). Use "
            "the model it was distilled from."
        )
    if (
        getattr(config, "addition_embed_type", None) not in (None, "text_time")
        or getattr(config, "class_embed_type", None) is not None
    ):
        raise Unsupported(
            "This U-Net wants conditioning beyond a prompt. Use SD1.x, SD2.x or SDXL text-to-image models."
        )


def vp_schedule(config: Mapping[str, Any]) -> VP:
    """The β table that a diffusers scheduler config describes, in float64."""
    count, kind = int(config.get("num_train_timesteps", 1000)), config.get("beta_schedule", "linear")
    if config.get("trained_betas") is not None:
        betas = tuple(float(b) for b in config["trained_betas"])
    elif "beta_start" not in config:
        name = config.get("_class_name", "this scheduler")
        raise Unsupported(
            f"{name} has no β table, so it describes no variance-preserving model. SD1.x, SD2.x and SDXL "
            "schedulers have one."
        )
    elif kind == "scaled_linear":
        betas = scaled_linear(config["beta_start"], config["beta_end"], count)
    elif kind == "linear":
        start, end = config["beta_start"], config["beta_end"]
        betas = tuple(start + (end - start) * i / (count - 1) for i in range(count))
    elif kind == "squaredcos_cap_v2":
        bar = [math.cos((i / count + 0.008) / 1.008 * math.pi / 2) ** 2 for i in range(count + 1)]
        betas = tuple(min(1 - bar[i + 1] / bar[i], 0.999) for i in range(count))
    else:
        raise Unsupported(
            f"beta_schedule={kind!r} is not known here: scaled_linear, linear, squaredcos_cap_v2."
        )
    return VP(zero_terminal_snr(betas) if config.get("rescale_betas_zero_snr") else betas)


def zero_terminal_snr(betas: tuple[float, ...]) -> tuple[float, ...]:
    """√ᾱ moved and stretched so that the last level is pure noise (Lin et al., 2023, Algorithm 1)."""
    roots = [math.sqrt(a) for a in accumulate((1 - b for b in betas), lambda a, b: a * b)]
    first, last = roots[0], roots[-1]
    bars = [((r - last) * first / (first - last)) ** 2 for r in roots]
    return tuple(1 - now / before for before, now in zip([1.0, *bars[:-1]], bars, strict=True))


def prediction_of(config: Mapping[str, Any]) -> Prediction:
    """What the network predicts, by its scheduler's config."""
    kind = config.get("prediction_type", "epsilon")
    if kind not in get_args(Prediction):
        raise Unsupported(f"prediction_type={kind!r} is not one of {', '.join(get_args(Prediction))}.")
    return kind
