"""Reading what the world stores, and writing it back without surprises."""

from __future__ import annotations

import io
import os
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageCms

from paseo import images
from paseo.errors import BadInput
from paseo.files import atomic, write_json


@pytest.fixture
def rgb() -> Image.Image:
    """A 12×20 (H×W) picture whose four corners differ, so that a wrong turn is seen."""
    rng = np.random.default_rng(0)
    return Image.fromarray(rng.integers(0, 256, (12, 20, 3), dtype=np.uint8))


def save(image: Image.Image, path: Path, **options: object) -> Path:
    image.save(path, **options)
    return path


def test_png_round_trip_is_exact(rgb: Image.Image, tmp_path: Path) -> None:
    first = images.read(save(rgb, tmp_path / "a.png"))
    assert first.rgb.shape == (3, 12, 20)
    assert first.size == (12, 20)
    again = images.read(images.save_png(tmp_path / "b.png", first.rgb))
    assert torch.equal(first.rgb, again.rgb)
    assert torch.equal(again.rgb, images.to_tensor(rgb))


def test_saving_clamps_and_rounds_and_never_stretches(tmp_path: Path) -> None:
    x = torch.tensor([-0.5, 0.4 / 255, 0.6 / 255, 0.5, 1.7]).expand(3, 1, 5)
    stored = np.array(Image.open(images.save_png(tmp_path / "x.png", x)))
    assert stored[0, :, 0].tolist() == [0, 0, 1, 128, 255]
    flat = np.array(Image.open(images.save_png(tmp_path / "flat.png", torch.full((3, 4, 4), 0.25))))
    assert set(flat.flatten().tolist()) == {64}


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation(rgb: Image.Image, tmp_path: Path, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    picture = images.read(save(rgb, tmp_path / "turned.png", exif=exif))
    undo = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
    }
    undo |= {
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_270,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_90,
    }
    expected = rgb.transpose(undo[orientation]) if orientation > 1 else rgb
    assert torch.equal(picture.rgb, images.to_tensor(expected))
    assert ("orientation applied" in picture.notes) == (orientation > 1)


def test_grey_and_one_bit_become_rgb(rgb: Image.Image, tmp_path: Path) -> None:
    grey = rgb.convert("L")
    picture = images.read(save(grey, tmp_path / "grey.png"))
    assert torch.equal(picture.rgb[0] * 255, torch.from_numpy(np.array(grey)).float())
    assert torch.equal(picture.rgb[0], picture.rgb[2])
    assert set(images.read(save(rgb.convert("1"), tmp_path / "bw.png")).rgb.unique().tolist()) == {0.0, 1.0}


@pytest.mark.parametrize("name", ["deep.png", "deep.tif"])
def test_sixteen_bit_grey_keeps_its_precision(tmp_path: Path, name: str) -> None:
    values = np.arange(0, 65536, 257, dtype=np.uint16).reshape(16, 16)
    picture = images.read(save(Image.fromarray(values), tmp_path / name))
    assert torch.equal(picture.rgb[1], torch.from_numpy(values.astype(np.float32)) / 65535)
    assert "16 bit" in picture.notes


def test_floating_point_images_must_lie_in_the_unit_range(tmp_path: Path) -> None:
    ramp = np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4)
    assert np.allclose(images.read(save(Image.fromarray(ramp), tmp_path / "f.tif")).rgb[0], ramp)
    with pytest.raises(BadInput, match=r"f2\.tif has values from 0 to 2"):
        images.read(save(Image.fromarray(2 * ramp), tmp_path / "f2.tif"))


def test_alpha_is_kept_aside_and_put_back(rgb: Image.Image, tmp_path: Path) -> None:
    ramp = Image.fromarray(np.tile(np.linspace(0, 255, 20, dtype=np.uint8), (12, 1)))
    rgba = rgb.copy()
    rgba.putalpha(ramp)
    picture = images.read(save(rgba, tmp_path / "rgba.png"))
    assert torch.equal(picture.rgb, images.to_tensor(rgb))
    assert picture.alpha is not None
    again = Image.open(images.save_png(tmp_path / "again.png", picture.rgb, alpha=picture.alpha))
    assert again.mode == "RGBA"
    assert np.array_equal(np.array(again), np.array(rgba))
    larger = Image.open(images.save_png(tmp_path / "large.png", torch.zeros(3, 24, 40), alpha=picture.alpha))
    assert larger.size == (40, 24)


