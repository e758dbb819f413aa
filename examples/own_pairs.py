"""A degradation known only by example: clean and degraded pictures of the same names. Train an operator on
them and use it.

    python examples/own_pairs.py --out out --train-steps 40

Here the pairs are made from the sample faces, to have some; eight are enough to see it run, and a few hundred
to use it. The commands are `paseo train operator --pairs CLEAN DEGRADED --out RUN` and `paseo restore IMAGE
--operator RUN/operator`.
"""

import argparse
from pathlib import Path

from PIL import Image, ImageFilter

import paseo
from paseo.degrade import KnownByExample
from paseo.images import find_images, read, save_png
from paseo.models import ROOT
from paseo.sheet import contact_sheet
from paseo.train.operator import EXPORT, OperatorTraining, train_operator


def make_pairs(folder: Path, copies: int = 4) -> tuple[Path, Path]:
    """Crops of the samples, and the same through a worn lens."""
    clean, degraded = folder / "clean", folder / "degraded"
    for part in (clean, degraded):
        part.mkdir(parents=True, exist_ok=True)
    for path in find_images(ROOT / "faces-128/samples"):
        for k in range(copies):
            image = Image.open(path).convert("RGB").rotate(4 * k)
            image.save(clean / f"{path.stem}-{k}.png")
            image.filter(ImageFilter.BoxBlur(2)).save(degraded / f"{path.stem}-{k}.png")
    return clean, degraded


def main(out: Path, train_steps: int = 40, steps: int = 28) -> paseo.Restored:
    config = OperatorTraining(
        out=out / "run", pairs=make_pairs(out / "pairs"), name="worn-lens", steps=train_steps,
        batch_size=4, warmup=5, ema=0.9,
        validate_every=max(1, train_steps // 2), split="hash", quiet=True,
    )  # fmt: skip
    train_operator(config)
    operator = paseo.load_operator(out / "run" / EXPORT)
    print(f"{out / 'run' / EXPORT}: {sum(p.numel() for p in operator.parameters()):,} weights")

    worn = KnownByExample("worn-lens")  # no A: only a name, and the size is kept
    y = read(out / "pairs/degraded/2000001-0.png").rgb
    sampler = paseo.PASEO(steps=steps, operator_noise=0.1)  # r: the error of an operator of so few steps
    result = paseo.restore(
        y,
        model=paseo.load_model("faces-128"),
        degradation=worn,
        operator=operator,
        sampler=sampler,
        seeds=[0],
    )
    clean = read(out / "pairs/clean/2000001-0.png").rgb
    save_png(
        out / "own_pairs.png",
        contact_sheet([[y, result.images[0], clean]], columns=["worn", "restored", "clean"]),
    )
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("out"))
    parser.add_argument("--train-steps", type=int, default=40)
    parser.add_argument("--steps", type=int, default=28)
    main(**vars(parser.parse_args()))
