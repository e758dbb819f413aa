"""A degradation of one's own, without any training: H is the chain encode ∘ degrade ∘ decode itself.

    python examples/own_degradation.py --out out

The chain costs a pass through the autoencoder for every product with the Jacobian. A trained operator is a
hundred times smaller; `paseo train operator --task examples/own_degradation.py:faded --data IMAGES` trains
one.
"""

import argparse
from pathlib import Path

from torch import Tensor

import paseo
from paseo.degrade import Custom, measure
from paseo.images import read, save_png
from paseo.metrics import psnr
from paseo.models import ROOT
from paseo.operators.exact import Chain
from paseo.sheet import contact_sheet


def faded(x: Tensor) -> Tensor:
    """(B,3,H,W) in [0,1] → the same: an old print, grey on the left and pale."""
    grey = x.mean(1, keepdim=True)
    fade = x.new_tensor([i / (x.shape[-1] - 1) for i in range(x.shape[-1])])  # 0 on the left, 1 on the right
    return 0.25 + 0.7 * (fade * x + (1 - fade) * grey)


def main(out: Path, steps: int = 28) -> dict[str, float]:
    model = paseo.load_model("faces-128")
    degradation = Custom(faded)
    sampler = paseo.PASEO(
        steps=steps, cg_budget=3, operator_noise=0.05
    )  # r: about the error of the autoencoder

    x = read(ROOT / "faces-128/samples/2000002.jpg").rgb[None]
    y = measure(x, degradation, 0.01, seeds=[0])
    result = paseo.restore(
        y,
        model=model,
        degradation=degradation,
        operator=Chain(model.codec, degradation),
        sampler=sampler,
        seeds=[0],
    )

    scores = {"before": float(psnr(y.clamp(0, 1), x)), "after": float(psnr(result.images, x))}
    save_png(
        out / "own_degradation.png",
        contact_sheet([[y[0], result.images[0], x[0]]], columns=["faded", "restored", "original"]),
    )
    print("PSNR " + ", ".join(f"{k} {v:.1f} dB" for k, v in scores.items()))
    return scores


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("out"))
    parser.add_argument("--steps", type=int, default=28)
    main(**vars(parser.parse_args()))
