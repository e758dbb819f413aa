"""Files ↔ tensors: any common image in, float RGB in [0,1] out, and 8-bit PNG back.

Reading turns what cameras, scanners and browsers write into one thing: EXIF orientation is applied, embedded
colour profiles are converted to sRGB, grey, palette, CMYK and 16-bit images become RGB (16-bit grey keeps its
precision, 16-bit colour is read with 8). An alpha channel is kept aside and put back on saving (an opaque one
is dropped): the colours below it are restored as they are stored.

Saving clamps to [0,1] and rounds to 8 bit. An image is never stretched to its own minimum and maximum, and a
file appears whole or not at all.
"""

from __future__ import annotations

import hashlib
import io
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageCms, ImageOps, UnidentifiedImageError
from PIL.PngImagePlugin import PngInfo
from torch import Tensor

from paseo.errors import BadInput
from paseo.files import atomic
from paseo.units import to_signed as to_signed
from paseo.units import to_unit as to_unit

T = TypeVar("T")
MAX_PIXELS = 64_000_000  # 8000 × 8000; more is refused before it is decoded
MAX_BYTES = 1 << 30
EXTENSIONS = frozenset(
    {
        ".png",
        ".jpg",
        ".jpeg",
        ".jpe",
        ".jfif",
        ".bmp",
        ".gif",
        ".tif",
        ".tiff",
        ".webp",
        ".avif",
        ".ppm",
        ".pgm",
        ".pnm",
    }
)


@dataclass(frozen=True, eq=False)
class Origin:
    """What a file holds besides its colours, to be put back on saving."""

    alpha: Tensor | None = None  # (1, H, W) in [0,1]; None where all is opaque
    icc: bytes | None = None  # a profile of sRGB, where the file had one
    exif: bytes | None = None  # without orientation (it was applied) and thumbnail


@dataclass(frozen=True, eq=False)
class Picture:
    """An image file as the library sees it."""

    rgb: Tensor  # (3, H, W) in [0,1], sRGB
    alpha: Tensor | None  # (1, H, W) in [0,1]; None where all is opaque
    sha256: str  # of the file's bytes
    notes: tuple[str, ...] = ()  # what was done on the way, e.g. "orientation applied"
    icc: bytes | None = None  # a profile of the colours as they are here, where the file had one
    exif: bytes | None = None

    @property
    def size(self) -> tuple[int, int]:
        """(H, W)."""
        return int(self.rgb.shape[-2]), int(self.rgb.shape[-1])

    @property
    def origin(self) -> Origin:
        return Origin(self.alpha, self.icc, self.exif)


def read(path: str | Path, *, max_pixels: int = MAX_PIXELS) -> Picture:
    """Any image file as RGB in [0,1]. What cannot be read is a BadInput with the file and the reason."""
    return read_bytes(_bytes(Path(path)), path, max_pixels=max_pixels)


def read_bytes(data: bytes, path: str | Path, *, max_pixels: int = MAX_PIXELS) -> Picture:
    """The same for a file that is in memory already; `path` is how errors call it."""
    path = Path(path)
    image, profile, notes = _decode(data, path, max_pixels)
    if image.mode.startswith(("I", "F")):
        rgb, alpha = _deep(image, path, notes), None
    else:
        colour, alpha = _split_alpha(image)
        rgb = to_tensor(_to_srgb(colour, profile, notes))
    sha256 = hashlib.sha256(data).hexdigest()
    return Picture(rgb, alpha, sha256, tuple(notes), _kept_profile(profile, notes), _kept_exif(image))


_CONVERTED = "colour profile converted to sRGB"
_DROPPED = {0x0112, 0x0201, 0x0202}  # orientation, and the thumbnail, which shows the unrestored picture


def _kept_profile(profile: bytes | None, notes: list[str]) -> bytes | None:
    """The file's profile, or that of sRGB where the colours were converted to it."""
    if profile and _CONVERTED in notes:
        return ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    return profile if profile and not any("profile" in note for note in notes) else None


def _kept_exif(image: Image.Image) -> bytes | None:
    """What the camera wrote, as far as it is still true; None where it cannot be written again."""
    try:
        exif = image.getexif()
        for tag in _DROPPED & set(exif):
            del exif[tag]
        return exif.tobytes() if len(exif) else None
    except Exception:  # broken blocks raise a dozen kinds, and are not worth a picture
        return None


