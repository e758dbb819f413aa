"""The page in Chromium: upload, run, progress, cancel, slider, mask, downloads, comparison, a phone, and its
manners.
"""

from __future__ import annotations

import json
import shlex
import time
import urllib.error
import urllib.request
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browsing import LONG, ROOT, SAMPLES, Served, Visit, command_line, visiting
from PIL import Image

from paseo.apps.ui.form import MAX_MEGABYTES
from paseo.faces import weights_available

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
    words = [
        str(source) if w == source.name else str(folder / w) if w in ("restored", "mask.png") else w
        for w in words[2:]
    ]
    command_line(*words)
    return folder / "restored"


def test_restore_a_sharp_picture_and_download_the_bytes_of_the_command_line(
    visit: Visit, tmp_path: Path
) -> None:
    visit.upload(FACE, "128×128")
    run(visit, steps=12, draws=2)
    visit.page.wait_for_selector("#status [role=progressbar]", timeout=LONG)
    visit.page.wait_for_function(
        "/step \\d+ of 10[^]*of 21 denoiser calls[^]*left/.test(document.querySelector('#status').innerText)",
        timeout=LONG,
    )
    visit.page.wait_for_selector("#preview img", timeout=LONG)
    visit.shot("progress")
    visit.status("Done: 2 draws, 21 denoiser calls each")
    visit.page.wait_for_selector("#slider img", timeout=LONG)
    visit.page.wait_for_selector("#std img", timeout=LONG)
    assert visit.page.locator("#gallery img").count() == 5  # two draws, their mean, measurement, original
    table = visit.page.inner_text("#scores")
    assert all(word in table for word in ("PSNR", "SSIM", "misfit", "seed 0", "seed 1", "mean"))
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
    visit.page.wait_for_function(
        "/step \\d+ of 198/.test(document.querySelector('#status').innerText)", timeout=LONG
    )
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
    visit.paint(50, 5)
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
    visit.choose("#task", "Super-resolution ×4")
    run(visit)
    visit.status("Done")
    image = visit.download("#png", tmp_path)
    assert Image.open(image).size == (128, 128)
    assert "PSNR" not in visit.page.inner_text("#scores")
    assert image.read_bytes() == (same_on_the_command_line(visit, tmp_path, small) / image.name).read_bytes()


def test_a_slider_says_what_happened_and_the_command_line_repeats_it(visit: Visit, tmp_path: Path) -> None:
    squashed = tmp_path / "given" / "squashed.jpg"
    squashed.parent.mkdir()
    Image.open(FACE).convert("RGB").save(squashed, quality=20)
    visit.page.get_by_text("My picture is already degraded").click()
    visit.upload(squashed, "128×128")
    visit.page.wait_for_function(
        "document.querySelector('#task input').value === 'Find out from the file'", timeout=LONG
    )
    visit.choose("#task", "JPEG compression, with a slider")
    box = visit.page.locator("#first input[type=number]")
    box.fill("20")
    box.press("Enter")
    visit.page.wait_for_selector("#told >> text=quality 20", timeout=LONG)
    run(visit, steps=6)
    visit.status("Done: 1 draw")
    visit.shot("family")
    assert "--task jpeg:20" in visit.page.inner_text("#command .cm-content")
    image = visit.download("#png", tmp_path)
    theirs = same_on_the_command_line(visit, tmp_path, squashed)
    assert image.read_bytes() == (theirs / image.name).read_bytes()


def test_another_model_brings_its_own_tasks(visit: Visit) -> None:
    visit.upload(FACE, "128×128")
    visit.choose("#model", "blur-only")
    visit.page.wait_for_function(
        "document.querySelector('#task input').value === 'Gaussian deblurring'", timeout=LONG
    )
    run(visit, steps=4)
    visit.status("Done: 1 draw, 5 denoiser calls each")
    words = shlex.split(visit.page.inner_text("#command .cm-content"))
    assert Path(words[words.index("--model") + 1]).name == "blur-only"
    assert words[words.index("--task") + 1] == "blur"


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
    visit.page.wait_for_timeout(1000)  # pictures load
    visit.shot("compare")
    visit.choose("#right", "original")
    visit.page.wait_for_selector("#compare-slider img[src$='original.png']", timeout=LONG)
    assert visit.sources("#compare-slider")[0] == f"{FACE.stem}.png"  # PASEO's, still on the left


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
    visit.page.set_input_files("#picture input[type=file]", str(heavy(tmp_path / "heavy.png")))
    visit.page.wait_for_selector("text=exceed the maximum allowed size", timeout=LONG)
    visit.shot("too-heavy")
    visit.upload(FACE, "128×128")
    run(visit, steps=2)
    visit.status("a whole number in [3, 10000]")


def heavy(path: Path) -> Path:
    """More bytes than may be uploaded."""
    path.write_bytes(FACE.read_bytes() + bytes((MAX_MEGABYTES << 20) + 1))
    return path


