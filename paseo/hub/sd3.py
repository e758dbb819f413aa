"""Stable Diffusion 3 and 3.5: a diffusion transformer that predicts the flow's velocity u = ε − z.

    x_t = (1−σ) z + σ ε,    ẑ₀ = x − σ o          time = σ; the network is told 1000 σ

The grid is the scheduler's own, shift applied twice (`schedule.SD3Flow`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from torch import Tensor

from paseo.errors import BadInput, Unsupported
from paseo.hub.conditioning import Conditioning
from paseo.hub.denoiser import Denoiser
from paseo.schedule import Point, SD3Flow


class SD3Prior(Denoiser):
    """The multimodal transformer with its flow schedule."""

    schedule: SD3Flow

    def __init__(
        self,
        transformer: Any,
        conditioning: Conditioning,
        guidance: float = 1.0,
        *,
        schedule: SD3Flow | None = None,
        published_time: bool = False,
        around: Callable[[], AbstractContextManager] = nullcontext,
    ) -> None:
        if conditioning.pooled is None:
            raise BadInput("SD3 needs pooled prompt embeddings beside the token embeddings.")
        super().__init__(
            transformer,
            schedule or SD3Flow(),
            conditioning,
            guidance,
            published_time=published_time,
            around=around,
        )
        self.multiple = int(transformer.config.patch_size)
        self.largest = int(transformer.config.pos_embed_max_size) * self.multiple  # latent cells per side

    def check(self, x: Tensor) -> None:
        super().check(x)
        if max(x.shape[-2:]) > self.largest:
            raise BadInput(
                f"A latent of {tuple(x.shape[-2:])} cells exceeds the {self.largest} per side that this "
                "model has positions for. "
                "Restore a smaller image."
            )

    def network_time(self, t: float) -> float:
        return 1000.0 * self.schedule.network_time(t, self.published_time)

    def call(self, x: Tensor, time: Tensor, conditioning: Conditioning) -> Tensor:
        return self.network(
            hidden_states=x,
            timestep=time,
            encoder_hidden_states=conditioning.prompt,
            pooled_projections=conditioning.pooled,
            return_dict=False,
        )[0]

    def clean(self, x: Tensor, o: Tensor, point: Point) -> Tensor:
        return x - point.sigma * o


def flow_schedule(config: Mapping[str, Any]) -> SD3Flow:
    """The grid that a FlowMatchEulerDiscreteScheduler config describes."""
    if "shift" not in config:
        name = config.get("_class_name", "this scheduler")
        raise Unsupported(
            f"{name} has no flow shift, so it describes no flow-matching model. SD3 and SD3.5 schedulers "
            "have one."
        )
    if config.get("use_dynamic_shifting") or int(config.get("num_train_timesteps", 1000)) != 1000:
        raise Unsupported(
            "A flow schedule that depends on the image size, or has other than 1000 levels, is not "
            "supported. SD3 and SD3.5 have neither."
        )
    return SD3Flow(shift=float(config["shift"]))
