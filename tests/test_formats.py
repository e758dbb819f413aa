"""Results in the formats that people use: what a file had besides its colours is still there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageCms

from paseo.errors import BadInput
from paseo.formats import ENDINGS, encode_picture, save_picture
from paseo.images import Origin, read, save_png

MODEL, MAKER, EXPOSURE, ORIENTATION = 0x0110, 0x010F, 0x829A, 0x0112


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A photograph with EXIF, lying on its side, with a profile of sRGB."""
    exif = Image.Exif()
    exif[MAKER], exif[MODEL], exif[ORIENTATION] = "Maker", "Model", 6
    exif.get_ifd(0x8769)[EXPOSURE] = 0.5
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    pixels = np.random.default_rng(0).integers(0, 255, (12, 20, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.jpg", exif=exif, icc_profile=profile, quality=95)
    return tmp_path / "a.jpg"


@pytest.mark.parametrize("ending", ENDINGS)
def test_exif_profile_and_pixels_come_along(source: Path, tmp_path: Path, ending: str) -> None:
    picture = read(source)
    assert picture.size == (20, 12)
    path = save_picture(tmp_path / f"out{ending}", picture.rgb, origin=picture.origin, record="how, with σ")
    with Image.open(path) as image:
        assert image.size == (12, 20)
        exif = image.getexif()
        assert (exif[MAKER], exif[MODEL]) == ("Maker", "Model")
        assert exif.get(ORIENTATION, 1) == 1
        assert exif.get_ifd(0x8769)[EXPOSURE] == pytest.approx(0.5)
        assert image.info["icc_profile"] == picture.icc
    again = read(path)
    most = {".png": 0.0, ".tif": 1 / 255, ".tiff": 1 / 255}.get(ending, 0.2)
    assert float((again.rgb - picture.rgb).abs().max()) <= most


def test_tiff_has_sixteen_bits(tmp_path: Path) -> None:
    x = torch.rand(3, 5, 7, generator=torch.Generator().manual_seed(0))
    data = encode_picture(x, ".tif", Origin(alpha=torch.rand(1, 5, 7)))
    pixels = np.frombuffer(data[-5 * 7 * 4 * 2 :], "<u2").reshape(5, 7, 4)
    assert np.abs(pixels[..., :3] / 65535 - x.permute(1, 2, 0).numpy()).max() <= 0.5 / 65535 + 1e-7
    (tmp_path / "a.tif").write_bytes(data)
    assert read(tmp_path / "a.tif").alpha is not None


def test_png_without_extras_has_the_bytes_of_save_png(tmp_path: Path) -> None:
    x = torch.rand(3, 8, 8, generator=torch.Generator().manual_seed(0))
    save_png(tmp_path / "a.png", x, record="r")
    assert save_picture(tmp_path / "b.png", x, record="r").read_bytes() == (tmp_path / "a.png").read_bytes()


def test_other_endings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"\.gif"):
        save_picture(tmp_path / "a.gif", torch.zeros(3, 4, 4))
    assert not list(tmp_path.iterdir())
