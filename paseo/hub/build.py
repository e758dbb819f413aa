"""From a family's network and scheduler config to its prior."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from paseo.hub.conditioning import Conditioning
from paseo.hub.denoiser import Denoiser
from paseo.hub.family import SD3, ModelFamily
from paseo.hub.sd import SDPrior, prediction_of, vp_schedule
from paseo.hub.sd3 import SD3Prior, flow_schedule
from paseo.schedule import VP, SD3Flow


def schedule_of(family: ModelFamily, scheduler: Mapping[str, object]) -> VP | SD3Flow:
    """The native schedule that the model's scheduler config describes."""
    return flow_schedule(scheduler) if family is SD3 else vp_schedule(scheduler)


def latent_multiple(family: ModelFamily, network: Mapping[str, Any]) -> int:
    """What latent sides must be a multiple of: a transformer's patch; U-Nets fit any size."""
    return int(network["patch_size"]) if family is SD3 else 1


def build_prior(
    family: ModelFamily,
    network: Any,
    scheduler: Mapping[str, Any],
    conditioning: Conditioning,
    guidance: float = 1.0,
    *,
    published_time: bool = False,
    around: Callable[[], AbstractContextManager] = nullcontext,
) -> Denoiser:
    """The prior of a loaded network, with prompt and guidance bound."""
    if family is SD3:
        return SD3Prior(
            network,
            conditioning,
            guidance,
            schedule=flow_schedule(scheduler),
            published_time=published_time,
            around=around,
        )
    return SDPrior(
        network,
        conditioning,
        guidance,
        schedule=vp_schedule(scheduler),
        prediction=prediction_of(scheduler),
        published_time=published_time,
        around=around,
    )
