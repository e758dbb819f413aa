"""What is read off a file: JPEG qualities of several makers, subsampling, and the noise level."""

from __future__ import annotations

import io

import pytest
import torch
from PIL import Image

from paseo.degrade.blocks import quality_in_pixels
from paseo.degrade.detect import Found, contradiction, examine, noise_level
from paseo.degrade.encoder_tables import PRESETS, STANDARD, scaled
from paseo.degrade.jpeg_file import fit_quality, read_jpeg
from paseo.degrade.jpeg_tables import quantisation_tables


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


# what mozjpeg itself wrote with its default table at quality 37, and at 34 with chroma at 14: the first rows
MOZJPEG_37 = (22, 22, 22, 24, 34, 50, 76, 115)
MOZJPEG_34_14 = ((24, 24, 24, 26, 37, 54, 82, 125), (57, 57, 57, 64, 89, 132, 200, 303))


def tables_of(preset: str, quality: int) -> list[list[int]]:
    """Luma and chroma as an encoder writes them."""
    return scaled(preset)[quality - 1].int().tolist()


@pytest.mark.parametrize("quality", [*range(5, 100, 5), 1, 100])
def test_pillow_and_imagemagick_files_are_read_exactly(quality: int) -> None:
    found = read_jpeg(
        saved(photo(32), quality=quality)
    )  # ImageMagick scales the same tables by the same rule
    assert found is not None
    assert (found.quality, found.typed, found.maker, found.misfit) == (quality, quality, "libjpeg", 0)


@pytest.mark.parametrize("preset", [name for name in PRESETS if name != STANDARD])
def test_mozjpegs_tables_are_read_exactly(preset: str) -> None:
    for quality in range(5, 96, 10):
        found = read_jpeg(saved(photo(32), qtables=tables_of(preset, quality)))
        assert found is not None
        assert found.maker == "mozjpeg"
        # rounding makes flat tables of neighbouring qualities the same
        assert abs(found.typed - quality) <= (2 if preset == "flat" else 0)
        if preset == "Robidoux":
            assert abs(found.quality - quality) <= 6  # its default does about what the standard's do
            assert f"JPEG of quality {quality} (mozjpeg tables" in str(found)


def test_the_tables_are_those_that_mozjpeg_writes() -> None:
    assert scaled("Robidoux")[36, 0, :8].tolist() == list(MOZJPEG_37)
    assert scaled("Robidoux")[33, 0, :8].tolist() == list(MOZJPEG_34_14[0])
    assert scaled("Robidoux")[13, 1, :8].tolist() == [min(v, 255) for v in MOZJPEG_34_14[1]]


@pytest.mark.parametrize("preset", [STANDARD, "Robidoux"])
def test_chroma_that_was_asked_for_by_itself_does_not_change_what_was_typed(preset: str) -> None:
    luma, chroma = tables_of(preset, 80)[0], tables_of(preset, 55)[1]
    found = read_jpeg(saved(photo(32), qtables=[luma, chroma]))
    assert found is not None
    assert found.typed == 80
    assert 55 < found.quality < 80  # what the operator is told lies between
    assert "nearest standard quality" in str(found)


def test_entries_beyond_a_byte_are_read() -> None:
    """mozjpeg's progressive files of low quality hold them."""
    luma = (scaled("Robidoux")[49, 0] * 6.25 + 0.5).int().tolist()  # quality 8 without the limit of 255
    assert max(luma) > 255
    found = fit_quality({0: luma, 1: luma})
    assert (found.typed, found.maker) == (8, "mozjpeg")


def test_a_scale_that_was_not_rounded_is_the_same_quality() -> None:
    base = scaled(STANDARD)[49]
    luma, chroma = ((table * (50 / 7) + 0.5).clamp(1, 255).int().tolist() for table in base)  # 5000/7 = 714.3
    found = fit_quality({0: luma, 1: chroma})
    assert (found.typed, found.maker) == (7, "libjpeg")


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


def photographs(side: int = 128) -> list[Image.Image]:
    """Real ones, made smaller so that nothing is left of an earlier JPEG."""
    from skimage import data

    found = [Image.fromarray(a) for a in (data.astronaut(), data.coffee(), data.chelsea(), data.rocket())]
    small = [im.resize((im.width // 2, im.height // 2), Image.Resampling.LANCZOS) for im in found]
    return [im.crop((c, 20, c + side, 20 + side)) for im, c in zip(small, (20, 60, 60, 100), strict=True)]


def again(image: Image.Image, quality: int | None = None) -> Image.Image:
    """Saved once more, as PNG or as JPEG, and opened."""
    buffer = io.BytesIO()
    image.convert("RGB").save(
        buffer, "PNG" if quality is None else "JPEG", **({} if quality is None else {"quality": quality})
    )
    return Image.open(buffer)


@pytest.mark.parametrize("quality", [5, 10, 20, 35, 50, 65, 80, 90])
def test_a_jpeg_that_became_a_png_is_recognised(quality: int) -> None:
    for image in photographs():
        found = examine(again(saved(image, quality=quality)))
        assert found.earlier is not None
        assert abs(found.earlier - quality) <= 1
        assert found.task == f"jpeg:{found.earlier}"


@pytest.mark.parametrize(("first", "second"), [(20, 95), (40, 90), (60, 92), (75, 95)])
def test_a_jpeg_that_was_saved_again_at_a_high_quality_is_recognised(first: int, second: int) -> None:
    every = [examine(again(saved(image, quality=first), second)) for image in photographs()]
    told = [found for found in every if found.earlier is not None]
    assert len(told) >= 3  # the last one is nearly all sky
    for found in told:
        assert found.earlier is not None
        assert abs(found.earlier - first) <= 2
        assert f"quality {found.earlier} that was saved again" in str(found)


def test_a_photograph_that_was_never_a_jpeg_is_not_taken_for_one() -> None:
    for image in photographs():
        assert examine(again(image)).earlier is None
        assert examine(again(image, 95)).earlier is None
        shifted = saved(image, quality=50).convert("RGB").crop((3, 5, 123, 125))
        assert examine(again(shifted)).earlier is None  # its grid does not start at the corner


@pytest.mark.parametrize("quality", [10, 40, 70])
def test_noise_that_came_later_is_allowed_for(quality: int) -> None:
    rng = torch.Generator().manual_seed(0)
    for image in photographs():
        pixels = torch.frombuffer(
            bytearray(saved(image, quality=quality).convert("RGB").tobytes()), dtype=torch.uint8
        )
        x = pixels.view(1, 128, 128, 3).permute(0, 3, 1, 2) / 255
        noisy = (x + 0.01 * torch.randn(x.shape, generator=rng)).clamp(0, 1)
        assert quality_in_pixels(noisy, 0.01) == pytest.approx(quality, abs=2)
    assert quality_in_pixels(x[..., :24, :24]) is None  # too few blocks