def test_an_opaque_alpha_is_dropped(rgb: Image.Image, tmp_path: Path) -> None:
    picture = images.read(save(rgb.convert("RGBA"), tmp_path / "opaque.png"))
    assert picture.alpha is None
    assert torch.equal(picture.rgb, images.to_tensor(rgb))


def test_palette_with_and_without_transparency(rgb: Image.Image, tmp_path: Path) -> None:
    palette = rgb.quantize(16)
    plain = images.read(save(palette, tmp_path / "p.png"))
    assert torch.equal(plain.rgb, images.to_tensor(palette.convert("RGB")))
    assert plain.alpha is None
    clear = images.read(save(palette, tmp_path / "clear.png", transparency=3))
    assert clear.alpha is not None
    assert torch.equal(clear.alpha[0] == 0, torch.from_numpy(np.array(palette)) == 3)


def test_cmyk(rgb: Image.Image, tmp_path: Path) -> None:
    cmyk = rgb.convert("CMYK")
    picture = images.read(save(cmyk, tmp_path / "cmyk.tif"))
    assert torch.equal(picture.rgb, images.to_tensor(cmyk.convert("RGB")))


def test_animation_gives_its_first_frame(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (8, 8), c) for c in ("red", "blue")]
    frames[0].save(tmp_path / "two.gif", save_all=True, append_images=frames[1:])
    picture = images.read(tmp_path / "two.gif")
    assert picture.rgb[0].min() == 1.0
    assert "first of several frames" in picture.notes


def swapped_profile() -> bytes:
    """sRGB with the red and green primaries exchanged, under another name."""
    data = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    for old, new in ((b"rXYZ", b"?XYZ"), (b"gXYZ", b"rXYZ"), (b"?XYZ", b"gXYZ")):
        data = data.replace(old, new)
    return data.replace("sRGB".encode("utf-16-be"), "test".encode("utf-16-be")).replace(
        b"sRGB built-in", b"test built-in"
    )


def test_colour_profile_is_converted(rgb: Image.Image, tmp_path: Path) -> None:
    picture = images.read(save(rgb, tmp_path / "swapped.png", icc_profile=swapped_profile()))
    assert "colour profile converted to sRGB" in picture.notes
    exchanged = images.to_tensor(rgb)[[1, 0, 2]]
    assert (picture.rgb - exchanged).abs().max() * 255 <= 2  # the transform itself works with 8-bit tables
    deep = rgb.convert("RGBA")
    deep.putalpha(128)
    with_alpha = images.read(save(deep, tmp_path / "alpha.png", icc_profile=swapped_profile()))
    assert torch.equal(with_alpha.rgb, picture.rgb)
    assert with_alpha.alpha is not None


def test_srgb_profile_changes_nothing_and_a_broken_one_is_ignored(rgb: Image.Image, tmp_path: Path) -> None:
    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    assert torch.equal(
        images.read(save(rgb, tmp_path / "s.png", icc_profile=srgb)).rgb, images.to_tensor(rgb)
    )
    broken = images.read(save(rgb, tmp_path / "b.png", icc_profile=b"no profile at all"))
    assert torch.equal(broken.rgb, images.to_tensor(rgb))
    assert "unreadable colour profile ignored" in broken.notes


@pytest.mark.parametrize("format", ["PNG", "JPEG", "TIFF", "WEBP"])
@pytest.mark.parametrize("keep", [0.3, 0.6, 0.9])
def test_truncated_files_are_refused(tmp_path: Path, format: str, keep: float) -> None:
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8))
    buffer = io.BytesIO()
    noise.save(buffer, format)
    path = tmp_path / "cut"
    path.write_bytes(buffer.getvalue()[: int(keep * buffer.tell())])
    with pytest.raises(BadInput, match="cut"):
        images.read(path)


