"""What is read off a file: JPEG qualities of several makers, subsampling, and the noise level."""

from __future__ import annotations

import io

import pytest
import torch
from PIL import Image

from paseo.degrade.detect import _MOZJPEG, Found, contradiction, examine, fit_quality, noise_level, read_jpeg
from paseo.degrade.jpeg_tables import quantisation_tables, table_scale


def photo(side: int = 128) -> Image.Image:
    """Soft hills and an edge."""
    u = torch.linspace(0, 3, side)
    hills = 0.5 + 0.25 * torch.sin(3 * u[:, None]) * torch.cos(2 * u) + 0.15 * (u[:, None] > u).float()
    x = torch.stack([hills, hills.flip(0), hills.T]).permute(1, 2, 0)
    return Image.fromarray((x.clamp(0, 1) * 255).round().to(torch.uint8).numpy())


def saved(image: Image.Image, **options: object) -> Image.Image:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", **options)
    return Image.open(buffer)


def mozjpeg_table(quality: int) -> list[int]:
    return ((torch.tensor(_MOZJPEG).flatten() * table_scale(quality) + 50) // 100).clamp(1, 255).tolist()


@pytest.mark.parametrize("quality", [*range(5, 100, 5), 1, 100])
def test_pillow_and_imagemagick_files_are_read_exactly(quality: int) -> None:
    found = read_jpeg(
        saved(photo(32), quality=quality)
    )  # ImageMagick scales the same tables by the same rule
    assert found is not None
    assert (found.quality, found.typed, found.maker, found.misfit) == (quality, quality, "libjpeg", 0)


@pytest.mark.parametrize("quality", [*range(5, 100, 5)])
def test_mozjpeg_files_are_read_exactly_and_have_a_like_quality(quality: int) -> None:
    table = mozjpeg_table(quality)
    found = read_jpeg(saved(photo(32), qtables=[table, table]))
    assert found is not None
    assert (found.typed, found.maker) == (quality, "mozjpeg")
    assert abs(found.quality - quality) <= 6


@pytest.mark.parametrize("quality", [10, 35, 60, 85])
def test_unknown_tables_get_the_nearest_quality(quality: int) -> None:
    rng = torch.Generator().manual_seed(quality)
    luma, chroma = quantisation_tables(quality)
    shaken = [
        (t.flatten() * (1 + 0.15 * torch.randn(64, generator=rng))).round().clamp(1, 255).int().tolist()
        for t in (luma, chroma)
    ]
    found = fit_quality(dict(enumerate(shaken)))
    assert found.maker == "other"
    assert abs(found.quality - quality) <= 2
    assert 0 < found.misfit < 0.3
    assert abs(fit_quality({0: shaken[0]}).quality - quality) <= 3  # grey: one table


def test_subsampling_is_told() -> None:
    kinds = {0: "4:4:4", 1: "4:2:2", 2: "4:2:0"}
    for option, words in kinds.items():
        found = read_jpeg(saved(photo(32), quality=50, subsampling=option))
        assert found is not None
        assert found.subsampling == words
    grey = read_jpeg(saved(photo(32).convert("L"), quality=50))
    assert grey is not None
    assert (grey.subsampling, grey.quality) == ("grey", 50)


def test_other_files_are_no_jpeg() -> None:
    assert read_jpeg(photo(32)) is None


@pytest.mark.parametrize("sigma", [0.01, 0.03, 0.1])
def test_the_noise_level_is_found(sigma: float) -> None:
    rng = torch.Generator().manual_seed(0)
    pixels = torch.frombuffer(bytearray(photo(256).tobytes()), dtype=torch.uint8)
    x = pixels.view(256, 256, 3).permute(2, 0, 1)[None] / 255
    noisy = ((x + sigma * torch.randn(x.shape, generator=rng)).clamp(0, 1) * 255).round() / 255
    assert noise_level(noisy) == pytest.approx(sigma, rel=0.1)
    assert noise_level(x) < 0.002
    assert noise_level(noisy[..., :16, :16]) == 0  # too small to tell


def test_a_fine_picture_has_nothing_to_restore() -> None:
    assert examine(photo()).task is None
    assert examine(saved(photo(), quality=97)).task is None
    assert "nothing to restore" in str(examine(photo()))
    spoilt = examine(saved(photo(), quality=30))
    assert spoilt.task == "jpeg:30"
    assert spoilt.noise is None
    assert "quality 30" in str(spoilt)


def test_a_task_that_contradicts_the_file_is_told() -> None:
    found = examine(saved(photo(), quality=60))
    words = contradiction(10, found)
    assert words is not None
    assert "try jpeg:60" in words
    assert contradiction(55, found) is None
    assert contradiction(10, Found(None, 0.0)) is None
