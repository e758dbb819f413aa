"""What happened to a picture, read off its file: the JPEG quality from the quantisation tables, the noise
from the pixels.

    quality   from the quantisation tables (jpeg_file.py)
    earlier   the quality of a JPEG that was saved again since, without loss or at a high quality: its grid is
              still in the pixels (blocks.py)
    noise     σ = median |d| / 0.6745 over the diagonal details d of a wavelet where the picture is smooth,
              also of the differences of its colours, in which texture cancels and noise does not

Donoho and Johnstone (1994) for the estimator. Which places are smooth is judged by the picture at half its
size, so that the choice does not see the details whose size is estimated. JPEG removes such details: below
quality 85, or with colours stored at half the size, no noise can be read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from paseo.degrade.blocks import quality_in_pixels
from paseo.degrade.common import check_images
from paseo.degrade.jpeg_file import JpegFile, read_jpeg

FINE_QUALITY = 92  # from here on a JPEG shows nothing that is worth a restoration
FINE_NOISE = 0.012  # and up to here noise does not
READABLE = 85  # quality from which noise survives the compression
_ROUNDING = 1 / (255 * math.sqrt(12))  # std of the rounding to 8 bit
_HIGH = 80  # quality of a file from which an earlier JPEG still shows
_TOLD = 10  # difference in quality from which a given task contradicts the file
_SMOOTH, _BLOCK, _ENOUGH, _CLIPPED = (0.02, 0.1, 0.3), 8, 24, 0.4


@dataclass(frozen=True)
class Found:
    """What was read off a picture."""

    jpeg: JpegFile | None
    noise: float | None  # σ on [0,1] images; None where the compression hides it
    earlier: int | None = None  # quality of a JPEG before the file was saved the last time

    @property
    def quality(self) -> int | None:
        """Of the compression that did the damage; None: there was none."""
        known = [q for q in (self.jpeg.quality if self.jpeg else None, self.earlier) if q is not None]
        return min(known, default=None)

    @property
    def task(self) -> str | None:
        """The name of the task that undoes it, or None: nothing to restore."""
        parts = []
        if self.noise is not None and self.noise > FINE_NOISE:
            parts.append(f"noise:{self.noise:.2g}")
        if self.quality is not None and self.quality < FINE_QUALITY:
            parts.append(f"jpeg:{self.quality}")
        return ",".join(parts) or None

    def __str__(self) -> str:
        seen = [str(self.jpeg)] if self.jpeg else ["no JPEG"]
        if self.earlier is not None:
            seen.append(f"its pixels are those of a JPEG of quality {self.earlier} that was saved again")
        if self.noise is not None:
            seen.append(f"noise {self.noise:.3f}")
        return "; ".join(seen) + ("" if self.task else ": nothing to restore")


def examine(image: Image.Image) -> Found:
    """Everything that can be read off an opened picture."""
    jpeg = read_jpeg(image)
    pixels = torch.frombuffer(bytearray(image.convert("RGB").tobytes()), dtype=torch.uint8)
    x = pixels.view(1, image.height, image.width, 3).permute(0, 3, 1, 2).float() / 255
    earlier = earlier_quality(x, jpeg)
    hidden = jpeg is not None and (jpeg.quality < READABLE or jpeg.subsampling != "4:4:4")
    hidden = hidden or (earlier is not None and earlier < READABLE)
    return Found(jpeg, None if hidden else noise_level(x), earlier)


def earlier_quality(x: Tensor, jpeg: JpegFile | None) -> int | None:
    """The quality of a JPEG that came before the file at hand, where it was clearly lower."""
    if jpeg is None:
        return quality_in_pixels(x)
    found = quality_in_pixels(x, saved=jpeg.quality) if jpeg.quality >= _HIGH else None
    return found if found is not None and found <= jpeg.quality - _TOLD else None


def contradiction(quality: int, found: Found) -> str | None:
    """Why a JPEG task of this quality does not fit the file, or None."""
    if found.quality is None or abs(found.quality - quality) <= _TOLD:
        return None
    return (
        f"The task says JPEG of quality {quality}, but the file says: {found}. Restored as "
        f"jpeg:{quality} it may come out worse; try jpeg:{found.quality}."
    )


# ------------------------------------------------------------------------------------------------ noise


def noise_level(x: Tensor, *, colours: bool = True) -> float:
    """σ of white noise on images (B,3,H,W) in [0,1], without the rounding to 8 bit; `colours` = False where
    colours were stored at half the size, which removes their noise.
    """
    check_images(x, channels=3)
    if min(x.shape[-2:]) < 4 * _BLOCK:
        return 0.0  # too small to tell
    r, g, b = x.unbind(1)
    differences = torch.stack([r - g, b - g], dim=1) / math.sqrt(
        2
    )  # noise keeps its σ, texture mostly cancels
    grey = float(differences.abs().max()) < 0.02
    sigma = _sigma(x, x)
    if colours and not grey:
        sigma = min(sigma, _sigma(differences, x))
    return math.sqrt(max(sigma**2 - _ROUNDING**2, 0.0))


def _sigma(planes: Tensor, x: Tensor) -> float:
    """From the details of `planes` where x is smooth: the least over the smoothest 2, 10 and 30 % of the
    places.
    """
    low, high = _filters(x)
    coarse = _cut(F.conv2d(x.mean(1, keepdim=True), torch.outer(low, low)[None, None], stride=2) / 2)
    rough = (coarse - coarse.mean(1, keepdim=True)).square().mean(1)
    cut_off = (
        coarse.mean(1) - 0.5
    ).abs() > _CLIPPED  # too dark or bright: half of the noise is missing there
    order = torch.where(cut_off, rough + 1, rough).argsort()
    details = [
        _cut(F.conv2d(plane[:, None], torch.outer(high, high)[None, None], stride=2))
        for plane in planes.unbind(1)
    ]
    entries = torch.stack(details, dim=1).abs()  # (blocks, planes, 64)
    counts = [max(_ENOUGH, int(share * len(order))) for share in _SMOOTH]
    return min(float(entries[order[:count]].median()) for count in counts) / 0.6745


def _cut(band: Tensor) -> Tensor:
    """(n, 64): blocks of 8×8."""
    h, w = (side // _BLOCK * _BLOCK for side in band.shape[-2:])
    return F.unfold(band[..., :h, :w], _BLOCK, stride=_BLOCK).transpose(1, 2).flatten(0, 1)


def _filters(x: Tensor) -> tuple[Tensor, Tensor]:
    """Daubechies' four taps, low and high."""
    r = math.sqrt(3)
    taps = [(1 + r) / (4 * math.sqrt(2)), (3 + r) / (4 * math.sqrt(2))]
    taps += [(3 - r) / (4 * math.sqrt(2)), (1 - r) / (4 * math.sqrt(2))]
    low = torch.tensor(taps, dtype=x.dtype, device=x.device)
    sign = torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=x.dtype, device=x.device)
    return low, low.flip(0) * sign
