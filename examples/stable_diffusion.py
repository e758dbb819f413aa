"""Stable Diffusion as the prior, through the diffusers-style pipeline.

    python examples/stable_diffusion.py --out out            a tiny network with random weights
    python examples/stable_diffusion.py --model stabilityai/stable-diffusion-3.5-medium --operator OPERATOR
    --image small.png

The first line shows that all parts fit, on any machine and without a download; its picture is noise. The
second needs the weights, an operator trained for that autoencoder (`paseo train operator --model … --task
sr4`), and a GPU.
"""

import argparse
from pathlib import Path
from typing import Any

import torch
from PIL import Image

import paseo
from paseo.images import save_png, to_tensor
from paseo.models import ROOT


def tiny(steps: int) -> Any:
    """A random SD pipeline, and the chain encode ∘ degrade ∘ decode as its operator."""
    from paseo.hub.autoencoder import wrap_codec
    from paseo.operators.exact import Chain
    from paseo.testing import tiny_pipeline

    pipe = paseo.PaseoPipeline.from_pipe(tiny_pipeline("sd"))
    return pipe, Chain(wrap_codec(pipe.vae), paseo.task("sr4").degradation), paseo.PASEO(steps=steps)


def main(
    out: Path,
    model: str | None = None,
    operator: str | None = None,
    image: Path | None = None,
    steps: int = 6,
) -> Any:
    small = Image.open(image or ROOT / "faces-128/samples/2000001.jpg").convert("RGB")
    if model is None:
        pipe, chain, sampler = tiny(steps)
        result = pipe(
            small.resize((16, 16)),
            task="sr4",
            prompt="a face",
            operator=chain,
            sampler=sampler,
            generator=torch.manual_seed(0),
        )
    else:
        pipe = paseo.PaseoPipeline.from_pretrained(model, operator=operator, dtype=torch.bfloat16)
        pipe.enable_model_cpu_offload()  # text encoders, network and autoencoder take turns on the GPU
        result = pipe(small, task="sr4", prompt="A high quality photo", generator=torch.manual_seed(0))
    save_png(out / "stable_diffusion.png", to_tensor(result.images[0]))
    print(
        f"{result.images[0].size[0]}×{result.images[0].size[1]}, {result.nfe} denoiser calls, "
        f"{out / 'stable_diffusion.png'}"
    )
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("out"))
    parser.add_argument("--model", help="a diffusers model; without it a tiny random one")
    parser.add_argument("--operator", help="folder or hub id of an operator for its autoencoder")
    parser.add_argument("--image", type=Path, help="the small picture")
    parser.add_argument("--steps", type=int, default=6)
    main(**vars(parser.parse_args()))
