"""A denoising network with its prompt and guidance bound: what SD and SD3 priors share.

The state stays in the caller's dtype (float32); only the network's input is cast to the network's own.
Parameters are frozen, and nothing here turns gradients on: a sampler that differentiates the denoiser does so
itself, PASEO never does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from paseo.errors import BadInput, out_of_memory
from paseo.hub.conditioning import Conditioning
from paseo.hub.guidance import check_guidance, guided
from paseo.schedule import Point, Schedule

SMALLEST = 8  # latent cells per side: below, these networks have never seen anything
LESS_MEMORY = (
    "Load the network in bfloat16, turn CPU offload on, take fewer samples at once, or a smaller image."
)


class Denoiser(nn.Module, ABC):
    """E[z | x_t = x] from a network; `nfe` counts the evaluations (a guided pair is one)."""

    multiple: int = 1  # latent sides must be a multiple of this

    def __init__(
        self,
        network: Any,
        schedule: Schedule,
        conditioning: Conditioning,
        guidance: float = 1.0,
        *,
        published_time: bool = False,
        around: Callable[[], AbstractContextManager] = nullcontext,
    ) -> None:
        """`published_time` repeats the off-by-one of released code: the network is told the next noisier
        level.
        """
        super().__init__()
        self.network = network.eval().requires_grad_(False)
        self.schedule = schedule
        self.conditioning = conditioning
        conditioning.check_finite()
        self.guidance = check_guidance(guidance, conditioning)
        self.published_time = published_time
        self.channels = int(network.config.in_channels)
        self.nfe = 0
        self._at: tuple[tuple[torch.device, torch.dtype], Conditioning] | None = None
        self._around = around

    @property
    def dtype(self) -> torch.dtype:
        return next(self.network.parameters()).dtype

    def x0(self, x: Tensor, t: float) -> Tensor:
        """The clean estimate at native time t; one evaluation."""
        self.check(x)
        time = self.network_time(t)
        conditioning = self._placed(x.device)

        def network(state: Tensor, rows: Conditioning) -> Tensor:
            return self.call(state.to(self.dtype), torch.full((len(state),), time, device=state.device), rows)

        self.nfe += 1
        with out_of_memory("a denoiser call", LESS_MEMORY), self._around():
            o = guided(network, x, conditioning, self.guidance)
        return self.clean(x, o, self.schedule.point(t))

    def _placed(self, device: torch.device) -> Conditioning:
        """The embeddings where and in the dtype they are needed, moved once."""
        if self._at is None or self._at[0] != (device, self.dtype):
            self._at = ((device, self.dtype), self.conditioning.to(device, self.dtype))
        return self._at[1]

    def check(self, x: Tensor) -> None:
        """Refuse a latent that is not this network's."""
        if x.ndim != 4 or x.shape[1] != self.channels:
            raise BadInput(
                f"This prior denoises latents (B,{self.channels},h,w), got {tuple(x.shape)}. Is it a "
                "latent of another model?"
            )
        if min(x.shape[-2:]) < SMALLEST:
            raise BadInput(
                f"The image is too small for this prior: {8 * x.shape[-1]}×{8 * x.shape[-2]} pixels to "
                "restore, and at least "
                f"{8 * SMALLEST} on each side are needed. Enlarge it first, or restore it as "
                "super-resolution (sr4, sr8)."
            )
        if any(side % self.multiple for side in x.shape[-2:]):
            raise BadInput(
                f"This prior needs latent sides that are multiples of {self.multiple}, got "
                f"{tuple(x.shape[-2:])}. Pad the image first."
            )

    @abstractmethod
    def network_time(self, t: float) -> float:
        """The time that the network is told."""

    @abstractmethod
    def call(self, x: Tensor, time: Tensor, conditioning: Conditioning) -> Tensor:
        """The network's raw output for a batch."""

    @abstractmethod
    def clean(self, x: Tensor, o: Tensor, point: Point) -> Tensor:
        """Output → clean estimate."""
