"""How the embedded prior is trained: flow matching on latents.

    x_t = (1−t) z + t ε,      L = E ‖u_θ(x_t, t) − (ε − z)‖²,      t = sigmoid(m + s·n)  (logit-normal)

Liu et al. and Lipman et al., 2023; the distribution of t is that of SD3 (Esser et al., 2024). Latents of
whole images and of their mirror images are encoded once; those of random crops as they are cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import torch
from torch import Tensor, nn

from paseo.base import Codec
from paseo.errors import BadInput
from paseo.files import read_json
from paseo.models import AUTO
from paseo.priors.embedded import EmbeddedPrior, velocity_net
from paseo.priors.local_net import LocalUNet
from paseo.priors.net import FlowUNet
from paseo.train.config import LoopConfig, budget, option
from paseo.train.export import (
    MODEL_HELP,
    codec_folder,
    copy_parts,
    half,
    load_codec,
    write_model_config,
    write_weights,
)
from paseo.train.latents import Latents, clean_latents, codec_digest, encode, latent_space_of
from paseo.train.loop import Trained, derive
from paseo.train.pictures import (
    CROPS_HELP,
    DATA_HELP,
    Pictures,
    WholePictures,
    check_crops,
)
from paseo.train.splits import HELP
from paseo.train.start import started

if TYPE_CHECKING:
    from accelerate import Accelerator

_VALIDATION_IMAGES = 256
EXPORT = "model"  # folder of the exported model below OUT


@dataclass(frozen=True, kw_only=True)
class PriorTraining(LoopConfig):
    """Options of `paseo train prior`."""

    model: str = option(AUTO, MODEL_HELP)
    data: str = option(..., DATA_HELP)
    size: int = option(128, "Side of the images in pixels.")
    crops: tuple[int, ...] = option((), CROPS_HELP + " Every batch has one of the sides.")
    start: str | None = option(None, "Model folder whose prior is the starting point.")
    name: str | None = option(None, "Name of the exported model; the name of OUT unless given.")
    kind: Literal["global", "local"] = option(
        "global",
        "global knows where it is in a picture of one size and attends over all of it; local does not care "
        "where it is cut and serves pictures of any size.",
    )
    widths: tuple[int, ...] = option((96, 160, 192), "Channels of the U-Net's levels, from fine to coarse.")
    blocks: int = option(2, "Residual blocks per level.")
    attend_from: int = option(1, "First level with attention, counted from 0; of the global kind.")
    time_mean: float = option(0.0, "m, centre of the logit-normal times.")
    time_std: float = option(1.0, "s, spread of the logit-normal times.")
    split: str = option("auto", HELP)
    mirror: bool = option(True, "Mirror images at random.")
    batch_size: int = option(32, "Samples per step, over all processes together.", "[1, 65536]")
    weight_decay: float = option(1e-2, "Decoupled weight decay (AdamW).", "[0, 10)")
    beta2: float = option(0.99, "Adam's second-moment decay.", "[0, 1)")
    ema: float = option(
        0.9995,
        "Decay of the averaged weights that are validated and exported; 0 for the raw weights.",
        "[0, 1)",
    )
    cache: Path | None = budget(
        None, "Folder for decoded images and latents, shared by runs; OUT/cache unless given."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "widths", tuple(int(w) for w in self.widths))
        object.__setattr__(self, "data", str(self.data))
        check_crops(self.crops, 8 * 2 ** (len(self.widths) - 1))
        if self.kind not in ("global", "local"):
            raise BadInput(f"kind is {self.kind!r}, expected global or local.")
        if not self.widths or any(w % 32 or w < 32 for w in self.widths):
            raise BadInput(
                f"widths are {self.widths}, expected multiples of 32 (eight groups, attention heads of 32)."
            )
        if self.blocks < 1 or self.attend_from < 0:
            raise BadInput(
                f"blocks is {self.blocks} and attend_from {self.attend_from}, expected at least 1 and 0."
            )
        if not self.time_std > 0:
            raise BadInput(f"time_std is {self.time_std}, expected a number above 0.")


class CleanLatents(Protocol):
    """Latents to train on and held-out ones."""

    @property
    def count(self) -> int: ...
    def draw(self, index: Tensor, rng: torch.Generator) -> Tensor: ...
    def held_out(self, limit: int) -> Tensor: ...


class StoredLatents:
    """Of whole pictures and their mirror images, encoded once."""

    def __init__(self, latents: Latents, pictures: WholePictures) -> None:
        self.latents, self.pictures = latents, pictures
        self.count = pictures.count

    def draw(self, index: Tensor, rng: torch.Generator) -> Tensor:
        mirror = (torch.rand(len(index), generator=rng) < 0.5) & self.pictures.mirror
        return self.latents(self.pictures.train[index.numpy()], mirror.long().numpy())

    def held_out(self, limit: int) -> Tensor:
        block = self.pictures.validation[:limit]
        return self.latents(block, block * 0)


class FreshLatents:
    """Of crops, encoded as they are cut."""

    def __init__(self, codec: Codec, pictures: Pictures, device: torch.device, bf16: bool) -> None:
        self.codec, self.pictures, self.device, self.bf16 = codec, pictures, device, bf16
        self.count = pictures.count

    def draw(self, index: Tensor, rng: torch.Generator) -> Tensor:
        return encode(self.codec, self.pictures.draw(index, rng), self.device, self.bf16)

    def held_out(self, limit: int) -> Tensor:
        blocks = self.pictures.held_out(limit).split(32)
        return torch.cat([encode(self.codec, x, self.device, False).cpu() for x in blocks])


class PriorRecipe:
    """The loss and the validation of the flow network."""

    def __init__(
        self, codec: Codec, pictures: Pictures, config: PriorTraining, cache: Path, accelerator: Accelerator
    ) -> None:
        self.config, self.device, self.codec = config, accelerator.device, codec
        if isinstance(codec, nn.Module):
            codec.to(self.device)
        bf16 = config.bf16_on(accelerator.device)
        self.latents: CleanLatents
        if isinstance(pictures, WholePictures):
            stored = clean_latents(codec, pictures.images, cache, accelerator, bf16)
            self.latents = StoredLatents(stored, pictures)
        else:
            self.latents = FreshLatents(codec, pictures, self.device, bf16)
        self.count = self.latents.count
        self.held_out = self.latents.held_out(_VALIDATION_IMAGES)
        channels, *sides = self.held_out.shape[1:]
        grain = 2 ** (len(config.widths) - 1)
        if any(side % grain for side in sides):
            raise BadInput(
                f"Latents of {sides[0]}×{sides[1]} cells do not halve {len(config.widths) - 1} times. Use "
                "fewer widths or another size."
            )
        self.net: nn.Module = _initial(config, channels)

    def loss(self, net: nn.Module, index: Tensor, rng: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        z = self.latents.draw(index, rng)
        t = torch.sigmoid(self.config.time_mean + self.config.time_std * torch.randn(len(z), generator=rng))
        noise = torch.randn(z.shape, generator=rng)
        return self._error(net, z, noise, t), {}

    def _error(self, net: nn.Module, z: Tensor, noise: Tensor, t: Tensor) -> Tensor:
        z, noise, t = z.to(self.device), noise.to(self.device), t.to(self.device)
        w = t[:, None, None, None]
        return (net((1 - w) * z + w * noise, t).float() - (noise - z)).square().mean()

    def validate(self, net: nn.Module) -> dict[str, float]:
        """The training loss on held-out latents, at times that stand at even quantiles and with noise that
        stays the same.
        """
        rng = torch.Generator().manual_seed(derive(self.config.seed, -4))
        n = len(self.held_out)
        quantiles = (torch.randperm(n, generator=rng) + 0.5) / n
        times = torch.sigmoid(self.config.time_mean + self.config.time_std * torch.special.ndtri(quantiles))
        errors = []
        for i in range(0, n, 32):
            z = self.held_out[i : i + 32]
            errors.append(
                self._error(net, z, torch.randn(z.shape, generator=rng), times[i : i + 32]) * len(z)
            )
        return {"loss": torch.stack(errors).sum().item() / n}


def train_prior(config: PriorTraining, codec: Codec | None = None) -> Trained:
    """Train, and export a whole model (codec, prior, config) to OUT/model; `codec` stands in for
    config.model's.
    """
    with started(config, config.cache) as start:
        chosen = codec or load_codec(config.model)
        pictures = start.pictures(config.data, config, config.mirror)
        recipe = PriorRecipe(chosen, pictures, config, start.cache, start.accelerator)
        source = None if codec else codec_folder(config.model)
        return start.train(recipe, config, lambda outcome: _export(outcome, recipe, config, source))


def _initial(config: PriorTraining, channels: int) -> nn.Module:
    wanted: dict[str, Any] = {"channels": channels, "widths": list(config.widths), "blocks": config.blocks}
    wanted |= {"kind": "local"} if config.kind == "local" else {"attend_from": config.attend_from}
    if config.start is None:
        return velocity_net(wanted)
    from paseo.models import load_model

    prior = load_model(config.start).prior
    if not isinstance(prior, EmbeddedPrior):
        raise BadInput(f"The prior of {config.start} is a {type(prior).__name__}, expected {wanted}.")
    net = prior.net
    has = {k: v for k, v in net.config.items() if k in wanted or k == "kind"}
    if has != wanted:
        raise BadInput(f"The prior of {config.start} is {has}, expected {wanted}.")
    return net.requires_grad_(True).train()


def _export(outcome: Trained, recipe: PriorRecipe, config: PriorTraining, source: Path | None) -> None:
    net = half(outcome.net)
    assert isinstance(net, FlowUNet | LocalUNet)
    with torch.no_grad():
        stored = recipe.validate(net.to(recipe.device))
    folder, name = config.out / EXPORT, config.name or config.out.name
    digests = {"prior.safetensors": write_weights(net, folder / "prior.safetensors")}
    base: dict[str, Any] = {
        "name": name,
        "latent_space": latent_space_of(recipe.codec, config.model),
        "size": config.crops[0] if config.crops else config.size,
    }
    if source is not None:
        digests |= copy_parts(source, folder, "codec", "sketch")
        base = read_json(source / "config.json") | base
    summary = outcome.summary | {
        "validation": stored,
        "images": recipe.count,
        "codec": codec_digest(recipe.codec),
        "settings": config.public(),
    }
    write_model_config(folder, base, "prior", {"net": net.config, "shift": 1.0}, summary, digests)
