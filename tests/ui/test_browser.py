"""The page in Chromium: upload, run, progress, cancel, slider, mask, downloads, comparison, a phone, and its manners."""

from __future__ import annotations

import json
import shlex
import urllib.error
import urllib.request
import zlib
from pathlib import Path

import numpy as np
import pytest
from browsing import LONG, ROOT, SAMPLES, Visit, command_line
from PIL import Image

pytestmark = pytest.mark.ui

FACE = SAMPLES / "2000001.jpg"


def run(visit: Visit, *, steps: int = 6, draws: int = 1) -> None:
    visit.draws(draws)
    visit.setting("steps", str(steps))
    visit.page.click("#run")


def same_on_the_command_line(visit: Visit, folder: Path, source: Path) -> Path:
    """Type what the page says, with its `-o` and inputs in `folder`; the folder of the results."""
    words = shlex.split(visit.page.inner_text("#command .cm-content"))
    assert words[:2] == ["paseo", "restore"]
    words = [str(source) if w == source.name else str(folder / w) if w in ("restored", "mask.png") else w for w in words[2:]]
    command_line(*words)
    return folder / "restored"


def test_restore_a_sharp_picture_and_download_the_bytes_of_the_command_line(visit: Visit, tmp_path: Path) -> None:
    visit.upload(FACE, "128×128")
    run(visit, steps=12, draws=2)
    visit.page.wait_for_selector("#status [role=progressbar]", timeout=LONG)
    visit.page.wait_for_function(
        "/step \\d+ of 10[^]*of 21 denoiser calls[^]*left/.test(document.querySelector('#status').innerText)", timeout=LONG
    )
    visit.page.wait_for_selector("#preview img", timeout=LONG)
    visit.shot("progress")
    visit.status("Done: 2 draws, 21 denoiser calls each")
    visit.page.wait_for_selector("#slider img", timeout=LONG)
    visit.page.wait_for_selector("#std img", timeout=LONG)
    assert visit.page.locator("#gallery img").count() == 5  # two draws, their mean, measurement, original
    table = visit.page.inner_text("#scores")
    assert all(word in table for word in ("PSNR", "SSIM", "consistency", "seed 0", "seed 1", "mean"))
    visit.shot("restored")
    image, record = visit.download("#png", tmp_path), visit.download("#json", tmp_path)
    theirs = same_on_the_command_line(visit, tmp_path, FACE)
    assert image.read_bytes() == (theirs / image.name).read_bytes()
    ours, other = json.loads(record.read_text()), json.loads((theirs / record.name).read_text())
    assert ours["outputs"] == other["outputs"]  # names and hashes of all files
    for changing in ("seconds", "input"):
        ours.pop(changing), other.pop(changing)
    assert ours == other


def test_the_slider_moves_and_shows_other_draws(visit: Visit) -> None:
    visit.upload(FACE, "128×128")
    run(visit, draws=2)
    visit.status("Done")
    handle = visit.page.locator("#slider [role=slider], #slider .handle-wrap, #slider .outer").first
    handle.wait_for(timeout=LONG)
    handle.scroll_into_view_if_needed()
    visit.page.wait_for_timeout(500)  # pictures load, the page settles
    box = handle.bounding_box()
    assert box is not None
    visit.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    visit.page.mouse.down()
    visit.page.mouse.move(box["x"] - 120, box["y"] + box["height"] / 2, steps=8)
    visit.page.mouse.up()
    moved = handle.bounding_box()
    assert moved is not None
    assert moved["x"] < box["x"] - 60
    visit.shot("slider")
    visit.page.locator("#shown").get_by_text("seed 1").click()
    visit.page.wait_for_selector("#png >> text=_s1.png", timeout=LONG)


def test_cancel_ends_the_run_and_the_next_one_works(visit: Visit) -> None:
    visit.upload(FACE, "128×128")
    run(visit, steps=200)
    visit.page.wait_for_function("/step \\d+ of 198/.test(document.querySelector('#status').innerText)", timeout=LONG)
    visit.page.click("#cancel")
    visit.status("Cancelled.")
    visit.shot("cancelled")
    visit.page.wait_for_selector("#run:not([disabled])", timeout=LONG)
    assert not visit.page.locator("#result").is_visible()
    run(visit, steps=5)
    visit.status("Done: 1 draw, 7 denoiser calls each")


