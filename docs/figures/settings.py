"""docs/images/settings.png: one face, one measurement, one seed; each of P, C, ρ, λ, r low, at its base and high.

python docs/figures/settings.py            # some minutes on a CPU
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import torch

import paseo
from paseo.images import read, save_png
from paseo.metrics import consistency, psnr
from paseo.models import ROOT
from paseo.sheet import contact_sheet

VALUES = {  # low, base, high
    "inner_steps": ("P", (1, 3, 12)),
    "cg_budget": ("C", (1, 3, 24)),
    "relaxation": ("ρ", (0.02, 0.3, 1.0)),
    "damping": ("λ", (0.0, 0.005, 1.0)),
    "operator_noise": ("r", (0.002, 0.05, 0.6)),
}


def main(out: Path, steps: int, sample: str) -> None:
    torch.manual_seed(0)
    model, task = paseo.load_model("faces-128"), paseo.task("sr4")
    base = paseo.PASEO(steps=steps, **{name: values[1] for name, (_, values) in VALUES.items()})
    x = read(ROOT / "faces-128/samples" / sample).rgb[None]
    y = task.measure(x, seeds=0)
    operator = model.operator("sr4")
    done: dict[paseo.PASEO, torch.Tensor] = {}
    cells, rows = [], []
    for name, (letter, values) in VALUES.items():
        row = []
        for value in values:
            sampler = replace(base, **{name: value})
            if sampler not in done:
                done[sampler] = paseo.restore(y, model=model, degradation=task, operator=operator, sampler=sampler, seeds=[0]).images
            image = done[sampler]
            score = f"{float(psnr(image, x)):.1f} dB, misfit {float(consistency(image, x, task)):.3f}"
            print(f"{letter} = {value}: {score}", flush=True)
            row.append(image[0])
        cells.append([y[0], *row, x[0]])
        rows.append(f"{name} {', '.join(f'{v:g}' for v in values)}")  # the sheet's font has no Greek
    sheet = contact_sheet(cells, columns=["measurement", "low", "base", "high", "original"], rows=rows, side=128)
    print(save_png(out, sheet))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "images" / "settings.png")
    parser.add_argument("--steps", type=int, default=28)
    parser.add_argument("--sample", default="2000002.jpg")
    main(**vars(parser.parse_args()))
