"""PASEO beside what people would pick instead, in one run on the same photographs.

    pip install -e '.[peers]'
    python benchmarks/peers.py --data photos-256/test.tar --count 200 --out out/peers
    python benchmarks/peers.py --data photos-256/test.tar --count 60 --size 256 --tasks sr4 --out out/at-256

Writes a JSON file per method (every picture), a table, and a sheet of the first pictures. Each method is
given the measurement alone, PASEO also the task, MI-GAN the mask. Feed-forward networks were trained on other
data and for other degradations than σ_y = 0.01 after bicubic ×4: the table says what they do with it, not
what they were made for. Times are of the processor, one thread.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from peer_models import Peer, migan, with_ncnn, with_onnx
from PIL import Image
from torch import Tensor
from tqdm import tqdm

from paseo.files import read_json, write_json, write_text
from paseo.images import to_pil
from paseo.lab.bench.pictures import Truth, load_pictures
from paseo.lab.bench.scores import score
from paseo.lab.bench.setup import Setup
from paseo.lab.text import columns
from paseo.metrics import Cost, kernel_distance, vgg_features
from paseo.sheet import contact_sheet

METRICS = ("lpips", "psnr", "consistency")
SHOWN = 6
Method = Callable[[Sequence[Truth]], Tensor]


def restorers(setup: Setup, size: int, weights: Path) -> dict[str, Peer]:
    """The peers that can do the task."""
    if setup.task_name == "sr4":
        return {
            "Real-ESRGAN x4plus": with_ncnn(weights, "realesrgan-x4plus", "output"),
            "realesr-animevideov3": with_ncnn(weights, "realesr-animevideov3-x4", "output"),
            "UltraSharp V2 Lite": with_onnx(weights, "4x-UltraSharpV2_Lite_fp32_op17.onnx"),
        }
    if setup.task.masks:
        return {"MI-GAN": migan(weights, setup.task.degradation.observed_at(size, size))}
    return {}


def methods(setup: Setup, o: argparse.Namespace) -> dict[str, Method]:
    """Every method by its name in the table; each restores one picture."""
    lifted = "bicubic" if setup.task_name.startswith("sr") else "as measured"
    found: dict[str, Method] = {
        lifted: lambda p: setup.task.degradation.lift(2 * setup.measure(p) - 1, p[0].size) / 2 + 0.5
    }
    for name, peer in restorers(setup, o.size, o.weights).items():
        found[name] = lambda p, peer=peer: peer(setup.measure(p))
    for model in o.models.split(","):
        own = Setup(model, setup.task_name, method="paseo", budget=53)
        found[f"PASEO {model}"] = lambda p, own=own: own.draw(own.recipe.sampler, p).images.cpu()
    return found


def measure(setup: Setup, name: str, method: Method, pictures: Sequence[Truth], out: Path) -> dict[str, Any]:
    """A method's figures, computed once: per picture, and the kernel distance of all."""
    stem = out / f"{setup.task_name}-{name.replace(' ', '_')}"
    file = stem.with_suffix(".json")
    if file.is_file() and len(read_json(file)["rows"]) == len(pictures):
        return read_json(file)
    method(pictures[:1])  # warm
    rows: list[dict[str, Any]] = []
    images: list[Tensor] = []
    extra = 0
    for picture in tqdm(pictures, f"{setup.task_name} {name}", disable=None):
        begin = time.process_time()
        with Cost() as cost:
            restored = method([picture])
        seconds = time.process_time() - begin
        extra = max(extra, cost.extra_bytes)
        pair = setup.pair(restored, [picture])
        values = {metric: round(float(v[0]), 5) for metric, v in score(pair, METRICS).items()}
        rows.append({"image": picture.name, "cpu_seconds": round(seconds, 4), **values})
        images.append(pair.image)
    found = {"rows": rows, "extra_bytes": extra, **distance(torch.cat(images), pictures)}
    for picture, image in zip(pictures[:SHOWN], images, strict=False):
        to_pil(image[0]).save(out / f"{stem.name}-{picture.name}.png")
    write_json(file, found)
    return found


def distance(images: Tensor, pictures: Sequence[Truth]) -> dict[str, float]:
    """The unbiased kernel distance on VGG16 features, times 1000."""
    found = kernel_distance(vgg_features(images), vgg_features(torch.stack([p.tensor for p in pictures])))
    return {"kd_vgg": round(1e3 * found.value, 3), "kd_vgg_error": round(1e3 * found.standard_error, 3)}


def line(name: str, found: dict[str, Any]) -> list[str | float]:
    """A method's row of the table: means and the median time."""
    rows = found["rows"]
    means = [sum(row[metric] for row in rows) / len(rows) for metric in METRICS]
    seconds = sorted(row["cpu_seconds"] for row in rows)[len(rows) // 2]
    digits = [f"{means[0]:.4f}", f"{means[1]:.2f}", f"{means[2]:.4f}", f"{found['kd_vgg']:.2f}"]
    return [name, *digits, f"{seconds:.2f}", f"{found['extra_bytes'] / 2**20:.0f}", str(len(rows))]


def sheet(task: str, names: Sequence[str], pictures: Sequence[Truth], out: Path) -> None:
    """The first pictures: truth and every method."""

    def stored(name: str, picture: Truth) -> Image.Image:
        return Image.open(out / f"{task}-{name.replace(' ', '_')}-{picture.name}.png")

    cells = [[p.tensor, *(stored(name, p) for name in names)] for p in pictures[:SHOWN]]
    contact_sheet(cells, columns=["truth", *names], side=256).save(out / f"{task}.png")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True, help="folder or tar of sharp pictures")
    parser.add_argument("--part", default="all", choices=("all", "validation", "test"))
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--size", type=int, default=128, help="centre squares are brought to this side")
    parser.add_argument("--tasks", default="sr4,inpaint")
    parser.add_argument("--models", default="photos", help="of PASEO's rows")
    parser.add_argument(
        "--weights", type=Path, default=Path("out/peer-weights"), help="where packages are kept"
    )
    parser.add_argument("--out", type=Path, required=True)
    o = parser.parse_args()
    torch.set_num_threads(1)
    o.out.mkdir(parents=True, exist_ok=True)
    pictures = load_pictures(o.data, o.part, 0, o.count, o.size)
    header = ("method", "LPIPS", "PSNR", "consistency", "KD-VGG", "CPU s", "MiB", "images")
    for task in o.tasks.split(","):
        setup = Setup(o.models.split(",")[0], task)
        found = {name: measure(setup, name, m, pictures, o.out) for name, m in methods(setup, o).items()}
        text = columns(header, [line(name, values) for name, values in found.items()])
        print(f"{task}, {o.size} px\n{text}\n")
        write_text(o.out / f"{task}.txt", text + "\n")
        sheet(task, list(found), pictures, o.out)


if __name__ == "__main__":
    main()
