"""A model folder with random weights and the layout of the embedded one: codec, prior and two operators for
32×32 images.
"""

from __future__ import annotations

from pathlib import Path

import torch
from PIL import Image

from paseo.codecs.embedded import EmbeddedCodec
from paseo.codecs.net import AutoencoderNet
from paseo.files import write_json
from paseo.operators.config import OperatorConfig
from paseo.operators.net import OperatorNet
from paseo.operators.store import save_operator
from paseo.priors.net import FlowUNet
from paseo.train.export import write_weights

SIDE, CHANNELS = 32, 4
TASKS = ("sr4", "inpaint", "jpeg")


def make_model(folder: Path, seed: int = 0) -> Path:
    """The folder, with weights that depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        widths, blocks = [8, 8, 16], [1, 1, 1]
        codec = AutoencoderNet(CHANNELS, (8, 8, 16), (1, 1, 1), (1, 1, 1))
        with torch.no_grad():
            z = codec.encoder(torch.randn(8, 3, SIDE, SIDE))
            codec.std.copy_(z.std((0, 2, 3), keepdim=True))
            codec.decoder.head.weight.mul_(
                12
            )  # images that differ from each other, unlike those of fresh weights
        net = FlowUNet(CHANNELS, (32, 32), 1)
        torch.nn.init.normal_(net.head.weight, std=0.02)
        sums = {"codec.safetensors": write_weights(codec, folder / "codec.safetensors")}
        sums["prior.safetensors"] = write_weights(net, folder / "prior.safetensors")
        shape = {"channels": CHANNELS, "widths": widths, "encoder_blocks": blocks, "decoder_blocks": blocks}
        config = {
            "name": "tiny",
            "latent_space": "tiny",
            "size": SIDE,
            "codec": shape,
            "prior": {"net": net.config, "shift": 1.0},
            "sha256": sums,
        }
        write_json(folder / "config.json", config)
        loaded = EmbeddedCodec.load(folder, "tiny")
        for task in TASKS:
            save_operator(
                OperatorNet(OperatorConfig(CHANNELS, "tiny", loaded.hash, task)), folder / "operators" / task
            )
    return folder


def make_pictures(folder: Path, count: int, side: int = SIDE) -> Path:
    """Smooth random pictures, 000.png and on."""
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(count):
        rng = torch.Generator().manual_seed(1000 + i)
        x = torch.nn.functional.interpolate(
            torch.rand(1, 3, 6, 6, generator=rng), (side, side), mode="bicubic"
        )[0].clamp(0, 1)
        Image.fromarray((x * 255).to(torch.uint8).permute(1, 2, 0).numpy()).save(folder / f"{i:03d}.png")
    return folder
