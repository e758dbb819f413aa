"""Pictures of any size as training data: sets with shares, splits by file and pattern, crops."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from toy_pictures import picture

from paseo.errors import BadInput
from paseo.train.crops import CropSet, random_crop
from paseo.train.data import find_sets, find_sources
from paseo.train.pictures import CroppedPictures, WholePictures, load_pictures
from paseo.train.splits import split


def folder(path: Path, count: int, side: int, level: int | None = None) -> Path:
    path.mkdir()
    for i in range(count):
        image = picture(i, side) if level is None else Image.new("RGB", (side, side), (level,) * 3)
        image.save(path / f"{i:05d}.png")
    return path


def test_the_papers_split_of_ffhq_can_be_said() -> None:
    names = [f"{i:05d}.png" for i in range(70_000)]
    parts = split(names, "train=0-67999,validation=68000-68999,test=69000-69999")
    assert {part: len(index) for part, index in parts.items()} == {
        "train": 68_000,
        "validation": 1_000,
        "test": 1_000,
    }
    assert parts["validation"][0] == 68_000


def test_a_split_file_is_read_line_by_line(tmp_path: Path) -> None:
    rule = tmp_path / "split.txt"
    rule.write_text("# mine\nvalidation b.png\ntest    */c*.png   # the c's\n")
    parts = split(["a.png", "b.png", "x/c1.png", "d.png"], str(rule))
    assert {k: v.tolist() for k, v in parts.items()} == {"train": [0, 3], "validation": [1], "test": [2]}


def test_a_split_may_go_by_the_tar_a_picture_lies_in(tmp_path: Path) -> None:
    for name, numbers in (("train-0", (1, 2)), ("train-1", (3,)), ("validation", (4,)), ("test", (5, 6))):
        with tarfile.open(tmp_path / f"{name}.tar", "w") as tar:
            for number in numbers:
                buffer = io.BytesIO()
                picture(number, 16).save(buffer, "PNG")
                entry = tarfile.TarInfo(f"{number}.png")
                entry.size = buffer.tell()
                buffer.seek(0)
                tar.addfile(entry, buffer)
    rule = "train=train-*.tar,validation=validation.tar,test=test.tar"
    cache = tmp_path / "cache"
    whole = load_pictures(tmp_path, size=16, crops=(), rule=rule, cache=cache)
    cropped = load_pictures(tmp_path, size=16, crops=(16,), rule=rule, cache=cache)
    for pictures in (whole, cropped):
        assert pictures.count == 3
        assert len(pictures.held_out(9)) == 1


@pytest.mark.parametrize(
    "rule", ["random", "train", "middle=0-9", "validation=", "train=0-9,validation=50-60"]
)
def test_bad_splits_are_refused(rule: str) -> None:
    with pytest.raises(BadInput, match="split"):
        split([f"{i}.png" for i in range(10)], rule)


def test_several_sets_with_shares(tmp_path: Path) -> None:
    dark, bright = folder(tmp_path / "dark", 30, 40, 10), folder(tmp_path / "bright", 3, 24, 240)
    sets = find_sets(f"{dark}=0.25,{bright}=0.75")
    assert [(len(sources), share) for sources, share in sets] == [(30, 0.25), (3, 0.75)]
    assert len(find_sources(f"{dark},{bright}")) == 33
    pictures = load_pictures(
        f"{dark}=0.25,{bright}=0.75", size=16, crops=(16,), rule="validation=00000.png", cache=tmp_path
    )
    x = pictures.draw(torch.arange(400), torch.Generator().manual_seed(0))
    share = (x.mean((1, 2, 3)) > 0).float().mean().item()
    assert abs(share - 0.75) < 5 * (0.75 * 0.25 / 400) ** 0.5
    with pytest.raises(BadInput, match="shares need crops"):
        load_pictures(f"{dark}=0.25,{bright}=0.75", size=16, crops=(), rule="hash", cache=tmp_path)
    for bad in (f"{dark}=0.25,{bright}", f"{dark}=-1,{bright}=1", f"{dark}=x"):
        with pytest.raises(BadInput, match="share"):
            find_sets(bad)
    with pytest.raises(BadInput, match="No data"):
        find_sets(f"{dark},{tmp_path / 'nowhere'}")


def test_crops_have_one_side_per_batch_and_are_repeatable(tmp_path: Path) -> None:
    mixed = folder(tmp_path / "a", 4, 50)
    picture(9, 20).resize((20, 90)).save(mixed / "tall.png")  # narrower than the larger crops
    pictures = load_pictures(mixed, size=0, crops=(16, 32), rule="hash", cache=tmp_path)
    assert isinstance(pictures, CroppedPictures)
    counts = {}
    for seed in range(12):
        a, b = (pictures.draw(torch.arange(8), torch.Generator().manual_seed(seed)) for _ in range(2))
        assert torch.equal(a, b)
        assert a.shape[1:] == (3, a.shape[-1], a.shape[-1])
        assert float(a.abs().max()) <= 1
        counts[a.shape[-1]] = len(a)
    assert counts == {16: 8, 32: 2}  # as many pixels in every batch
    assert len(pictures.draw(torch.arange(1), torch.Generator().manual_seed(0))) == 1
    assert pictures.held_out(1).shape == (1, 3, 16, 16)
    assert torch.equal(pictures.sample(5), pictures.sample(5))


def test_a_crop_of_the_whole_picture_is_the_picture_and_its_mirror() -> None:
    image = picture(0, 24)
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    pixels = np.asarray(image)
    assert np.array_equal(random_crop(buffer.getvalue(), 24, (0.5, 0.9, 0.1, 0.9)), pixels)
    assert np.array_equal(random_crop(buffer.getvalue(), 24, (0.5, 0.9, 0.1, 0.1)), pixels[:, ::-1])


def test_crop_sets_scale_never_enlarges_a_large_picture() -> None:
    image = picture(0, 64)
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    assert (
        random_crop(buffer.getvalue(), 16, (1.0, 0.0, 0.0, 0.9)).tolist()
        == np.asarray(image)[:16, :16].tolist()
    )
    assert CropSet([[]], [1.0], 16).side == 16


def test_whole_pictures_are_mirrored_only_where_asked(tmp_path: Path) -> None:
    data = folder(tmp_path / "a", 6, 16)
    pictures = load_pictures(data, size=16, crops=(), rule="hash", cache=tmp_path / "c", mirror=False)
    assert isinstance(pictures, WholePictures)
    x = pictures.draw(torch.arange(pictures.count), torch.Generator().manual_seed(0))
    assert torch.equal(x, pictures.images.batch(pictures.train))