def _bytes(path: Path) -> bytes:
    try:
        if path.is_dir():
            raise BadInput(f"{path} is a folder, an image file was expected.")
        if not path.exists():
            raise BadInput(f"{path} does not exist.")
        if not path.is_file():
            raise BadInput(f"{path} is not a regular file.")
        size = path.stat().st_size
        if size == 0:
            raise BadInput(f"{path} is empty.")
        if size > MAX_BYTES:
            raise BadInput(f"{path} has {size:,} bytes, more than the limit of {MAX_BYTES:,}.")
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}.") from error


def _decode(data: bytes, path: Path, max_pixels: int) -> tuple[Image.Image, bytes | None, list[str]]:
    """The first frame, upright, in the mode it was stored in; its colour profile; notes."""
    notes: list[str] = []
    with _opened(data, path, max_pixels) as image:
        if getattr(image, "n_frames", 1) > 1:
            notes.append("first of several frames")
        profile = image.info.get("icc_profile")
        image.load()
        if image.getexif().get(0x0112, 1) in range(2, 9):
            notes.append("orientation applied")
        return ImageOps.exif_transpose(image), profile, notes


def look_at(path: str | Path, see: Callable[[Image.Image], T], *, max_pixels: int = MAX_PIXELS) -> T:
    """What `see` makes of a file as Pillow opened it, with all that its format tells, checked."""
    path = Path(path)
    with _opened(_bytes(path), path, max_pixels) as image:
        image.load()
        return see(image)


@contextmanager
def _opened(data: bytes, path: Path, max_pixels: int) -> Generator[Image.Image, None, None]:
    """The image, of a size that may be loaded; whatever goes wrong with a damaged file is a BadInput."""
    try:
        with _quiet(), Image.open(io.BytesIO(data)) as image:
            width, height = image.size
            if width * height > max_pixels:
                raise BadInput(
                    f"{path} is {width}×{height}, more than the limit of {max_pixels:,} pixels. Scale it "
                    "down first."
                )
            yield image
    except BadInput:
        raise
    except UnidentifiedImageError:
        raise BadInput(
            f"{path} is not an image that can be read here. Convert it to PNG, JPEG, TIFF or WebP."
        ) from None
    except Image.DecompressionBombError:
        raise BadInput(
            f"{path} claims to be far larger than the limit of {max_pixels:,} pixels. Scale it down first."
        ) from None
    except (
        Exception
    ) as error:  # decoders raise a dozen kinds on damaged files: OSError, SyntaxError, struct.error, …
        raise BadInput(f"{path} is damaged or cut short: {error or type(error).__name__}.") from error


def _quiet() -> warnings.catch_warnings[None]:
    """Broken EXIF blocks and the like are not worth a warning; the limit on pixels is our own."""
    return warnings.catch_warnings(action="ignore")


def _split_alpha(image: Image.Image) -> tuple[Image.Image, Tensor | None]:
    """The image without alpha, and alpha where something is not opaque."""
    if image.mode == "P" or "transparency" in image.info:
        image = image.convert("RGBA" if "transparency" in image.info else "RGB")
    if image.mode in ("PA", "La", "RGBa"):
        image = image.convert("RGBA")
    if image.mode not in ("RGBA", "LA"):
        return image, None
    alpha = torch.from_numpy(np.array(image.getchannel("A"))).to(torch.float32)[None] / 255
    return image.convert(image.mode.removesuffix("A")), alpha if bool((alpha < 1).any()) else None


def _deep(image: Image.Image, path: Path, notes: list[str]) -> Tensor:
    """16-bit and floating-point grey, without loss."""
    values = torch.from_numpy(np.asarray(image).astype(np.float32))[None]
    top = 1.0 if image.mode == "F" else 65535.0
    low, high = float(values.min()), float(values.max())
    if not (low >= 0 and high <= top):
        raise BadInput(
            f"{path} has values from {low:g} to {high:g}, outside 0 … {top:g}. Store it as 8 or 16 bit."
        )
    notes.append("floating point, read as [0,1]" if image.mode == "F" else "16 bit")
    return (values / top).expand(3, -1, -1).contiguous()