def bomb(path: Path) -> Path:
    """A small PNG that claims 20000 × 20000 pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    side = (20_000).to_bytes(4, "big")
    pixels = zlib.compress(bytes(20_001) * 50)
    body = (
        chunk(b"IHDR", side + side + b"\x08\x00\x00\x00\x00") + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    )
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + body)
    return path


def test_on_a_phone_restore_is_in_reach_and_the_time_is_said(phone: Visit) -> None:
    box = phone.page.locator("#run").bounding_box()
    assert box is not None
    assert box["y"] + box["height"] <= 844
    assert "how the picture may have looked" in phone.page.inner_text("#title").replace("\n", " ")
    phone.upload(FACE, "128×128")
    phone.status("It will take about")
    phone.settle()
    if weights_available():  # the box is there; an aligned face is what the model knows
        assert not phone.page.locator("#faces input").is_checked()


def test_a_phone_needs_no_sideways_scrolling(phone: Visit) -> None:
    phone.upload(FACE, "128×128")
    phone.choose("#task", "Centre inpainting")
    phone.paint(30, 30)
    run(phone, steps=5, draws=2)
    phone.status("Done")
    phone.page.wait_for_selector("#slider img", timeout=LONG)
    phone.page.wait_for_timeout(1000)  # pictures load
    phone.shot("phone")
    assert "--mask mask.png" in phone.page.inner_text("#command .cm-content")
    wide = (
        "[...document.querySelectorAll('*')].filter(e => e.getBoundingClientRect().right > 391)"
        ".map(e => e.id || e.className)"
    )
    assert phone.page.evaluate("document.scrollingElement.scrollWidth") <= 390, phone.page.evaluate(wide)
    for control in ("#run", "#way", "#task", "#mask", "#slider", "#scores table", "#std", "#png"):
        box = phone.page.locator(control).first.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390.5, control


def test_one_run_at_a_time_the_next_visitor_waits(visit: Visit, another: Visit) -> None:
    for each in (visit, another):
        each.upload(FACE, "128×128")
    run(visit, steps=300)
    visit.page.wait_for_function(
        "/step \\d+ of 298/.test(document.querySelector('#status').innerText)", timeout=LONG
    )
    run(another, steps=4)
    another.status("Waiting for a free place")
    another.page.wait_for_timeout(3000)
    another.status("Waiting for a free place")
    another.shot("waiting")
    visit.page.click("#cancel")
    another.status("Done: 1 draw, 5 denoiser calls each")
    visit.status("Cancelled.")


def test_nothing_is_written_elsewhere_and_what_a_visitor_made_goes_with_him(
    browser: Any, served: Served
) -> None:
    with visiting(browser, served) as passing:
        passing.upload(FACE, "128×128")
        run(passing, steps=4)
        passing.status("Done")
        name = passing.page.get_attribute("#slider img", "src").split("/files/")[1].split("/")[0]
        (folder,) = served.temporary.glob(f"paseo-ui-*/files/{name}")
        assert (folder / f"{FACE.stem}.png").is_file()
    assert served.litter() == []
    assert [p.name[:9] for p in served.temporary.iterdir()] == ["paseo-ui-"]
    deadline = time.monotonic() + LONG / 1000
    while folder.exists() and time.monotonic() < deadline:
        time.sleep(0.5)
    assert not folder.exists()


@pytest.mark.parametrize(
    "path",
    [
        "/etc/hostname",
        str(FACE),
        "../../../../etc/hostname",
        "http://198.51.100.1/x.png",
        "https://example.com/x.png",
    ],
)
def test_a_forged_upload_is_refused(served: Served, path: str) -> None:
    """The request of a picture that was never uploaded: a file of the host, or one that the server should
    fetch.
    """
    with urllib.request.urlopen(f"{served.address}config", timeout=30) as reply:
        config = json.load(reply)
    picture = next(c["id"] for c in config["components"] if c["props"].get("elem_id") == "picture")
    handler = next(d["id"] for d in config["dependencies"] if [picture, "change"] in d["targets"])
    data = [{"path": path, "meta": {"_type": "gradio.FileData"}}, "show", True, "faces-128"]
    body = json.dumps({"fn_index": handler, "data": data, "session_hash": "forged"}).encode()
    request = urllib.request.Request(
        f"{served.address}gradio_api/run/predict", body, {"Content-Type": "application/json"}
    )
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=60)
    # by our gate, or, a sample that came without a click, by gradio
    assert refused.value.code == (500 if path == str(FACE) else 403)
    assert b"hostname" not in refused.value.read()
    assert served.calls == []


def test_an_upload_that_is_too_heavy_is_not_taken(served: Served) -> None:
    """Whatever the browser's script allows."""
    head = (
        b'--X\r\nContent-Disposition: form-data; name="files"; filename="heavy.png"\r\n'
        b"Content-Type: image/png\r\n\r\n"
    )
    body = head + bytes((MAX_MEGABYTES << 20) + 1) + b"\r\n--X--\r\n"
    request = urllib.request.Request(
        f"{served.address}gradio_api/upload", body, {"Content-Type": "multipart/form-data; boundary=X"}
    )
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=120)
    assert refused.value.code == 413


@pytest.mark.parametrize(
    "path",
    [
        "/etc/hostname",
        "/proc/self/environ",
        str(ROOT / "pyproject.toml"),
        str(ROOT / "paseo" / "cli.py"),
        "../../../../etc/hostname",
    ],
)
def test_files_of_the_host_cannot_be_had(address: str, path: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{address}gradio_api/file={path}", timeout=30)
    assert refused.value.code in (403, 404)
