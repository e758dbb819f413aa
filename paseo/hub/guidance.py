"""Classifier-free guidance: o = o_∅ + w (o_c − o_∅), as one batched network call, which counts as one
evaluation (NFE).

The maps from a network's output o to the clean estimate are linear in o at fixed (x, t), so guiding o, ε̂ or
ẑ₀ is the same. w = 1 needs the conditional half only, and then the network runs on it alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from paseo.errors import BadInput, NotFinite
from paseo.hub.conditioning import Conditioning

Network = Callable[[Tensor, Conditioning], Tensor]
"""(x, conditioning of the same batch) → o, in the network's own dtype."""


def check_guidance(w: float, conditioning: Conditioning) -> float:
    """w as a float; guidance needs something to guide away from."""
    if not (math.isfinite(w) and w >= 0):
        raise BadInput(
            f"guidance={w} cannot be used: 1 follows the prompt, more follows it further (the paper uses 1 "
            "and 4)."
        )
    if w != 1 and conditioning.negative is None:
        raise BadInput(
            f"guidance={w:g} needs embeddings of a negative prompt (it may be empty), and these have none. "
            "Encode them with guidance on."
        )
    return float(w)


def guided(network: Network, x: Tensor, conditioning: Conditioning, w: float) -> Tensor:
    """o in x's dtype, from one call of the network."""
    conditioning = conditioning.for_batch(len(x))
    if w == 1:
        return _finite(network(x, conditioning.positive()), x)
    both = network(torch.cat([x, x]), conditioning.both())
    empty, full = _finite(both, x).chunk(2)
    return empty + w * (full - empty)


def _finite(o: Tensor, x: Tensor) -> Tensor:
    """Half precision overflows in some networks; the state's own dtype is what the solver works in."""
    if o.dtype == torch.float16 and not torch.isfinite(o).all() and torch.isfinite(x).all():
        raise NotFinite("The denoiser overflowed in float16. Load it in bfloat16 or float32.")
    return o.to(x.dtype)
