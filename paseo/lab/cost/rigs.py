"""The networks on which methods are compared by cost: the embedded ones, or Stable Diffusion's at full size.

Weights are random: cost does not depend on what a network has learned. Step sizes are small enough to stay
finite.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from paseo.errors import BadInput
from paseo.hub.device import pick_device, pick_dtype
from paseo.lab.cost.methods import MethodCosts, measure_methods
from paseo.operators.net import OperatorNet
from paseo.samplers import METHODS, method

EMBEDDED, EMBEDDED_SIDE = "embedded", 128
SAFE_SETTINGS: dict[str, dict[str, Any]] = {
    "silo": {"scale": 0.1},
    "resample": {"guidance": 1e-6},
    "psld": {"guidance": 0.1, "gluing": 0.01},
    "gml-dps": {"guidance": 0.1, "goodness": 0.01},
    "ldps": {"guidance": 0.1},
    "daps": {"step_size": 1e-9},
    "red-diff": {"lr": 0.01},
    "flow-dps": {"step_size": 0.01},
    "flow-chef": {"step_size": 0.01},
    "pnp-flow": {"lr": 1e-6},
}


def cost_of_methods(
    arch: str = EMBEDDED,
    *,
    names: Sequence[str] = tuple(METHODS),
    steps: int = 2,
    side: int | None = None,
    dtype: str | None = None,
    device: str = "auto",
    recall: int = 0,
    say: Callable[[str], None] = lambda text: None,
) -> MethodCosts:
    """Every named method on the networks of `arch`, over `steps` steps; PASEO also with `recall` pairs."""
    if steps < 1:
        raise BadInput(f"steps={steps} is too few: at least one step is measured.")
    for name in names:
        method(name)  # says which there are
    place = pick_device(device)
    torch.manual_seed(0)
    prior, codec, side = _networks(arch, side, dtype, place)
    operator = OperatorNet(codec.channels).to(place).eval().requires_grad_(False)
    return measure_methods(
        prior,
        codec,
        operator,
        side=side,
        steps=steps,
        methods=names,
        settings=SAFE_SETTINGS,
        variants={"paseo-recall": ("paseo", {"recall": recall})} if recall and "paseo" in names else {},
        device=place,
        say=say,
    )


def _networks(arch: str, side: int | None, dtype: str | None, place: torch.device) -> tuple[Any, Any, int]:
    """Prior, codec and image side."""
    if arch == EMBEDDED:
        from paseo.codecs.embedded import EmbeddedCodec
        from paseo.codecs.net import AutoencoderNet
        from paseo.priors.embedded import EmbeddedPrior
        from paseo.priors.net import FlowUNet

        return (
            EmbeddedPrior(FlowUNet()).to(place),
            EmbeddedCodec(AutoencoderNet()).to(place),
            side or EMBEDDED_SIDE,
        )
    from paseo.lab.cost.networks import build_rig

    rig = build_rig(arch, dtype=pick_dtype(dtype, place), device=place, side=side)  # ty: ignore[invalid-argument-type]
    return rig.prior(1.0), rig.codec, rig.side
