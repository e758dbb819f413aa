"""What a JPEG file says of its compression: two numbers, which differ for tables other than the standard's.

    typed     what its encoder was asked for: the quality and the preset (encoder_tables.py) whose luma table
              is the file's, up to rounding. Chroma may have been asked for by itself (`cjpeg -quality 85,60`)
    quality   of the standard tables that do the same to a picture: RMS of log(table / standard table) is
              least, over luma and chroma. This is what an operator is told

Tables of no known preset (cameras, Photoshop) have the nearest standard quality for both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile
from torch import Tensor

from paseo.degrade.encoder_tables import LARGEST, PRESETS, STANDARD, scaled
from paseo.errors import BadInput

Maker = Literal["libjpeg", "mozjpeg", "other"]

_SAME = 0.02  # misfit up to which a table is a preset's: some encoders round the scale, others do not
_TIE = 0.01  # weight of chroma where luma decides: presets may share a luma table at the highest qualities


@dataclass(frozen=True)
class JpegFile:
    """What a JPEG file says of its compression."""

    quality: int  # of the standard tables that do the same to a picture: what an operator is to be told
    typed: int  # what its encoder was asked for, as far as its tables are known; else the quality
    maker: Maker
    misfit: float  # RMS of log(table / nearest standard table); 0 = exact
    subsampling: str  # of the colours: 4:4:4, 4:2:2, 4:2:0 or grey

    def __str__(self) -> str:
        whose = "" if self.maker == "libjpeg" else f"{self.maker} tables, "
        exact = self.maker == "libjpeg" and self.typed == self.quality
        near = "" if exact else f" ({whose}nearest standard quality {self.quality})"
        return f"JPEG of quality {self.typed}{near}, colours {self.subsampling}"


def read_jpeg(image: Image.Image) -> JpegFile | None:
    """The compression of an opened file, None if it is no JPEG (or was loaded and changed, which drops the
    tables).
    """
    if not isinstance(image, JpegImageFile) or not image.quantization:
        return None
    return fit_quality(image.quantization, _subsampling(image))


def fit_quality(tables: Mapping[int, Sequence[int]], subsampling: str = "4:2:0") -> JpegFile:
    """The quality of quantisation tables as Pillow gives them: 0 is luma, 1 chroma, rows of 8×8 one after the
    other.
    """
    given = [torch.tensor(list(tables[key]), dtype=torch.float64) for key in sorted(tables)[:2]]
    if any(len(t) != 64 or bool((t < 1).any()) for t in given):
        raise BadInput("A quantisation table has 64 entries from 1.")
    given = [t.clamp(max=LARGEST) for t in given]
    standard = _misfits(given, STANDARD, chroma=0.5)
    quality = int(standard.argmin()) + 1
    misfit = float(standard[quality - 1])
    preset, typed = _asked_for(given)
    if not preset:
        return JpegFile(quality, quality, "other", misfit, subsampling)
    maker: Maker = "libjpeg" if preset == STANDARD else "mozjpeg"
    return JpegFile(quality, typed, maker, misfit, subsampling)


def _asked_for(given: list[Tensor]) -> tuple[str, int]:
    """The preset whose luma table lies nearest, and its quality; "" where none is the same."""
    misfits = torch.stack([_misfits(given, preset, chroma=_TIE) for preset in PRESETS])
    preset, quality = divmod(int(misfits.argmin()), 100)
    luma = _misfits(given[:1], PRESETS[preset])[quality]
    return (PRESETS[preset], quality + 1) if luma <= _SAME else ("", 0)


def _misfits(given: list[Tensor], preset: str, chroma: float = 0.0) -> Tensor:
    """(100,): for each quality the RMS of log(given / preset), low frequencies counted more, chroma with that
    weight.
    """
    u = torch.arange(8, dtype=torch.float64)
    weight = (1 / (1 + u[:, None] + u)).flatten()
    known, total, norm = scaled(preset), torch.zeros(100, dtype=torch.float64), 0.0
    for plane, (table, share) in enumerate(zip(given, (1.0, chroma), strict=False)):
        d = (table.log() - known[:, plane].log()).square()
        total += share * (weight * d).sum(1)
        norm += share * float(weight.sum())
    return (total / norm).sqrt()


def _subsampling(image: JpegImageFile) -> str:
    layers = image.layer  # (component, horizontal, vertical, table) of each plane
    if not layers or len(layers) < 3:
        return "grey"
    ratio = (layers[0][1] // max(layers[1][1], 1), layers[0][2] // max(layers[1][2], 1))
    return {(1, 1): "4:4:4", (2, 1): "4:2:2", (2, 2): "4:2:0", (1, 2): "4:4:0", (4, 1): "4:1:1"}.get(
        ratio, f"{ratio[0]}×{ratio[1]}"
    )
