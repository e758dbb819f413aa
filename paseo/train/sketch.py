"""How a quick decoder learns from the codec's own: it imitates D on latents, and near them.

    L = |D′(z + v) − D(z + v)|₁ + 2 ‖D′(z + v) − D(z + v)‖²,      z = E(x),   v ~ N(0, δ² I),   δ ~ U(0, 0.3)

A sampler's estimates are not quite encodings, hence v. Encoding and decoding take longer than a step of so
small a network, so some pictures go through the codec once and are trained on again and again.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from tqdm import tqdm

from paseo.codecs.embedded import SKETCH, EmbeddedCodec
from paseo.codecs.net import Decoder
from paseo.errors import BadInput
from paseo.files import read_json
from paseo.models import AUTO
from paseo.train.config import LoopConfig, Precision, budget, option
from paseo.train.export import codec_folder, copy_parts, half, load_codec, write_model_config, write_weights
from paseo.train.loop import Trained, derive
from paseo.train.pictures import CROPS_HELP, DATA_HELP, Pictures, check_crops
from paseo.train.prior import EXPORT
from paseo.train.splits import HELP
from paseo.train.start import started

if TYPE_CHECKING:
    from accelerate import Accelerator

_VALIDATION_IMAGES = 64
SPREAD = 0.3  # largest δ, in units of the latents


@dataclass(frozen=True, kw_only=True)
class SketchTraining(LoopConfig):
    """Options of `paseo train sketch`."""

    model: str = option(AUTO, "Whose decoder to imitate: an embedded model, or a folder like theirs.")
    data: str = option(..., DATA_HELP)
    size: int = option(128, "Side of the images in pixels.")
    crops: tuple[int, ...] = option((), CROPS_HELP)
    split: str = option("auto", HELP)
    widths: tuple[int, ...] = option((16, 32, 64), "Channels at a half, a quarter and an eighth of the side.")
    blocks: tuple[int, ...] = option((1, 1, 2), "Residual blocks at each of them.")
    examples: int = option(
        2000, "Pictures, or crops of each side, that the codec decodes beforehand.", "[1, 1e6]"
    )
    batch_size: int = option(12, "Samples per step, over all processes together.", "[1, 65536]")
    lr: float = option(2e-3, "Peak learning rate.", "(0, 1000]")
    # with bf16 the same steps end some decibels lower
    precision: Precision = option("fp32", "bf16 autocast, fp32, or auto: bf16 where the hardware has it.")
    beta2: float = option(0.99, "Adam's second-moment decay.", "[0, 1)")
    ema: float = option(
        0.99,
        "Decay of the averaged weights that are validated and exported; 0 for the raw weights.",
        "[0, 1)",
    )
    cache: Path | None = budget(None, "Folder for decoded images, shared by runs; OUT/cache unless given.")

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "data", str(self.data))
        check_crops(self.crops, 8)
        for name, values in (("widths", self.widths), ("blocks", self.blocks)):
            if len(values) != 3 or not all(1 <= value <= 1024 for value in values):
                raise BadInput(f"{name} is {values}, expected three numbers from 1 to 1024.")


class Example(NamedTuple):
    """Latents of one size, and what the codec makes of them in float16."""

    z: Tensor
    decoded: Tensor


class SketchRecipe:
    """The loss and the validation of the quick decoder."""

    def __init__(
        self, codec: EmbeddedCodec, pictures: Pictures, config: SketchTraining, accelerator: Accelerator
    ) -> None:
        self.codec, self.device = codec.to(accelerator.device), accelerator.device
        self.count = pictures.count
        rng = torch.Generator().manual_seed(derive(config.seed, -5))
        self.held_out = self._decoded(pictures.held_out(_VALIDATION_IMAGES), rng)
        positions = range(min(config.examples, pictures.count) if not config.crops else config.examples)
        sides = sorted(set(pictures.sides))
        self.examples = [self._decoded(pictures.examples(positions, side, rng), rng) for side in sides]
        self.shape: dict[str, Any] = {
            "channels": codec.channels,
            "widths": list(config.widths),
            "blocks": list(config.blocks),
        }
        self.net: nn.Module = Decoder(**self.shape)

    @torch.no_grad()
    def _decoded(self, x: Tensor, rng: torch.Generator) -> Example:
        """E(x) + v and what D makes of it."""
        found = []
        for part in tqdm(x.split(32), "decoding", disable=None, leave=False):
            z = self.codec.encode(part.to(self.device))
            spread = SPREAD * torch.rand(len(z), 1, 1, 1, generator=rng)
            z = z + (spread * torch.randn(z.shape, generator=rng)).to(z)
            found.append((z.cpu(), self.codec.decode(z).half().cpu()))
        latents, pictures = zip(*found, strict=True)
        return Example(torch.cat(latents), torch.cat(pictures))

    def loss(self, net: nn.Module, index: Tensor, rng: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        """Of one side; a batch of larger pictures has fewer, so that every step costs the same."""
        chosen = self.examples[int(torch.randint(len(self.examples), (1,), generator=rng))]
        smallest = self.examples[0].decoded.shape[-1]
        count = max(1, round(len(index) * (smallest / chosen.decoded.shape[-1]) ** 2))
        picked = torch.randint(len(chosen.z), (count,), generator=rng)
        error = self._error(net, Example(chosen.z[picked], chosen.decoded[picked]))
        return error.abs().mean() + 2 * error.square().mean(), {}

    def _error(self, net: nn.Module, example: Example) -> Tensor:
        """D′(z) − D(z)."""
        own, z = self.codec.net, example.z.to(self.device)
        return net(z * own.std + own.mean).float() - example.decoded.to(self.device).float()

    def validate(self, net: nn.Module) -> dict[str, float]:
        """PSNR in dB of the quick decoder against the codec's own, on held-out pictures."""
        parts = zip(*(part.split(16) for part in self.held_out), strict=True)
        squares = torch.cat([self._error(net, Example(*part)).square().mean((1, 2, 3)) for part in parts])
        return {"psnr": (-10 * (squares / 4).clamp_min(1e-10).log10()).mean().item()}


def train_sketch(config: SketchTraining) -> Trained:
    """Train, and export the model with its quick decoder to OUT/model."""
    source = codec_folder(config.model)
    if source is None:
        raise BadInput(
            f"model is {config.model!r}, expected an embedded model or a folder with codec.safetensors and "
            "config.json."
        )
    with started(config, config.cache) as start:
        codec = load_codec(config.model)
        assert isinstance(codec, EmbeddedCodec)  # whose folder it is
        recipe = SketchRecipe(codec, start.pictures(config.data, config), config, start.accelerator)
        return start.train(recipe, config, lambda outcome: _export(outcome, recipe, config, source))


def _export(outcome: Trained, recipe: SketchRecipe, config: SketchTraining, source: Path) -> None:
    net = half(outcome.net).to(recipe.device)
    with torch.no_grad():
        stored = recipe.validate(net.eval())
    folder = config.out / EXPORT
    digests = {f"{SKETCH}.safetensors": write_weights(net, folder / f"{SKETCH}.safetensors")}
    digests |= copy_parts(source, folder, "codec", "prior")
    summary = outcome.summary | {
        "validation": stored,
        "images": recipe.count,
        "settings": config.public(),
    }
    write_model_config(folder, read_json(source / "config.json"), SKETCH, recipe.shape, summary, digests)
