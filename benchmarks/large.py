"""Large pictures in windows: time per megapixel, memory, and whether a seam can be found.

    python benchmarks/large.py --out out/large                       JPEG of quality 20, 0.25 to 12 megapixels
    python benchmarks/large.py --megapixels 1 --steps 28 --task sr:4   the whole number of steps
    python benchmarks/large.py --megapixels 1,12 --windows 64          in windows of 64 cells, 512 pixels

The picture is scikit-image's cup of coffee, mirrored until it is large enough: every size has the same
content. Few steps are enough here; seconds per megapixel and call do not depend on their number. The seam
figure is the mean difference of neighbouring pixels across the borders of windows over that across the
borders of the eight cells beside them: a codec of 8×8 pixels, and JPEG, leave traces at every cell.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import paseo
from paseo.files import write_json
from paseo.images import to_pil
from paseo.lab.text import columns
from paseo.memory import read_choice
from paseo.metrics import Cost
from paseo.windows import Cover, Windows

NEAR = 4  # cells on each side of a border


def picture(megapixels: float) -> Tensor:
    """(1,3,H,W) in [0,1], 4:3, sides that are multiples of 16."""
    from skimage import data

    small = np.asarray(data.coffee())
    height = int((megapixels * 1e6 * 3 / 4) ** 0.5) // 16 * 16
    width = int(height * 4 / 3) // 16 * 16
    rows = _mirrored(small.shape[0], height)
    large = small[rows][:, _mirrored(small.shape[1], width)]
    return torch.from_numpy(large.copy()).permute(2, 0, 1)[None].float() / 255


def _mirrored(length: int, wanted: int) -> np.ndarray:
    there_and_back = np.concatenate([np.arange(length), np.arange(length)[::-1]])
    return np.resize(there_and_back, wanted)


def seam(image: Tensor, windows: Windows | None, factor: int = 8) -> float | None:
    """Mean step across the borders of windows over the mean step around them; None without windows."""
    if windows is None:
        return None
    h, w = image.shape[-2:]
    cover = Cover((-(-h // factor), -(-w // factor)), windows)
    across, around = [], []
    for x, starts, sides in (
        (image, cover.starts[0], cover.sides[0]),
        (image.mT, cover.starts[1], cover.sides[1]),
    ):
        steps = (x[..., 1:, :] - x[..., :-1, :]).abs().mean(dim=(0, 1, 3))  # (length − 1,)
        for start in starts:
            for border in (start * factor, (start + sides) * factor):
                if NEAR * factor < border < len(steps) - NEAR * factor:
                    beside = [border - 1 + k * factor for k in range(-NEAR, NEAR + 1) if k]
                    across.append(float(steps[border - 1]))
                    around.append(float(steps[beside].mean()))
    return sum(across) / sum(around) if across else None


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megapixels", default="0.25,1,4,12", help="of the result")
    parser.add_argument("--task", default="jpeg:20")
    parser.add_argument("--model", default="photos")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument(
        "--windows", default="auto", help="as of `paseo restore`; auto: where memory asks for them"
    )
    parser.add_argument("--out", type=Path, default=Path("out/large"))
    o = parser.parse_args()
    torch.set_num_threads(1)
    task = paseo.task(o.task)
    lines, found = [], []
    for size in map(float, o.megapixels.split(",")):
        truth = picture(size)
        y = task.measure(truth, [0])
        begin = time.process_time()
        with Cost() as cost:
            result = paseo.restore(
                y[0],
                task=o.task,
                model=o.model,
                settings={"steps": o.steps},
                size=truth.shape[-2:],
                windows=read_choice(o.windows),
            )
        seconds = time.process_time() - begin
        pixels = truth.shape[-2] * truth.shape[-1] / 1e6
        windows = result.windows
        row = {
            "megapixels": round(pixels, 3),
            "cpu_seconds": round(seconds, 1),
            "per_megapixel_and_call": round(seconds / pixels / result.nfe, 3),
            "MiB": round(cost.extra_bytes / 2**20),
            "windows": "whole" if windows is None else f"{windows.side} cells",
            "seam": seam(result.images, windows),
        }
        found.append(row)
        lines.append(["-" if value is None else str(value) for value in row.values()])
        o.out.mkdir(parents=True, exist_ok=True)
        to_pil(result.images[0]).save(o.out / f"{size:g}.png")
        print(columns(list(row), lines), flush=True)
    write_json(o.out / "large.json", {"task": o.task, "steps": o.steps, "rows": found})


if __name__ == "__main__":
    main()
