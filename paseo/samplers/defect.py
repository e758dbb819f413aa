"""The learned operator's error at an estimate, d(z) = E(A(D(z))) − H(z): known without the truth, for one
decode and one encode.

Beyond the paper, whose autoencoder runs twice per image. y_z − d(z) is then matched instead of y_z, which is
a deferred correction of H. It pays where H is far from E∘A∘D (JPEG) and the degradation is known.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from paseo.base import Problem, sketched
from paseo.samplers.misfit import codec_of

BELIEVED = 0.7  # of d(z): the error at the truth is like the error at the estimate, but not the same
BEFORE = 4  # the first quarter of a run has no useful estimate yet
IDLE = 2  # last steps that hardly move: a measurement for them alone changes nothing (docs/beyond.md)


def defect_is_due(k: int, steps: int, every: int) -> bool:
    """Whether step k (from 0; the last is steps − 3) ends with a measurement of the operator's error."""
    first = steps // BEFORE
    return every > 0 and first <= k < steps - 3 - IDLE and (k - first) % every == 0


def defect(problem: Problem, z: Tensor, sketch: bool = False) -> Tensor:
    """The part of d(z) that is believed; with `sketch` D is the quickest decoder that the codec has."""
    A: Any = problem.degradation
    codec = codec_of(problem)
    x = (sketched(codec, z) if sketch else codec.decode(z)).clamp(-1, 1)
    true = codec.encode(A.lift(A(x), (x.shape[-2], x.shape[-1])))
    return BELIEVED * (true.to(z) - problem.operator(z))
