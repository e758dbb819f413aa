"""How the embedded codec is trained: reconstruction that a person and LPIPS find alike, from latents that
forgive noise.

    L = |D(z + κ·std(z)·n) − x|₁ + a |∇D(…) − ∇x|₁ + b LPIPS(D(…), x) + c (mean(z)² + (std(z) − 1)²), z = E(x)

The noise κ makes the decoder smooth at the scale of a prior's errors; the last term only keeps the latents
near unit scale. After training, the statistics of the training latents are stored with the weights, so that
latents are zero-mean and unit-variance per channel.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from paseo.codecs.embedded import EmbeddedCodec
from paseo.codecs.net import AutoencoderNet
from paseo.errors import BadInput
from paseo.metrics.lpips import LPIPS, load_lpips
from paseo.setting import values_of
from paseo.train.config import LoopConfig, budget, option
from paseo.train.export import codec_folder, half, load_codec, write_model_config, write_weights
from paseo.train.loop import Trained
from paseo.train.pictures import CROPS_HELP, DATA_HELP, Pictures, check_crops
from paseo.train.splits import HELP
from paseo.train.start import started

_VALIDATION_IMAGES = 64
_STATISTICS_IMAGES = 2048
FACTOR = 8  # image pixels per latent cell and side
EXPORT = "model"  # folder of the exported weights below OUT


@dataclass(frozen=True, kw_only=True)
class CodecTraining(LoopConfig):
    """Options of `paseo train codec`."""

    data: str = option(..., DATA_HELP)
    size: int = option(128, "Side of the images in pixels.")
    crop: int | None = option(None, "Train on random windows of this side of the images at SIZE.")
    crops: tuple[int, ...] = option((), CROPS_HELP)
    channels: int = option(16, "Latent channels.")
    start: str | None = option(
        None, "Codec whose weights are the starting point: an embedded model or a folder."
    )
    name: str | None = option(None, "Name of the latent space; the name of OUT unless given.")
    split: str = option("auto", HELP)
    gradient_weight: float = option(0.2, "Weight a of the ℓ1 difference of image gradients.")
    lpips_weight: float = option(0.3, "Weight b of LPIPS (AlexNet).")
    scale_weight: float = option(1e-3, "Weight c of the pull of latents towards zero mean and unit variance.")
    latent_noise: float = option(0.05, "κ, std of the noise on latents, in units of each channel's own std.")
    weight_decay: float = option(1e-4, "Decoupled weight decay (AdamW).", "[0, 10)")
    beta2: float = option(0.99, "Adam's second-moment decay.", "[0, 1)")
    cache: Path | None = budget(None, "Folder for decoded images, shared by runs; OUT/cache unless given.")

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "data", str(self.data))
        check_crops(self.crops, FACTOR)
        if self.crops and self.crop is not None:
            raise BadInput(
                "Give crop (windows of images at SIZE) or crops (of pictures of any size), not both."
            )
        for name, side in (("size", self.size), ("crop", self.crop)):
            if side is not None and (side < 16 or side % FACTOR):
                raise BadInput(f"{name} is {side}, expected a multiple of {FACTOR} from 16.")
        if self.crop is not None and self.crop > self.size:
            raise BadInput(f"crop is {self.crop}, expected at most the size {self.size}.")
        if not 1 <= self.channels <= 256:
            raise BadInput(f"channels is {self.channels}, expected 1 to 256.")
        weights = values_of(self, "gradient_weight", "lpips_weight", "scale_weight", "latent_noise")
        for name, value in weights.items():
            if not 0 <= value <= 1e3:
                raise BadInput(f"{name} is {value}, expected 0 or more.")


class NoisyAutoencoder(nn.Module):
    """x, n ↦ E(x) and D(E(x) + κ·std·n), as one call for distributed training."""

    def __init__(self, net: AutoencoderNet, latent_noise: float) -> None:
        super().__init__()
        self.net, self.latent_noise = net, latent_noise

    def forward(self, x: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        z = self.net.encoder(x).float()
        scale = self.latent_noise * z.detach().std((0, 2, 3), keepdim=True)
        return z, self.net.decoder(z + scale * noise).float()


class CodecRecipe:
    """The loss and the validation of the autoencoder."""

    def __init__(self, pictures: Pictures, config: CodecTraining, device: torch.device) -> None:
        self.pictures, self.config, self.device = pictures, config, device
        self.held_out, self.count = pictures.held_out(_VALIDATION_IMAGES), pictures.count
        self.net: nn.Module = NoisyAutoencoder(_initial(config), config.latent_noise)
        self.net.to(memory_format=torch.channels_last)  # ty: ignore[no-matching-overload]  (torch's stub lacks it)
        self.lpips: LPIPS | None = load_lpips("alex").to(device) if config.lpips_weight else None

    def loss(self, net: nn.Module, index: Tensor, rng: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        x = self.pictures.draw(index, rng)
        x = _cropped(x, self.config.crop, rng).to(self.device, memory_format=torch.channels_last)
        noise = torch.randn(
            len(x), self.config.channels, x.shape[2] // FACTOR, x.shape[3] // FACTOR, generator=rng
        )
        z, r = net(x, noise.to(self.device))
        c = self.config
        l1 = (r - x).abs().mean()
        spread = z.mean((0, 2, 3)).square().mean() + (z.std((0, 2, 3)) - 1).square().mean()
        loss = l1 + c.gradient_weight * _gradient_error(r, x) + c.scale_weight * spread
        numbers = {"l1": l1.detach()}
        if self.lpips is not None:
            perceived = self.lpips(r, x).float().mean()
            loss, numbers["lpips"] = loss + c.lpips_weight * perceived, perceived.detach()
        return loss, numbers

    def validate(self, net: nn.Module) -> dict[str, float]:
        """PSNR in dB and LPIPS of 8-bit reconstructions of held-out images."""
        assert isinstance(net, NoisyAutoencoder)
        squares, distances = [], []
        for block in self.held_out.split(16):
            x = block.to(self.device)
            r = ((net.net.decoder(net.net.encoder(x)).clamp(-1, 1) + 1) * 127.5).round() / 127.5 - 1
            squares.append(((r - x) / 2).square().mean((1, 2, 3)))
            distances.append(self.lpips(r, x) if self.lpips is not None else x.new_zeros(0))
        numbers = {"psnr": (-10 * torch.cat(squares).clamp_min(1e-10).log10()).mean().item()}
        return numbers | ({"lpips": torch.cat(distances).mean().item()} if self.lpips is not None else {})

    @torch.no_grad()
    def set_statistics(self, net: AutoencoderNet) -> None:
        """Per-channel mean and standard deviation of the training latents."""
        z = torch.cat([net.encoder(block) for block in self.pictures.sample(_STATISTICS_IMAGES).split(32)])
        net.mean.copy_(z.mean((0, 2, 3), keepdim=True))
        net.std.copy_(z.std((0, 2, 3), keepdim=True).clamp_min(1e-4))


def train_codec(config: CodecTraining) -> Trained:
    """Train, and export the averaged weights with their statistics to OUT/model."""
    with started(config, config.cache) as start:
        recipe = CodecRecipe(start.pictures(config.data, config), config, start.accelerator.device)
        return start.train(recipe, config, lambda outcome: _export(outcome, recipe, config))


def _initial(config: CodecTraining) -> AutoencoderNet:
    if config.start is None:
        return AutoencoderNet(config.channels)
    if codec_folder(config.start) is None:
        raise BadInput(
            f"start is {config.start!r}, expected an embedded model or a folder with codec.safetensors and "
            "config.json."
        )
    codec = load_codec(config.start)
    assert isinstance(codec, EmbeddedCodec)  # whose folder it is
    net = codec.net
    if net.config["channels"] != config.channels:
        raise BadInput(
            f"{config.start} has {net.config['channels']} channels, expected {config.channels}. Set "
            "channels to match."
        )
    return net.requires_grad_(True)


def _export(outcome: Trained, recipe: CodecRecipe, config: CodecTraining) -> None:
    wrapped = outcome.net
    assert isinstance(wrapped, NoisyAutoencoder)
    recipe.set_statistics(wrapped.net)
    half(wrapped.net)
    recipe.net = wrapped.to(recipe.device)
    with torch.no_grad():
        stored = recipe.validate(wrapped.eval())
    folder, name = config.out / EXPORT, config.name or config.out.name
    digest = write_weights(wrapped.net, folder / "codec.safetensors")
    summary = outcome.summary | {
        "validation": stored,
        "images": recipe.count,
        "batch_size": config.batch_size,
        "settings": config.public(),
    }
    size = config.crops[0] if config.crops else config.size
    base = {"name": name, "latent_space": name, "size": size}
    write_model_config(
        folder, base, "codec", dict(wrapped.net.config), summary, {"codec.safetensors": digest}
    )


def _cropped(x: Tensor, side: int | None, rng: torch.Generator) -> Tensor:
    """One random window for the whole batch."""
    if side is None or side == x.shape[-1]:
        return x
    top, left = torch.randint(x.shape[-1] - side + 1, (2,), generator=rng).tolist()
    return x[:, :, top : top + side, left : left + side]


def _gradient_error(a: Tensor, b: Tensor) -> Tensor:
    d = a - b
    return (d[..., 1:] - d[..., :-1]).abs().mean() + (d[..., 1:, :] - d[..., :-1, :]).abs().mean()