def _to_srgb(image: Image.Image, profile: bytes | None, notes: list[str]) -> Image.Image:
    """The embedded profile → sRGB; without one (or with a broken one) the plain conversion."""
    if profile and image.mode in ("L", "RGB", "CMYK", "LAB"):
        try:
            source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
            if "srgb" not in ImageCms.getProfileDescription(source).lower():
                target = ImageCms.createProfile("sRGB")
                converted = ImageCms.profileToProfile(
                    image, source, target, ImageCms.Intent.RELATIVE_COLORIMETRIC, outputMode="RGB"
                )
                notes.append(_CONVERTED)
                return converted if converted is not None else image
        except (ImageCms.PyCMSError, OSError, ValueError):
            notes.append("unreadable colour profile ignored")
    if image.mode == "LAB":
        lab, target = ImageCms.createProfile("LAB"), ImageCms.createProfile("sRGB")
        converted = ImageCms.profileToProfile(image, lab, target, outputMode="RGB")
        return converted if converted is not None else image
    return image.convert("RGB")


def to_tensor(image: Image.Image) -> Tensor:
    """An 8-bit PIL image → (3, H, W) in [0,1]. For files use `read`, which also takes care of profiles and
    orientation.
    """
    array = np.array(image.convert("RGB"))
    return torch.from_numpy(array).permute(2, 0, 1).to(torch.float32) / 255


def to_pil(x: Tensor, alpha: Tensor | None = None) -> Image.Image:
    """(3,H,W) or (1,H,W) in [0,1] → 8-bit PIL: clamped and rounded, no more. `alpha` is resized to fit."""
    if x.ndim != 3 or x.shape[0] not in (1, 3):
        raise BadInput(
            f"An image is a tensor (3,H,W) or (1,H,W), got {tuple(x.shape)}. Save a batch image by image."
        )
    image = Image.fromarray(_to_bytes(x.expand(3, -1, -1)))
    if alpha is not None:
        fitted = (
            alpha
            if alpha.shape[-2:] == x.shape[-2:]
            else F.interpolate(alpha[None], x.shape[-2:], mode="bilinear", antialias=True)[0]
        )
        image.putalpha(Image.fromarray(_to_bytes(fitted)[..., 0]))
    return image


def _to_bytes(x: Tensor) -> np.ndarray[Any, Any]:
    x = x.detach().to("cpu", torch.float32)
    if not torch.isfinite(x).all():
        raise BadInput("The image holds NaN or infinite values and cannot be saved.")
    return (x.clamp(0, 1) * 255).round().to(torch.uint8).permute(1, 2, 0).contiguous().numpy()


def fit_square(x: Tensor, side: int) -> Tensor:
    """(3,H,W) → (3,side,side): the shorter side resized (antialiased bicubic), then the centre; untouched if
    it fits already.
    """
    height, width = x.shape[-2:]
    if (height, width) != (side, side):
        scale = side / min(height, width)
        size = (max(side, round(height * scale)), max(side, round(width * scale)))
        x = F.interpolate(x[None], size, mode="bicubic", antialias=True)[0].clamp(0, 1)
        top, left = (size[0] - side) // 2, (size[1] - side) // 2
        x = x[:, top : top + side, left : left + side]
    return x


def save_png(
    path: str | Path, x: Tensor | Image.Image, *, alpha: Tensor | None = None, record: str | None = None
) -> Path:
    """An 8-bit PNG, whole or not at all; `record` goes into the text chunk "paseo"."""
    image = x if isinstance(x, Image.Image) else to_pil(x, alpha)
    info = PngInfo()
    if record is not None:
        info.add_itxt("paseo", record)
    with atomic(path) as file:
        image.save(file, format="PNG", pnginfo=info)
    return Path(path)


def find_images(root: str | Path) -> list[Path]:
    """Image files below a folder, sorted; hidden ones are left out."""
    root = Path(root)
    candidates = (p for p in root.rglob("*") if p.suffix.lower() in EXTENSIONS and p.is_file())
    return sorted(
        p for p in candidates if not any(part.startswith(".") for part in p.relative_to(root).parts)
    )
