"""Enlarge a face four times, three draws, and show where they disagree.

python examples/quickstart.py --out out
"""

import argparse
from pathlib import Path

import paseo
from paseo.images import read, save_png
from paseo.models import ROOT
from paseo.sheet import contact_sheet, deviation_map


def main(out: Path, steps: int | None = None) -> paseo.Restored:
    x = read(ROOT / "faces-128/samples/2000001.jpg").rgb  # (3,128,128) in [0,1]
    y = paseo.task("sr4").measure(x[None], seeds=0)  # (1,3,32,32): small, with noise of σ_y = 0.01
    result = paseo.restore(y, task="sr4", samples=3, steps=steps)

    row = [y[0], *result.images, result.mean, deviation_map(result.std), x]
    sheet = contact_sheet(
        [row], columns=["measurement", "draw 0", "draw 1", "draw 2", "mean", "deviation", "original"]
    )
    save_png(out / "quickstart.png", sheet)
    print(f"{result.nfe} denoiser calls, {result.seconds:.1f} s, {out / 'quickstart.png'}")
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("out"))
    parser.add_argument("--steps", type=int, help="time points; fewer are faster and worse")
    main(**vars(parser.parse_args()))
