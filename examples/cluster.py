"""A folder of pictures on many machines: worker k of n takes every n-th file. No worker waits for another.

    python examples/cluster.py --out out --workers 2 --worker 0
    srun --ntasks 8 python examples/cluster.py IMAGES --out SHARED          (Slurm tells each its number)

Seeds belong to pictures, not to workers, so that any number of workers gives the same files; a worker that is
started again skips what is there.
"""

import argparse
import os
from dataclasses import replace
from pathlib import Path

import paseo
from paseo.images import find_images, read, save_png
from paseo.models import ROOT


def main(folder: Path, out: Path, worker: int, workers: int, steps: int | None = None) -> list[Path]:
    model, task = paseo.load_model("faces-128"), paseo.task("sr4")
    sampler = paseo.preset("faces-128", "sr4").sampler
    sampler = replace(sampler, steps=steps) if steps else sampler
    written = []
    for source in find_images(folder)[worker::workers]:
        target = out / f"{source.stem}.png"
        if target.exists():  # written whole or not at all
            continue
        y = task.measure(read(source).rgb[None], seeds=0)
        result = paseo.restore(
            y, model=model, degradation=task, operator=model.operator("sr4"), sampler=sampler, seeds=[0]
        )
        written.append(save_png(target, result.images[0]))
    print(f"worker {worker} of {workers}: {len(written)} files")
    return written


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "faces-128/samples")
    parser.add_argument("--out", type=Path, default=Path("out"))
    parser.add_argument("--worker", type=int, default=int(os.environ.get("SLURM_PROCID", "0")))
    parser.add_argument("--workers", type=int, default=int(os.environ.get("SLURM_NTASKS", "4")))
    parser.add_argument("--steps", type=int, help="time points; fewer are faster and worse")
    main(**vars(parser.parse_args()))
