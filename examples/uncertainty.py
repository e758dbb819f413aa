"""Where the draws differ, and whether they differ as much as they are wrong: spread beside error for three
tasks.

    python examples/uncertainty.py --out out

OUT/uncertainty.png shows two draws, the mean, the standard deviation and the error of the mean on the same
colour scale; OUT/uncertainty.md compares the two in numbers. If draws and truth came from one distribution,
the mean of n draws would be wrong by √(1 + 1/n) standard deviations (RMS over the picture), and a ratio of 1
is printed.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

import paseo
from paseo.files import write_text
from paseo.images import read, save_png
from paseo.models import ROOT
from paseo.sheet import contact_sheet, deviation_map

TASKS = ("sr4", "sr8", "inpaint")
COLUMNS = ("measurement", "draw 0", "draw 1", "mean", "deviation", "error of mean", "original")


def main(
    out: Path, draws: int = 8, steps: int | None = None, sample: str = "2000007.jpg"
) -> dict[str, dict[str, float]]:
    model = paseo.load_model("faces-128")
    x = read(ROOT / "faces-128/samples" / sample).rgb
    cells, scores = [], {}
    for name in TASKS:
        task, sampler = paseo.task(name), paseo.preset("faces-128", name).sampler
        sampler = replace(sampler, steps=steps) if steps else sampler
        y = task.measure(x[None], seeds=0)
        result = paseo.restore(
            y,
            model=model,
            degradation=task,
            operator=model.operator(name),
            sampler=sampler,
            seeds=list(range(draws)),
        )
        error = (
            (result.mean - x).square().mean(0, keepdim=True).sqrt()
        )  # (1,H,W), over the colours as the deviation is
        scores[name] = compared(result.std, error, draws)
        maps = deviation_map(result.std), deviation_map(error)
        cells.append([y[0], result.images[0], result.images[1], result.mean, *maps, x])
        print(f"{name}: " + ", ".join(f"{k} {v:.3f}" for k, v in scores[name].items()), flush=True)
    save_png(out / "uncertainty.png", contact_sheet(cells, columns=COLUMNS, rows=TASKS))
    write_text(out / "uncertainty.md", markdown(scores))
    return scores


def compared(std: Tensor, error: Tensor, draws: int) -> dict[str, float]:
    """RMS over the picture of both, their ratio (1 where the spread tells the error), and how far their
    places agree.
    """
    spread, wrong = float(std.square().mean().sqrt()), float(error.square().mean().sqrt())
    ranks = torch.stack([m.flatten().argsort().argsort().double() for m in (std, error)])
    ratio = wrong / max((1 + 1 / draws) ** 0.5 * spread, 1e-12)
    return {
        "deviation": spread,
        "error of mean": wrong,
        "ratio": ratio,
        "rank correlation": float(torch.corrcoef(ranks)[0, 1]),
    }


def markdown(scores: dict[str, dict[str, float]]) -> str:
    """A table as the documentation includes it."""
    names = list(next(iter(scores.values())))
    lines = [["task", *names], ["---"] * (len(names) + 1)]
    lines += [[f"`{task}`", *(f"{value:.3f}" for value in row.values())] for task, row in scores.items()]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("out"))
    parser.add_argument("--draws", type=int, default=8)
    parser.add_argument("--steps", type=int, help="time points; fewer are faster and worse")
    parser.add_argument("--sample", default="2000007.jpg")
    main(**vars(parser.parse_args()))
