"""Contact sheets and maps of disagreement, drawn with Pillow alone.

A standard-deviation map has a fixed scale, the same for every image: 0 is black and `TOP` (0.2 of the [0,1]
range) and everything above is pale yellow, through purple, red and orange (five points of the "inferno" map,
linear in between). Two maps can therefore be compared by eye, and a map without colour says that the draws
agree.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from paseo.errors import BadInput
from paseo.images import to_pil

TOP = 0.2  # standard deviation, in [0,1] units, that gets the last colour
COLOURS = ((0, 0, 4), (87, 16, 110), (188, 55, 84), (249, 142, 9), (252, 255, 164))

Cell = Tensor | Image.Image | None


def deviation_map(std: Tensor, top: float = TOP) -> Tensor:
    """(H,W) or (1,H,W) standard deviations in [0,1] units → (3,H,W) colours in [0,1], on the fixed scale 0 …
    top.
    """
    std = std[0] if std.ndim == 3 and std.shape[0] == 1 else std
    if std.ndim != 2 or not top > 0:
        raise BadInput(
            f"A map is drawn from (H,W) or (1,H,W) and a scale above 0, got {tuple(std.shape)} and {top}."
        )
    table = torch.tensor(COLOURS, dtype=torch.float32) / 255
    position = (std.to("cpu", torch.float32) / top).clamp(0, 1) * (len(COLOURS) - 1)
    low = position.floor().long().clamp(max=len(COLOURS) - 2)
    part = (position - low)[..., None]
    return (table[low] * (1 - part) + table[low + 1] * part).permute(2, 0, 1)


def contact_sheet(
    cells: Sequence[Sequence[Cell]],
    *,
    columns: Sequence[str] = (),
    rows: Sequence[str] = (),
    side: int = 128,
    gap: int = 4,
    footer: str = "",
) -> Image.Image:
    """A grid of images with labels above the columns and left of the rows.

    Smaller or larger images are brought to `side` pixels without smoothing, so that a low resolution looks
    like one. None leaves a cell empty.
    """
    if not cells or not any(cells):
        raise BadInput("A contact sheet needs at least one image.")
    width = max(len(row) for row in cells)
    font = ImageFont.load_default(max(11, side // 11))
    line = round(font.getbbox("Ág")[3] * 1.5)
    left = max((round(font.getlength(label)) + 3 * gap for label in rows), default=gap)
    top = line if columns else gap
    foot = line * len(footer.splitlines())
    sheet = Image.new("RGB", (left + width * (side + gap), top + len(cells) * (side + gap) + foot), "white")
    draw = ImageDraw.Draw(sheet)
    for j, label in enumerate(columns):
        draw.text((left + j * (side + gap) + side / 2, top / 2), label, fill="black", font=font, anchor="mm")
    for i, row in enumerate(cells):
        y = top + i * (side + gap)
        if i < len(rows):
            draw.text((left - gap, y + side / 2), rows[i], fill="black", font=font, anchor="rm")
        for j, cell in enumerate(row):
            if cell is not None:
                sheet.paste(_fit(cell, side), (left + j * (side + gap), y))
    for i, text in enumerate(footer.splitlines()):
        draw.text(
            (gap, sheet.height - foot + (i + 0.5) * line), text, fill=(90, 90, 90), font=font, anchor="lm"
        )
    return sheet


def _fit(cell: Tensor | Image.Image, side: int) -> Image.Image:
    """The image inside a white square of `side` pixels, its shape kept."""
    image = to_pil(cell) if isinstance(cell, Tensor) else cell.convert("RGB")
    scale = side / max(image.size)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    square = Image.new("RGB", (side, side), "white")
    square.paste(image.resize(size, Image.Resampling.NEAREST), ((side - size[0]) // 2, (side - size[1]) // 2))
    return square
