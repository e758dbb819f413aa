"""The formats that results are written in, by the ending of the name.

    .png          8 bit, lossless
    .jpg .jpeg    quality 95, colours at full size; opacity is left out, which the format does not know
    .webp         quality 95
    .tif .tiff    16 bit, uncompressed: what the decoder gave, for further editing

Opacity, EXIF and a colour profile go along where the format has a place for them; so does the short record.
"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from PIL.TiffImagePlugin import ImageFileDirectory_v2
from torch import Tensor

from paseo.errors import BadInput
from paseo.files import atomic
from paseo.images import Origin, to_pil

ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff")
QUALITY = 95
EXIF_POINTERS = (0x8769, 0x8825)  # the camera's own table, and that of the place


def check_ending(path: str | Path) -> str:
    """The ending of a name, in small letters, if it is one that can be written."""
    ending = Path(path).suffix.lower()
    if ending not in ENDINGS:
        raise BadInput(f"{path}: pictures are written as {', '.join(ENDINGS)}, not as {ending or 'that'}.")
    return ending


def save_picture(
    path: str | Path, x: Tensor, *, origin: Origin | None = None, record: str | None = None
) -> Path:
    """An image (3,H,W) in [0,1] in the format of the name's ending, whole or not at all."""
    data = encode_picture(x, check_ending(path), origin, record)
    with atomic(path) as file:
        file.write(data)
    return Path(path)


def encode_picture(
    x: Tensor, ending: str = ".png", origin: Origin | None = None, record: str | None = None
) -> bytes:
    """The bytes of such a file."""
    origin = origin or Origin()
    if ending in (".tif", ".tiff"):
        return _tiff(x, origin, record)
    image = to_pil(x, None if ending in (".jpg", ".jpeg") else origin.alpha)
    options: dict[str, object] = {"exif": origin.exif, "icc_profile": origin.icc}
    options = {name: value for name, value in options.items() if value is not None}
    if ending == ".png":
        info = PngInfo()
        if record is not None:
            info.add_itxt("paseo", record)
        options |= {"format": "PNG", "pnginfo": info}
    elif ending == ".webp":
        options |= {"format": "WEBP", "quality": QUALITY}
    else:
        options |= {"format": "JPEG", "quality": QUALITY, "subsampling": 0}
        options |= {} if record is None else {"comment": record.encode()}
    data = io.BytesIO()
    image.save(data, **options)  # ty: ignore[invalid-argument-type]
    return data.getvalue()


def _tiff(x: Tensor, origin: Origin, record: str | None) -> bytes:
    """16-bit RGB or RGBA, which Pillow reads but does not write: its directory with our pixels behind it."""
    pixels = x.detach().to("cpu", torch.float32)
    if not bool(torch.isfinite(pixels).all()):
        raise BadInput("The image holds NaN or infinite values and cannot be saved.")
    if origin.alpha is not None:
        size = (int(x.shape[-2]), int(x.shape[-1]))
        alpha = origin.alpha
        if tuple(alpha.shape[-2:]) != size:
            alpha = F.interpolate(alpha[None], size, mode="bilinear", antialias=True)[0]
        pixels = torch.cat([pixels, alpha.to(pixels)])
    values = (pixels.clamp(0, 1) * 65535).round().permute(1, 2, 0).numpy().astype("<u2")
    height, width, planes = values.shape
    table = ImageFileDirectory_v2(b"II*\x00\x00\x00\x00\x00")
    _add_exif(table, origin.exif)
    table[256], table[257], table[258] = width, height, (16,) * planes  # sides, bits per sample
    table[259], table[262], table[277] = 1, 2, planes  # not compressed, RGB, samples per pixel
    table[278], table[279], table[273] = height, values.nbytes, 0  # one strip, behind the table
    if planes == 4:
        table[338] = (2,)  # the fourth is opacity
    if origin.icc is not None:
        table.tagtype[34675] = 7
        table[34675] = origin.icc
    if record is not None:
        table[270] = record.encode("ascii", "backslashreplace").decode()
    data = io.BytesIO()
    table.save(data)
    data.write(np.ascontiguousarray(values).tobytes())
    return data.getvalue()


def _add_exif(table: ImageFileDirectory_v2, exif: bytes | None) -> None:
    """EXIF is a TIFF directory itself: its entries are moved over."""
    if exif is None:
        return
    found = Image.Exif()
    found.load(exif)
    for tag, value in found.items():
        if tag not in EXIF_POINTERS:
            table[tag] = value
    for pointer in EXIF_POINTERS:
        if inner := found.get_ifd(pointer):
            table[pointer] = dict(inner)
