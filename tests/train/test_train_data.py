"""Finding, decoding, caching and splitting training images."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.numpy import load_file
from toy_pictures import picture

from paseo.errors import BadInput
from paseo.train.arrays import ArrayWriter, open_array
from paseo.train.data import decode_image, find_sources, load_images, to_tensor
from paseo.train.pairs import load_pairs
from paseo.train.splits import split


def png(seed: int, side: int = 32) -> bytes:
    buffer = io.BytesIO()
    picture(seed, side).save(buffer, "PNG")
    return buffer.getvalue()


def make_tar(path: Path, members: dict[str, bytes]) -> None:
    with tarfile.open(path, "w") as tar:
        for name, blob in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(blob)
            tar.addfile(info, io.BytesIO(blob))


def test_folder_tar_and_list_give_the_same_pixels(photos: Path, tmp_path: Path) -> None:
    make_tar(tmp_path / "all.tar", {p.name: p.read_bytes() for p in sorted(photos.iterdir())})
    (tmp_path / "list.txt").write_text(
        "# some pictures\n" + "\n".join(f"photos/{p.name}" for p in sorted(photos.iterdir())) + "\n\n"
    )
    sets = [
        load_images(data, 32, tmp_path / "cache")
        for data in (photos, tmp_path / "all.tar", tmp_path / "list.txt")
    ]
    assert [len(s) for s in sets] == [20, 20, 20]
    assert all(np.array_equal(s.pixels, sets[0].pixels) for s in sets)
    assert np.array_equal(sets[0].pixels[3], np.asarray(picture(3)))


def test_sub_folders_and_tars_inside_are_searched(photos: Path) -> None:
    (photos / "deep" / "er").mkdir(parents=True)
    (photos / "deep" / "er" / "x.JPG").write_bytes(png(1))
    (photos / "notes.md").write_text("no image")
    make_tar(photos / "more.tar", {"a/1.png": png(2), "readme.txt": b"no image"})
    names = [s.name for s in find_sources(photos)]
    assert "deep/er/x.JPG" in names
    assert "a/1.png" in names
    assert len(names) == 22


def test_the_cache_is_used_and_renewed_when_the_folder_changes(photos: Path, tmp_path: Path) -> None:
    first = load_images(photos, 32, tmp_path / "cache")
    made = {p: p.stat().st_mtime_ns for p in (tmp_path / "cache").iterdir()}
    again = load_images(photos, 32, tmp_path / "cache")
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "cache").iterdir()} == made
    assert again.digest == first.digest
    picture(99).save(photos / "new.png")
    assert len(load_images(photos, 32, tmp_path / "cache")) == 21
    assert load_images(photos, 16, tmp_path / "cache").digest != first.digest


def test_bad_files_are_reported_and_skipped(photos: Path, tmp_path: Path) -> None:
    (photos / "empty.png").write_bytes(b"")
    (photos / "text.jpg").write_text("not a picture")
    (photos / "cut.png").write_bytes(png(5, 64)[:200])
    Image.fromarray(np.full((32, 32), 40_000, np.uint16)).save(photos / "deep.png")
    with pytest.warns(UserWarning, match="4 files were left out, 20 are used"):
        images = load_images(photos, 32, tmp_path / "cache")
    assert len(images) == 20
    assert images.skipped.keys() == {"empty.png", "text.jpg", "cut.png", "deep.png"}
    assert "16 bit" in images.skipped["deep.png"]
    with pytest.warns(UserWarning, match="left out"):  # from the cache too
        assert load_images(photos, 32, tmp_path / "cache").skipped == images.skipped


def test_nothing_usable_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="No data"):
        find_sources(tmp_path / "nowhere")
    with pytest.raises(BadInput, match="no images"):
        find_sources(tmp_path)
    (tmp_path / "a.png").write_text("x")
    with pytest.raises(BadInput, match="None of the 1 images"):
        load_images(tmp_path, 32, tmp_path / "cache")
    assert not list((tmp_path / "cache").iterdir())  # no half-made cache
    (tmp_path / "list.txt").write_text("missing.png\n")
    with pytest.raises(BadInput, match=r"missing\.png"):
        find_sources(tmp_path / "list.txt")
    (tmp_path / "bad.tar").write_bytes(b"\1" * 2000)
    with pytest.raises(BadInput, match="tar"):
        find_sources(tmp_path / "bad.tar")


def test_decoding_is_upright_rgb_and_square() -> None:
    image = picture(0, 40).resize((60, 40))
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees clockwise
    buffer = io.BytesIO()
    image.save(buffer, "PNG", exif=exif)
    assert decode_image(buffer.getvalue(), None).shape == (60, 40, 3)
    expected = np.asarray(image.rotate(-90, expand=True))
    assert np.array_equal(decode_image(buffer.getvalue(), None), expected)
    assert np.array_equal(decode_image(buffer.getvalue(), 40), expected[10:50])
    for mode in ("L", "RGBA", "P", "CMYK"):
        buffer = io.BytesIO()
        image.convert(mode).save(buffer, "TIFF")
        assert decode_image(buffer.getvalue(), 16).shape == (16, 16, 3)


def test_pixels_become_signed_floats() -> None:
    x = to_tensor(np.array([[[[0, 127, 255]]]], np.uint8))
    torch.testing.assert_close(x.flatten(), torch.tensor([-1.0, 127 / 127.5 - 1, 1.0]))


def test_number_split_is_the_published_one() -> None:
    numbers = [0, 499, 500, 749, 750, 19252, 999_999, 1_000_000]
    parts = split([f"x/{n:05d}.jpg" for n in numbers])
    assert {part: [numbers[i] for i in index] for part, index in parts.items()} == {
        "test": [0, 499],
        "validation": [500, 749],
        "train": [750, 19252, 999_999],
    }


def test_hash_split_is_stable_disjoint_and_of_the_right_size() -> None:
    names = [f"img_{i}.png" for i in range(4000)]
    parts = split(names)
    assert sorted(np.concatenate(list(parts.values())).tolist()) == list(range(4000))
    for part in ("test", "validation"):  # binomial: 80 ± 5 standard deviations of 8.9
        assert abs(len(parts[part]) - 80) < 45
    fewer = split(names[:2000])
    assert set(fewer["validation"]) == {
        i for i in parts["validation"] if i < 2000
    }  # more images do not move old ones


def test_small_sets_still_have_training_and_validation_images() -> None:
    for count in (2, 3, 5, 20):
        parts = split([f"n{i}.png" for i in range(count)])
        assert len(parts["train"]) >= 1
        assert len(parts["validation"]) >= 1
        assert sum(map(len, parts.values())) == count
    assert len(split([f"{i}.png" for i in range(10)])["train"]) > 0  # numbers, but none from 750: by hash
    with pytest.raises(BadInput, match="two images"):
        split(["one.png"])


def test_split_rules_are_checked() -> None:
    with pytest.raises(BadInput, match="'hash'"):
        split(["a.png", "00750.png"], "number")
    with pytest.raises(BadInput, match="no training"):
        split(["00001.png", "00002.png"], "number")
    with pytest.raises(BadInput, match="auto, number, hash"):
        split(["a.png", "b.png"], "random")


def test_array_files_are_safetensors_and_appear_whole(tmp_path: Path) -> None:
    rows = np.arange(24, dtype=np.float16).reshape(4, 2, 3)
    with ArrayWriter(tmp_path / "a.safetensors", "float16") as writer:
        writer.append(rows[:3])
        writer.append(rows[3:])
    assert np.array_equal(load_file(tmp_path / "a.safetensors")["data"], rows)
    assert np.array_equal(open_array(tmp_path / "a.safetensors"), rows)
    with (
        pytest.raises(BadInput, match="rows of shape"),
        ArrayWriter(tmp_path / "b.safetensors", "uint8") as writer,
    ):
        [writer.append(block) for block in (rows, rows[0])]
    assert [p.name for p in tmp_path.iterdir()] == ["a.safetensors"]


def test_damaged_array_files_are_named(tmp_path: Path) -> None:
    with ArrayWriter(tmp_path / "a.safetensors", "uint8") as writer:
        writer.append(np.zeros((4, 5), np.uint8))
    whole = (tmp_path / "a.safetensors").read_bytes()
    for damaged in (whole[:-1], whole[:100], b"", b"\xff" * 64):
        (tmp_path / "a.safetensors").write_bytes(damaged)
        with pytest.raises(BadInput, match=r"a\.safetensors"):
            open_array(tmp_path / "a.safetensors")


# Pairs


def make_pairs(root: Path, count: int = 6, side: int = 32, factor: int = 2) -> tuple[Path, Path]:
    clean, degraded = root / "clean", root / "degraded"
    clean.mkdir(parents=True)
    degraded.mkdir()
    for i in range(count):
        image = picture(i, side)
        image.save(clean / f"{i}.png")
        image.reduce(factor).save(degraded / f"{i}.bmp")  # another format: only stems count
    return clean, degraded


def test_pairs_are_matched_by_stem(tmp_path: Path) -> None:
    clean, degraded = make_pairs(tmp_path)
    picture(50).save(clean / "alone.png")
    with pytest.warns(UserWarning, match=r"alone\.png: no partner"):
        pairs = load_pairs(clean, degraded, 32, tmp_path / "cache")
    assert pairs.factor == 2
    assert pairs.clean.names == [f"{i}.png" for i in range(6)]
    assert pairs.clean.skipped == {"alone.png": "no partner"}
    assert np.array_equal(pairs.degraded.pixels[4], np.asarray(picture(4).reduce(2)))
    (clean / "alone.png").unlink()
    again = load_pairs(clean, degraded, 32, tmp_path / "cache")
    assert np.array_equal(again.clean.pixels, pairs.clean.pixels)


def test_windows_of_a_pair_show_the_same_part(tmp_path: Path) -> None:
    clean, degraded = make_pairs(tmp_path, side=44)
    pairs = load_pairs(clean, degraded, 16, tmp_path / "cache")
    for x, y in zip(pairs.clean.pixels, pairs.degraded.pixels, strict=True):
        assert np.array_equal(np.asarray(Image.fromarray(x).reduce(2)), y)


def test_pairs_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    clean, degraded = make_pairs(tmp_path / "a")
    picture(0, 30).save(degraded / "0.bmp")
    with pytest.raises(BadInput, match=r"'0' has sizes 32×32 and 30×30"):
        load_pairs(clean, degraded, 32, tmp_path / "cache")
    picture(0).reduce(4).save(degraded / "0.bmp")
    with pytest.raises(BadInput, match="one factor"):
        load_pairs(clean, degraded, 32, tmp_path / "cache")
    clean, degraded = make_pairs(tmp_path / "b")
    with pytest.raises(BadInput, match="smaller than the window of 64"):
        load_pairs(clean, degraded, 64, tmp_path / "cache")
    with pytest.raises(BadInput, match="no multiple of the factor 2"):
        load_pairs(clean, degraded, 31, tmp_path / "cache")
    for file in degraded.iterdir():
        file.rename(file.with_name(f"other{file.name}"))
    with pytest.raises(BadInput, match="same stem"):
        load_pairs(clean, degraded, 32, tmp_path / "cache")
    (clean / "0.jpg").write_bytes(png(0))
    with pytest.raises(BadInput, match="two files of the stem '0'"):
        load_pairs(clean, degraded, 32, tmp_path / "cache")
