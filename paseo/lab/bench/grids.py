"""Picture grids after the paper's rule ("Additional qualitative results").

Rows: the five images with the lowest LPIPS of the reference method among the first hundred, and every method
on those same images; where methods have different ones, among those that all have. They are its best cases,
chosen without looking at any other method, and not a random sample. Columns: truth, measurement, methods.
Below each row the boxed region, half the image's side wide and a quarter high, enlarged without smoothing.
The box is placed without looking at any restoration:

    eyes      a fixed box on the eyes, for aligned faces
    detail    the window of the truth with the largest mean gradient magnitude; the centre where pixels were
              hidden
    hole      the centre of the image
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from paseo.degrade import task as find_task
from paseo.lab.bench.aggregate import Bench
from paseo.lab.bench.cells import Cell, CellStore
from paseo.lab.bench.config import Zoom
from paseo.lab.bench.tables import method_title, title_of

ROWS, AMONG = 5, 100
EYES = (0.25, 0.34375)  # left and top of the box in an aligned face, as fractions of the side
BOX = (0.5, 0.25)  # its width and height
YELLOW = (255, 250, 3)

Region = tuple[int, int, int, int]  # left, top, right, bottom


def chosen_images(bench: Bench, task: str) -> list[str]:
    """Hashes of the images shown for a task, best first."""
    planned = list(dict.fromkeys(cell.image_sha256 for cell in bench.cells if cell.task == task))[:AMONG]
    shared = (
        set.intersection(*(set(s.values.get("lpips", {})) for s in bench.of(task)))
        if bench.of(task)
        else set()
    )
    order = [sha for sha in planned if sha in shared] or planned
    summary = bench.summaries.get((task, bench.config.reference))
    values = summary.values.get("lpips", {}) if summary is not None else {}
    ranked = sorted((sha for sha in order if sha in values), key=lambda sha: (values[sha], order.index(sha)))
    return (ranked or order)[:ROWS]


def grid(bench: Bench, store: CellStore, task: str, side: int = 160) -> Image.Image | None:
    """The grid of a task, or None where nothing has been restored yet."""
    methods = [s.method for s in bench.of(task)]
    images = chosen_images(bench, task)
    if not methods or not images:
        return None
    cells = {
        (c.method, c.image_sha256): c for c in reversed(bench.cells) if c.task == task
    }  # of several seeds the first
    columns = [
        "truth",
        "measurement",
        *(method_title(m).replace("†", " fresh") for m in methods),
    ]  # the font has no †
    strips = [_strip(bench, store, task, sha, methods, cells, side) for sha in images]
    font = ImageFont.load_default(max(11, side // 12))
    line, gap = side // 6, 4
    height = strips[0].height
    sheet = Image.new("RGB", (strips[0].width + 2 * gap, line + len(strips) * (height + gap)), "white")
    draw = ImageDraw.Draw(sheet)
    for j, name in enumerate(columns):
        draw.text((gap + j * (side + gap) + side / 2, line / 2), name, fill="black", font=font, anchor="mm")
    for i, strip in enumerate(strips):
        sheet.paste(strip, (gap, line + i * (height + gap)))
    return sheet


def _strip(
    bench: Bench,
    store: CellStore,
    task: str,
    sha: str,
    methods: list[str],
    cells: dict[tuple[str, str], Cell],
    side: int,
) -> Image.Image:
    """One row of images with their crops below."""
    name = next(c.image for c in bench.cells if c.image_sha256 == sha)
    truth = _open(store.truth(name, sha))
    panels = [truth, _open(store.measurement(task, name, sha))]
    panels += [_open(store.path(cells[m, sha], ".png")) if (m, sha) in cells else None for m in methods]
    zoom: Zoom = "hole" if bench.config.zoom == "detail" and find_task(task).masks else bench.config.zoom
    gap, crop_height = 4, round(side * BOX[1] / BOX[0])
    strip = Image.new("RGB", (len(panels) * (side + gap) - gap, side + 2 + crop_height), "white")
    if truth is None:
        return strip
    region = box(np.asarray(truth), zoom)
    for j, panel in enumerate(panels):
        if panel is None:
            continue
        full = panel.resize(truth.size, Image.Resampling.NEAREST) if panel.size != truth.size else panel
        whole = full.resize((side, side), Image.Resampling.NEAREST)
        if j == 0:
            scale = side / truth.width
            ImageDraw.Draw(whole).rectangle([round(v * scale) for v in region], outline=YELLOW)
        strip.paste(whole, (j * (side + gap), 0))
        strip.paste(
            full.crop(region).resize((side, crop_height), Image.Resampling.NEAREST),
            (j * (side + gap), side + 2),
        )
    return strip


def box(truth: np.ndarray, zoom: Zoom) -> Region:
    """Where the crop is taken, from the truth (H,W,3) alone."""
    height, width = truth.shape[:2]
    w, h = max(1, round(width * BOX[0])), max(1, round(height * BOX[1]))
    if zoom == "eyes":
        left, top = round(width * EYES[0]), round(height * EYES[1])
    elif zoom == "hole":
        left, top = (width - w) // 2, (height - h) // 2
    else:
        left, top = _most_detailed(truth, w, h)
    return left, top, left + w, top + h


def _most_detailed(truth: np.ndarray, w: int, h: int) -> tuple[int, int]:
    """Left and top of the window with the largest mean gradient magnitude of the luminance."""
    grey = truth.astype(np.float64).mean(axis=2)
    magnitude = np.hypot(*np.gradient(grey))
    sums = np.pad(magnitude, ((1, 0), (1, 0))).cumsum(0).cumsum(1)
    windows = sums[h:, w:] - sums[:-h, w:] - sums[h:, :-w] + sums[:-h, :-w]
    top, left = np.unravel_index(int(windows.argmax()), windows.shape)
    return int(left), int(top)


def _open(path: Path) -> Image.Image | None:
    if not path.is_file():
        return None
    with Image.open(path) as image:
        return image.convert("RGB")


def caption(bench: Bench, task: str) -> str:
    shown = len(chosen_images(bench, task))
    return (
        f"{title_of(task)}: the {shown} images with the lowest LPIPS of "
        f"{method_title(bench.config.reference)} among the first {AMONG} "
        "that every method has, "
        "its best cases and not a random sample; below each, the region boxed on the truth."
    )