def test_things_that_are_no_images(tmp_path: Path) -> None:
    for name, data, words in (("empty.png", b"", "empty"), ("text.png", b"hello world" * 9, "not an image")):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(BadInput, match=words):
            images.read(tmp_path / name)
    with pytest.raises(BadInput, match="does not exist"):
        images.read(tmp_path / "nowhere.png")
    with pytest.raises(BadInput, match="folder"):
        images.read(tmp_path)
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(BadInput, match="regular"):
        images.read(tmp_path / "pipe.png")


def test_too_many_pixels_are_refused_before_decoding(rgb: Image.Image, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="20×12"):
        images.read(save(rgb, tmp_path / "a.png"), max_pixels=239)
    assert images.read(tmp_path / "a.png", max_pixels=240).size == (12, 20)
    bomb = bytearray((tmp_path / "a.png").read_bytes())
    bomb[16:24] = (2**20).to_bytes(4, "big") * 2  # a header that promises 10^12 pixels
    bomb[29:33] = zlib.crc32(bomb[12:29]).to_bytes(4, "big")
    (tmp_path / "bomb.png").write_bytes(bytes(bomb))
    with pytest.raises(BadInput, match="limit"):
        images.read(tmp_path / "bomb.png")


@settings(max_examples=150, deadline=None)
@given(
    position=st.floats(0, 1),
    value=st.integers(0, 255),
    format=st.sampled_from(["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP"]),
)
def test_damaged_bytes_give_an_image_or_bad_input(
    tmp_path_factory: pytest.TempPathFactory, position: float, value: int, format: str
) -> None:
    buffer = io.BytesIO()
    Image.fromarray(np.arange(16 * 16 * 3, dtype=np.uint8).reshape(16, 16, 3)).save(buffer, format)
    data = bytearray(buffer.getvalue())
    data[int(position * (len(data) - 1))] = value
    path = tmp_path_factory.mktemp("fuzz") / "x"
    path.write_bytes(bytes(data))
    try:
        picture = images.read(path)
    except BadInput:
        return
    assert picture.rgb.shape[0] == 3
    assert float(picture.rgb.min()) >= 0
    assert float(picture.rgb.max()) <= 1


def test_saving_refuses_nan_and_odd_shapes(tmp_path: Path) -> None:
    for bad, words in (
        (torch.full((3, 4, 4), float("nan")), "NaN"),
        (torch.zeros(1, 3, 4, 4), "batch"),
        (torch.zeros(4, 4), "tensor"),
    ):
        with pytest.raises(BadInput, match=words):
            images.save_png(tmp_path / "bad.png", bad)
    assert list(tmp_path.iterdir()) == []


def test_the_record_can_be_read_back(tmp_path: Path) -> None:
    path = images.save_png(tmp_path / "r.png", torch.zeros(3, 4, 4), record='{"σ": 0.01}')
    with Image.open(path) as image:
        assert image.info["paseo"] == '{"σ": 0.01}'


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "a.json"
    write_json(target, {"a": 1})
    with pytest.raises(ZeroDivisionError), atomic(target) as file:
        file.write(b"half") / 0
    assert target.read_text() == '{\n  "a": 1\n}\n'
    assert os.listdir(target.parent) == ["a.json"]
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(target, {"a": float("nan")})
    with pytest.raises(BadInput, match="Cannot write"):
        write_json(target / "below", {})


def test_finding_images_keeps_order_and_leaves_hidden_ones(rgb: Image.Image, tmp_path: Path) -> None:
    for name in ("b/2.PNG", "b/1.jpg", "a.png", ".hidden/x.png", "b/.x.png", "notes.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    assert [str(p.relative_to(tmp_path)) for p in images.find_images(tmp_path)] == [
        "a.png",
        "b/1.jpg",
        "b/2.PNG",
    ]
