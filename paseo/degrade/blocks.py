"""The quality of a JPEG that was saved again without loss: its coefficients still lie on its tables' grid.

The luma of every 8×8 block is transformed again. A coefficient c that was rounded to multiples of its table's
entry s lies near m s; the rounding of the pixels to 8 bit, and noise that came later, spread it by σ. For
each frequency, with Laplacian coefficients of mean size b,

    log p(c | s) = log ( (1 − ε) P_m N(c − m s; σ) + ε p(c) ),   P_m = ∫ of the Laplacian over m's interval

and without any JPEG log p(c). The quality with the largest sum over all frequencies wins, if it explains the
picture better than no JPEG does. Fan and de Queiroz (2003) have the idea. The grid has to start at the
picture's first pixel: what was cropped or resized after the JPEG is not recognised.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from paseo.degrade.common import check_images
from paseo.degrade.jpeg_tables import quantisation_tables

QUALITIES = range(2, 96)
_OUTLIERS = 0.05  # ε: blocks that were clipped at black or white, edges of later changes
_MOST = 2048  # blocks that are looked at
_FEWEST = 16
_SURE = 0.02  # gain in log-likelihood per coefficient below which nothing is said
_ENOUGH = 40  # coefficients that must not be zero
_ROUNDED = 0.3  # pixels rounded to 8 bit, as seen in a coefficient
_LOW = 36  # frequencies in the order of the zigzag: the higher ones are zero in most blocks


def quality_in_pixels(x: Tensor, noise: float = 0.0, saved: int = 100) -> int | None:
    """The quality of one image (1,3,H,W) in [0,1] whose blocks start at its corner, None where no JPEG shows.
    `noise` is σ_y of what was added afterwards, `saved` the quality at which it was stored once more.
    """
    check_images(x, channels=3)
    c = _coefficients(x)
    if c is None:
        return None
    order = _zigzag()[1 : _LOW + 1]
    later = quantisation_tables(saved)[0].flatten().double()[order] / math.sqrt(12)
    sigma = (later.square() + _ROUNDED**2 + (255 * noise) ** 2).sqrt()
    tables = torch.stack([quantisation_tables(q)[0].flatten().double()[order] for q in QUALITIES])
    gains = torch.zeros(len(tables), dtype=torch.float64)
    for k, position in enumerate(order.tolist()):
        steps, back = tables[:, k].unique(return_inverse=True)
        gains += _gains(c[:, position], steps, float(sigma[k]))[back]
    best = int(gains.argmax())
    flat = int((c[:, order].abs() > 3 * sigma).sum()) < _ENOUGH  # zeros lie on every grid
    return QUALITIES[best] if not flat and float(gains[best]) > _SURE * c[:, order].numel() else None


def _gains(c: Tensor, steps: Tensor, sigma: float) -> Tensor:
    """(S,): Σ log p(c | s) − log p(c) of one frequency for each step."""
    b = c.abs().mean().clamp_min(0.6)
    smooth = torch.exp(-c.abs() / b) / (2 * b)
    s = steps[:, None]
    m = (c / s).round()
    inside = 1 - torch.exp(-s / (2 * b))
    outside = torch.exp(-(m.abs() * s - s / 2) / b) * (1 - torch.exp(-s / b)) / 2
    weight = torch.where(m == 0, inside, outside)
    near = torch.exp(-((c - m * s) ** 2) / (2 * sigma**2)) / (sigma * math.sqrt(2 * math.pi))
    return (((1 - _OUTLIERS) * weight * near + _OUTLIERS * smooth) / smooth).log().sum(1)


def _coefficients(x: Tensor) -> Tensor | None:
    """(blocks, 64) of the luma in 8-bit units, rows of 8×8; None where there are too few."""
    rgb = (x[0].double() * 255).round()
    luma = 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2] - 128
    h, w = (side // 8 * 8 for side in luma.shape)
    blocks = luma[:h, :w].unfold(0, 8, 8).unfold(1, 8, 8).reshape(-1, 8, 8)
    if len(blocks) < _FEWEST:
        return None
    blocks = blocks[:: max(1, len(blocks) // _MOST)]
    d = _transform()
    return (d @ blocks @ d.T).flatten(1)


def _transform() -> Tensor:
    """(8, 8): the orthonormal DCT-II."""
    k = torch.arange(8, dtype=torch.float64)
    d = torch.cos(math.pi * (2 * k + 1) * k[:, None] / 16) / 2
    d[0] /= math.sqrt(2)
    return d


def _zigzag() -> Tensor:
    """(64,): positions by rising frequency."""
    u = torch.arange(64)
    return ((u // 8 + u % 8) * 64 + u).argsort()
