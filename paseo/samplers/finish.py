"""The last correction, taken in pixels: z ← E( D(z) + a (lift(y) − lift(A(D(z)))) ).

Beyond the paper, whose autoencoder runs twice per image. A latent that a prior drew and a solve corrected is
not the encoding of any picture; encoded anew it is one, and on the way the picture is brought a step (of
Landweber's kind) nearer to the measurement, where no operator has to be learned. One decode and one encode,
before the last call of the denoiser. The result is still a decoded latent: no pixel is copied.
"""

from __future__ import annotations

from torch import Tensor

from paseo.base import HidesPixels, Problem
from paseo.samplers.misfit import codec_of, degradation_of, degrade

LAST = 3  # the last step is k = steps − 3; after it comes the last estimate


def finished(problem: Problem, z: Tensor, share: float) -> Tensor:
    """The latent of the picture behind z, brought nearer to the measurement by a share of its misfit."""
    A, codec = degradation_of(problem), codec_of(problem)
    x = codec.decode(z).clamp(-1, 1)
    size = (x.shape[-2], x.shape[-1])
    misfit = A.lift(problem.y, size) - A.lift(degrade(problem, x), size)
    if isinstance(A, HidesPixels):  # a hole holds noise, or whatever was there, and nothing to come nearer to
        misfit = misfit * A.observed_at(*size).to(misfit)
    return codec.encode(x + share * misfit.to(x)).to(z)