def test_a_painted_mask_is_filled_as_on_the_command_line(visit: Visit, tmp_path: Path) -> None:
    visit.upload(FACE, "128×128")
    visit.choose("#task", "Centre inpainting")
    canvas = visit.page.locator("#mask canvas").first
    canvas.wait_for(timeout=LONG)
    visit.page.wait_for_timeout(1500)  # the editor lays its picture out
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    visit.page.mouse.move(x - 50, y)
    visit.page.mouse.down()
    visit.page.mouse.move(x + 50, y + 10, steps=10)
    visit.page.mouse.up()
    visit.page.wait_for_timeout(800)
    run(visit)
    visit.status("Done")
    visit.shot("mask")
    assert "--mask mask.png" in visit.page.inner_text("#command .cm-content")
    visit.page.click("#all-files button")
    mask = visit.download("#files a[href$='mask.png']", tmp_path)
    assert mask.name == "mask.png"
    hole = np.asarray(Image.open(mask).convert("L"))
    assert hole.shape == (128, 128)
    assert 0.005 < (hole == 255).mean() < 0.5
    image = visit.download("#png", tmp_path)
    assert image.read_bytes() == (same_on_the_command_line(visit, tmp_path, FACE) / image.name).read_bytes()


def test_a_degraded_picture_is_restored_as_it_is(visit: Visit, tmp_path: Path) -> None:
    small = tmp_path / "given" / "small.png"
    small.parent.mkdir()
    Image.open(FACE).resize((32, 32), Image.Resampling.BICUBIC).save(small)
    visit.page.get_by_text("My picture is already degraded").click()
    visit.upload(small, "32×32")
    run(visit)
    visit.status("Done")
    image = visit.download("#png", tmp_path)
    assert Image.open(image).size == (128, 128)
    assert "PSNR" not in visit.page.inner_text("#scores")
    assert image.read_bytes() == (same_on_the_command_line(visit, tmp_path, small) / image.name).read_bytes()


def test_methods_side_by_side(visit: Visit) -> None:
    visit.upload(FACE, "128×128")
    visit.page.get_by_role("tab", name="Compare").click()
    for name in ("SILO", "LDPS"):
        visit.page.locator("#methods").get_by_text(name, exact=True).click()
    visit.page.locator("#methods").get_by_text("FlowDPS", exact=True).click()
    visit.page.locator("#budget input").fill("9")
    visit.page.click("#compare")
    visit.status("2 of 2 methods done", "#compare-status")
    table = visit.page.inner_text("#compare-scores")
    assert all(word in table for word in ("PASEO", "FlowDPS", "NFE", "seconds"))
    visit.page.wait_for_selector("#compare-slider img", timeout=LONG)
    visit.shot("compare")


def test_what_cannot_be_used_is_said(visit: Visit, tmp_path: Path) -> None:
    visit.page.click("#run")
    visit.status("There is no picture yet")
    visit.page.wait_for_selector("#run:not([disabled])", timeout=LONG)
    text = tmp_path / "text.png"
    text.write_text("not a picture")
    visit.upload(text, "not an image")
    cut = tmp_path / "cut.png"
    cut.write_bytes(FACE.with_suffix(".jpg").read_bytes()[:1500])
    visit.upload(cut, "damaged or cut short")
    visit.upload(bomb(tmp_path / "bomb.png"), "larger than the limit")
    visit.page.click("#run")
    visit.status("larger than the limit")
    visit.shot("refused")
    visit.upload(FACE, "128×128")
    run(visit, steps=2)
    visit.status("at least 3 time points")


def bomb(path: Path) -> Path:
    """A small PNG that claims 20000 × 20000 pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    side = (20_000).to_bytes(4, "big")
    pixels = zlib.compress(bytes(20_001) * 50)
    body = chunk(b"IHDR", side + side + b"\x08\x00\x00\x00\x00") + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + body)
    return path


def test_a_phone_needs_no_sideways_scrolling(phone: Visit) -> None:
    phone.upload(FACE, "128×128")
    run(phone, steps=5, draws=2)
    phone.status("Done")
    phone.page.wait_for_selector("#slider img", timeout=LONG)
    phone.shot("phone")
    wide = "[...document.querySelectorAll('*')].filter(e => e.getBoundingClientRect().right > 391).map(e => e.id || e.className)"
    assert phone.page.evaluate("document.scrollingElement.scrollWidth") <= 390, phone.page.evaluate(wide)
    for control in ("#run", "#way", "#task", "#slider", "#png"):
        box = phone.page.locator(control).first.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390.5, control


@pytest.mark.parametrize(
    "path", ["/etc/hostname", str(ROOT / "pyproject.toml"), str(ROOT / "paseo" / "cli.py"), "../../../../etc/hostname"]
)
def test_files_of_the_host_cannot_be_had(address: str, path: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{address}gradio_api/file={path}", timeout=30)
    assert refused.value.code in (403, 404)
