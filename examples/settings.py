"""Too little and too much of P, C, ρ, λ and r: one face, one measurement, one seed, one setting changed at a
time.

    python examples/settings.py --out out

OUT/settings.png has a row per setting: far too little, the base, far too much; OUT/settings.md how they
score. Both stand in docs/settings.md.
"""

import argparse
from dataclasses import replace
from pathlib import Path

from torch import Tensor

import paseo
from paseo.degrade.tasks import Task
from paseo.files import write_text
from paseo.images import read, save_png, to_signed, to_unit
from paseo.metrics import psnr
from paseo.models import ROOT
from paseo.sheet import contact_sheet

VALUES = {  # symbol: (field, too little, base, too much)
    "P": ("inner_steps", 1, 3, 12),
    "C": ("cg_budget", 1, 3, 24),
    "ρ": ("relaxation", 0.02, 0.3, 1.0),
    "λ": ("damping", 0.0, 0.005, 1.0),
    "r": ("operator_noise", 0.002, 0.05, 0.6),
}
COLUMNS = ("too little", "base", "too much")


def main(out: Path, steps: int = 28, sample: str = "2000002.jpg", task: str = "blur") -> list[dict[str, str]]:
    model, degrade = paseo.load_model("faces-128"), paseo.task(task)
    base = paseo.PASEO(steps=steps, **{field: middle for field, _, middle, _ in VALUES.values()})
    x = read(ROOT / "faces-128/samples" / sample).rgb[None]
    y = degrade.measure(x, seeds=0)
    done: dict[paseo.PASEO, Tensor] = {}  # the base is one run

    def drawn(sampler: paseo.PASEO) -> Tensor:
        if sampler not in done:
            result = paseo.restore(
                y, model=model, degradation=degrade, operator=model.operator(task), sampler=sampler, seeds=[0]
            )
            done[sampler] = result.images
        return done[sampler]

    cells, rows = [], []
    for symbol, (field, *values) in VALUES.items():
        images = [drawn(replace(base, **{field: value})) for value in values]
        cells.append([y[0], *(image[0] for image in images), x[0]])
        scores = [
            f"{value:g}: {float(psnr(im, x)):.1f} dB, {misfit(im, y, degrade):.3f}"
            for value, im in zip(values, images, strict=True)
        ]
        rows.append({"setting": f"{symbol}, `{field}`"} | dict(zip(COLUMNS, scores, strict=True)))
        print(" | ".join(rows[-1].values()), flush=True)
    labels = [f"{field} {', '.join(f'{v:g}' for v in values)}" for field, *values in VALUES.values()]
    save_png(
        out / "settings.png", contact_sheet(cells, columns=["measurement", *COLUMNS, "original"], rows=labels)
    )
    write_text(out / "settings.md", markdown(rows))
    return rows


def misfit(image: Tensor, y: Tensor, degrade: Task) -> float:
    """RMS of A(x̂) − y in [0,1] units: about σ_y = 0.01 where the draw explains the measurement."""
    return float((to_unit(degrade(to_signed(image))) - y).square().mean().sqrt())


def markdown(rows: list[dict[str, str]]) -> str:
    """A table as the documentation includes it."""
    lines = [list(rows[0]), ["---"] * len(rows[0]), *(list(row.values()) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("out"))
    parser.add_argument("--steps", type=int, default=28)
    parser.add_argument("--sample", default="2000002.jpg")
    parser.add_argument("--task", default="blur")
    main(**vars(parser.parse_args()))
