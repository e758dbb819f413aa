"""The figures of the embedded model's card: codec, prior, operators, and PASEO against the measurement
itself.

    python benchmarks/card.py --data FACES --json card.json     everything, on 100 test faces: 40 minutes
    python benchmarks/card.py --data FACES --parts restore --tasks jpeg --images 10

`restore` compares PASEO at the kept settings with the measurement brought to size and passed through the
autoencoder.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from paseo.files import write_json
from paseo.images import save_png, to_signed, to_unit
from paseo.lab.bench.pictures import Truth, load_pictures, stack
from paseo.lab.bench.samples import distances, draw_images, sheet
from paseo.lab.bench.scores import score
from paseo.lab.bench.setup import Setup
from paseo.metrics import lpips, psnr
from paseo.models import load_model
from paseo.operators.check import check_operator
from paseo.settings.presets import preset

MODEL, TASKS = "faces-128", ("sr4", "sr8", "blur", "inpaint", "jpeg")
METRICS = ("lpips", "psnr", "consistency")


@torch.no_grad()
def codec(o: argparse.Namespace) -> dict[str, Any]:
    """Reconstruction of test faces."""
    net = load_model(MODEL).codec
    x = stack(load_pictures(o.data, "test", 0, o.images, 128))
    back = torch.cat([to_unit(net.decode(net.encode(to_signed(part)))).clamp(0, 1) for part in x.split(10)])
    return {"images": len(x), "psnr": psnr(back, x).mean().item(), "lpips": lpips(back, x).mean().item()}


def prior(o: argparse.Namespace) -> dict[str, Any]:
    """A sheet, and the kernel distance from test faces."""
    images = draw_images(load_model(MODEL), o.draws, 0, 50)
    save_png(o.sheet, sheet(images))
    return distances(images, o.data).to_json()


def operators(o: argparse.Namespace) -> dict[str, Any]:
    """The Jacobian table, on eight test faces and four directions as in the paper."""
    model, x = load_model(MODEL), stack(load_pictures(o.data, "test", 0, 8, 128))
    rows = {}
    for task in o.tasks.split(","):
        found, kept = Setup(MODEL, task), preset(MODEL, task).sampler
        check = check_operator(
            found.operator,
            model.codec,
            found.task.degradation,
            x,
            operator_noise=kept.operator_noise,
            damping=kept.damping,
            name=task,
        )
        rows[task] = {
            "r": kept.operator_noise,
            **check.to_dict()["rows"][0]["mean"],
            "condition_bound": check.rows[0].condition_bound,
        }
        print(check.table(), flush=True)
    return rows


def restore(o: argparse.Namespace) -> dict[str, Any]:
    """Means over test faces of PASEO and of the measurement."""
    pictures = load_pictures(o.data, "test", 0, o.images, 128)
    rows = {}
    for task in o.tasks.split(","):
        setup = Setup(MODEL, task, label=o.preset)
        sampler = setup.recipe.sampler
        parts = [pictures[i : i + o.batch] for i in range(0, len(pictures), o.batch)]
        ours = [setup.scores(sampler, part, METRICS) for part in parts]
        own = [score(setup.pair(as_is(setup, part), part), METRICS) for part in parts]
        a, b = _means(ours), _means(own)
        ratio = round(a["lpips"] / b["lpips"], 3)
        rows[task] = {
            "images": len(pictures),
            "nfe": sampler.nfe,
            "paseo": a,
            "measurement": b,
            "lpips_ratio": ratio,
        }
        print(task, json.dumps(rows[task]), flush=True)
    return rows


@torch.no_grad()
def as_is(setup: Setup, pictures: list[Truth]) -> Tensor:
    """The measurement, lifted, encoded and decoded."""
    y, codec = to_signed(setup.measure(pictures)), setup.model.codec
    return to_unit(codec.decode(codec.encode(setup.task.lift(y, pictures[0].size)))).clamp(0, 1)


def _means(parts: list[dict[str, Tensor]]) -> dict[str, float]:
    return {name: round(torch.cat([part[name] for part in parts]).mean().item(), 4) for name in METRICS}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True, help="folder of faces")
    parser.add_argument("--parts", default="codec,operators,restore,prior")
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--draws", type=int, default=256, help="images drawn from the prior")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--preset", default="paseo", help="kept settings to use, such as paseo-dagger")
    parser.add_argument("--sheet", type=Path, default=Path("out/samples.png"))
    parser.add_argument("--json", type=Path)
    o = parser.parse_args()
    found = {}
    for part in o.parts.split(","):
        found[part] = {"codec": codec, "prior": prior, "operators": operators, "restore": restore}[part](o)
        print(part, json.dumps(found[part]), flush=True)
        if o.json:
            write_json(o.json, found)


if __name__ == "__main__":
    main()
