"""The ℓ1 recipe of the learned latent operator, one per degradation and latent space.

    L(ψ) = E ‖ H_ψ(E(x), s) − E(lift(A(x) + s·n)) ‖₁ ,      s ~ U(0, 0.04) per sample on [-1,1] images

"Latent-operator training details" of the paper, after SILO (Raphaeli et al., 2025). The codec is frozen; the
operator never sees a diffusion state. Clean latents are encoded once. Measurements are encoded as they are
needed, with fresh noise, or `measurements` times per image beforehand. `recipe="paper"` is Adam with a
constant 1e-4, batches of 16 and no averaging, for a long run; the defaults (1e-3 with warm-up and cosine,
averaged weights) reach further on a small budget.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from torch import Tensor, nn

from paseo.base import Codec
from paseo.errors import BadInput
from paseo.operators.config import WIDTHS, OperatorConfig, check_widths
from paseo.operators.net import OperatorNet
from paseo.setting import values_of
from paseo.train.config import LoopConfig, budget, option
from paseo.train.data import ImageSet, load_images
from paseo.train.draws import FamilyDraw, family_of
from paseo.train.export import load_codec
from paseo.train.family import FamilyRecipe, export_family
from paseo.train.jacobian import secant_loss
from paseo.train.latents import (
    Latents,
    clean_latents,
    codec_digest,
    digest,
    encode,
    encode_rows,
    latent_space_of,
)
from paseo.train.loop import Trained, derive, run, session
from paseo.train.measure import ByExample, Measurement, by_name, mirrored, noisy
from paseo.train.pairs import load_pairs
from paseo.train.pictures import CROPS_HELP, DATA_HELP, check_crops, load_pictures
from paseo.train.splits import HELP, split

if TYPE_CHECKING:
    from accelerate import Accelerator

_VALIDATION_IMAGES = 128
_VALIDATION_NOISE = 0.02  # σ_y = 0.01 of [0,1] images
EXPORT = "operator"  # folder of the exported operator below OUT
PAPER: dict[str, float | str | None] = {  # in place of the defaults, for recipe="paper"
    "lr": 1e-4,
    "schedule": "constant",
    "warmup": 0,
    "ema": 0.0,
    "clip": None,
    "weight_decay": 0.0,
    "beta2": 0.999,
    "batch_size": 16,
}


@dataclass(frozen=True, kw_only=True)
class OperatorTraining(LoopConfig):
    """Options of `paseo train operator`."""

    model: str = option(
        "faces-128", "Whose latent space: an embedded model, a folder with a codec, or a diffusers model."
    )
    data: str | None = option(None, "Clean " + DATA_HELP)
    task: str | None = option(
        None,
        "The degradation: sr4, sr8, blur, inpaint, jpeg, with numbers such as blur:2.5 or sr:2,jpeg:60, "
        "module:function of images (B,3,H,W) in [0,1]; or family, for one operator that is told the numbers "
        "(family:jpeg+sr for some kinds).",
    )
    pairs: tuple[Path, Path] | None = option(
        None, "The degradation by example: a folder of clean and one of degraded images, same stems."
    )
    recipe: Literal["default", "paper"] = option(
        "default",
        "paper: Adam at a constant 1e-4, no warm-up, clipping or averaging; your own options stay.",
    )
    start: Path | None = option(None, "Folder of an operator whose weights are the starting point.")
    name: str | None = option(
        None, "Name of the degradation in the exported config; the task's unless given."
    )
    size: int = option(128, "Side of the training images in pixels.")
    crops: tuple[int, ...] = option((), CROPS_HELP + " Of a family only.")
    split: str = option("auto", HELP)
    local: bool = option(
        False, "Of a family: no positions and no statistics over the picture, for canvases of any size."
    )
    widths: tuple[int, ...] = option(
        WIDTHS, "Channels of the network's three levels; 32,64,96 costs 0.6 of the paper's, 24,48,64 0.45."
    )
    noise: float = option(
        0.04, "Largest training noise s on [-1,1] images; twice the largest σ_y it will be used with."
    )
    jacobian: float = option(
        0.0,
        "Weight of matching how the measurement changes along random directions; 0 is the paper's recipe.",
    )
    jacobian_step: float = option(0.3, "Standard deviation of those directions, in units of the latents.")
    measurements: int = option(
        0, "Noisy measurements per image to encode beforehand; 0 encodes fresh ones in every step."
    )
    mirror: bool = option(
        True, "Mirror images at random; off where left and right differ for the degradation."
    )
    cache: Path | None = budget(
        None, "Folder for decoded images and latents, shared by runs; OUT/cache unless given."
    )

    def __post_init__(self) -> None:
        if self.recipe not in ("default", "paper"):
            raise BadInput(f"recipe is {self.recipe!r}, expected default or paper.")
        given = values_of(self)
        for f in fields(self) if self.recipe == "paper" else ():
            if f.name in PAPER and given[f.name] == f.default:
                object.__setattr__(self, f.name, PAPER[f.name])
        super().__post_init__()
        object.__setattr__(self, "data", None if self.data is None else str(self.data))
        check_crops(self.crops, 8)
        check_widths(self.widths)
        family = self.task is not None and family_of(self.task) is not None
        for name, value in (("crops", self.crops), ("local", self.local)):
            if value and not family:
                raise BadInput(f"{name} belongs to a family: give it with --task family.")
        for name, value in (("measurements", self.measurements), ("jacobian", self.jacobian)):
            if value and family:
                raise BadInput(f"{name} is for one degradation: a family draws a new one for every sample.")
        if (self.task is None) == (self.pairs is None):
            raise BadInput(
                "An operator needs one degradation: a task (or module:function), or pairs of clean and "
                "degraded images."
            )
        if (self.data is None) != (self.pairs is not None):
            raise BadInput("Give clean images as data with a task; pairs bring their own and take no data.")
        if not 0 <= self.noise <= 2:
            raise BadInput(
                f"noise is {self.noise}, expected 0 to 2, the std on [-1,1] images; the paper's is 0.04."
            )
        if not 0 <= self.measurements <= 64:
            raise BadInput(f"measurements is {self.measurements}, expected 0 to 64.")
        if not (0 <= self.jacobian <= 1000 and 0 < self.jacobian_step <= 100):
            raise BadInput(
                f"jacobian is {self.jacobian} with steps of {self.jacobian_step}, expected 0 to 1000 and a "
                "step above 0 to 100."
            )
        if self.jacobian and self.pairs is not None:
            raise BadInput(
                "jacobian needs a degradation that can be applied to new images; pairs only show it on "
                "theirs."
            )


class OperatorRecipe:
    """The loss and the validation of one operator."""

    def __init__(
        self,
        codec: Codec,
        images: ImageSet,
        measurement: Measurement,
        config: OperatorTraining,
        cache: Path,
        accelerator: Accelerator,
    ) -> None:
        self.codec, self.images, self.measurement, self.config = codec, images, measurement, config
        self.device, self.bf16 = accelerator.device, config.bf16_on(accelerator.device)
        if isinstance(codec, nn.Module):
            codec.to(self.device)
        parts = split(images.names, config.split, images.homes)
        self.train, self.held_out = parts["train"], parts["validation"][:_VALIDATION_IMAGES]
        self.count = len(self.train)
        self.latents = clean_latents(codec, images, cache, accelerator, self.bf16)
        self.targets = self._encode_measurements(cache, accelerator) if config.measurements else None
        self.net: nn.Module = _initial(config, self.latents.shape[0], codec)
        self._checks: tuple[Tensor, Tensor, Tensor] | None = None

    def loss(self, net: nn.Module, index: Tensor, rng: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        images = self.train[index.numpy()]
        mirror = (torch.rand(len(images), generator=rng) < 0.5) & self.config.mirror
        z = self.latents(images, mirror.numpy().astype(int)).to(self.device)
        if self.targets is None:
            s = self.config.noise * torch.rand(len(images), generator=rng)
            target = self._measure(images, mirror, s, rng)
        else:
            s, target = self._stored(images, mirror, rng)
        s = s.to(self.device)
        error = net(z, s).float() - target
        loss, numbers = error.abs().mean(), {"rms": error.detach().square().mean().sqrt()}
        if self.config.jacobian:
            numbers["jacobian"] = secant_loss(net, self._chain, z, s, self.config.jacobian_step, rng)
            loss = loss + self.config.jacobian * numbers["jacobian"]
        return loss, numbers

    def _chain(self, z: Tensor) -> Tensor:
        """R(z) = E(lift(A(D(z)))), without noise."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
            x = self.codec.decode(z).float()
        nothing = torch.zeros(len(x))
        return encode(
            self.codec,
            self._lifted(np.empty(0), nothing.bool(), x, nothing, torch.Generator()),
            self.device,
            self.bf16,
        )

    def _measure(self, images: np.ndarray, mirror: Tensor, s: Tensor, rng: torch.Generator) -> Tensor:
        """E(lift(A(x) + s·n)) of fresh noise."""
        x = mirrored(self.images.batch(images), mirror).to(self.device)
        return encode(self.codec, self._lifted(images, mirror, x, s, rng), self.device, self.bf16)

    def _lifted(
        self, images: np.ndarray, mirror: Tensor, x: Tensor, s: Tensor, rng: torch.Generator
    ) -> Tensor:
        with torch.autocast(self.device.type, enabled=False):  # the measurement itself is made in float32
            y = noisy(self.measurement(images, mirror, x), s, rng)
            return self.measurement.lift(y, (x.shape[2], x.shape[3]))

    # Stored measurements: the noise level of variant 2k + mirror of image i is a function of (seed, i, k).

    def _encode_measurements(self, cache: Path, accelerator: Accelerator) -> Latents:
        count = self.config.measurements

        def row(x: Tensor, position: int) -> Tensor:
            images = np.arange(position, position + len(x))
            rows = []
            for k in range(count):
                rng = torch.Generator().manual_seed(derive(self.config.seed, position, k, -3))
                for flip in (False, True):
                    rows.append(
                        self._measure(
                            images, torch.full((len(x),), flip), self._stored_levels(images, k), rng
                        )
                    )
            return torch.stack(rows, dim=1)

        key = digest(
            self.images.digest,
            codec_digest(self.codec),
            self.measurement.identity,
            self.config.noise,
            count,
            self.config.seed,
            self.bf16,
        )
        return encode_rows(self.images, row, cache, key, accelerator)

    def _stored_levels(self, images: np.ndarray, k: int) -> Tensor:
        return torch.tensor(
            [self.config.noise * derive(self.config.seed, int(i), k) / 2**63 for i in images],
            dtype=torch.float32,
        )

    def _stored(self, images: np.ndarray, mirror: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        assert self.targets is not None
        k = torch.randint(self.config.measurements, (len(images),), generator=rng)
        s = torch.cat([self._stored_levels(images[i : i + 1], int(k[i])) for i in range(len(images))])
        return s, self.targets(images, (2 * k + mirror.long()).numpy()).to(self.device)

    # Validation: held-out images, exact encodings in float32, σ_y = 0.01.

    def validate(self, net: nn.Module) -> dict[str, float]:
        """l1: to noisy encodings, as in training; rms: to noise-free ones; ratio: rms over the one of doing
        nothing.
        """
        z, noise_free, noisy_ones = self._validation_set()
        s = torch.full((1,), min(_VALIDATION_NOISE, self.config.noise), device=self.device)
        h = torch.cat([net(block, s.expand(len(block))) for block in z.split(32)])
        rms = (h - noise_free).square().mean().sqrt().item()
        nothing = (z - noise_free).square().mean().sqrt().item()
        return {"l1": (h - noisy_ones).abs().mean().item(), "rms": rms, "ratio": rms / max(nothing, 1e-12)}

    @torch.no_grad()
    def residual(self, net: nn.Module) -> tuple[float, ...]:
        """RMS of H(z) − E(y) in each channel: what the solver may take the noise of its measurement to be."""
        z, _, noisy_ones = self._validation_set()
        s = torch.full((len(z),), min(_VALIDATION_NOISE, self.config.noise), device=self.device)
        errors = torch.cat(
            [net(a, b) - y for a, b, y in zip(z.split(32), s.split(32), noisy_ones.split(32), strict=True)]
        )
        return tuple(round(v, 5) for v in errors.square().mean((0, 2, 3)).sqrt().clamp_min(1e-5).tolist())

    def _validation_set(self) -> tuple[Tensor, Tensor, Tensor]:
        if self._checks is None:
            rng = torch.Generator().manual_seed(derive(self.config.seed, -4))
            blocks = [self.held_out[i : i + 16] for i in range(0, len(self.held_out), 16)]
            rows = [self._check_block(block, rng) for block in blocks]
            self._checks = (
                torch.cat([r[0] for r in rows]),
                torch.cat([r[1] for r in rows]),
                torch.cat([r[2] for r in rows]),
            )
        return self._checks

    def _check_block(self, block: np.ndarray, rng: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        x = self.images.batch(block).to(self.device)
        straight, level = torch.zeros(len(block), dtype=torch.bool), min(_VALIDATION_NOISE, self.config.noise)
        lifted = [self._lifted(block, straight, x, torch.full((len(block),), s), rng) for s in (0.0, level)]
        z, noise_free, noisy_ones = (encode(self.codec, v, self.device, False) for v in (x, *lifted))
        return z, noise_free, noisy_ones


def _initial(config: OperatorTraining, channels: int, codec: Codec) -> OperatorNet:
    from paseo.operators.store import load_operator

    net = OperatorNet(OperatorConfig(channels, widths=check_widths(config.widths)))
    if config.start is not None:
        net.load_state_dict(load_operator(config.start, codec_hash=codec_digest(codec)).state_dict())
    return net


def train_operator(config: OperatorTraining, codec: Codec | None = None) -> Trained:
    """Train, and export float16 averaged weights with their config to OUT/operator; `codec` stands in for
    config.model's.
    """
    with session(config) as accelerator:
        codec = codec or load_codec(config.model)
        cache = config.cache or config.out / "cache"
        if draw := family_of(config.task or ""):
            return _train_family(config, codec, draw, cache, accelerator)
        with accelerator.main_process_first():
            images, measurement = _examples(config, cache)
        recipe = OperatorRecipe(codec, images, measurement, config, cache, accelerator)
        outcome = run(recipe, config, accelerator)
        if accelerator.is_main_process and not outcome.interrupted:
            _export(outcome, recipe, config)
        return outcome


def _train_family(
    config: OperatorTraining, codec: Codec, draw: FamilyDraw, cache: Path, accelerator: Accelerator
) -> Trained:
    assert config.data is not None
    with accelerator.main_process_first():
        pictures = load_pictures(
            config.data,
            size=config.size,
            crops=config.crops,
            rule=config.split,
            cache=cache,
            seed=config.seed,
            mirror=config.mirror,
        )
    recipe = FamilyRecipe(codec, pictures, draw, config, accelerator)
    outcome = run(recipe, config, accelerator)
    if accelerator.is_main_process and not outcome.interrupted:
        export_family(outcome, recipe, config, config.out / EXPORT)
    return outcome


def _examples(config: OperatorTraining, cache: Path) -> tuple[ImageSet, Measurement]:
    if config.pairs is not None:
        pairs = load_pairs(Path(config.pairs[0]), Path(config.pairs[1]), config.size, cache)
        return pairs.clean, ByExample(pairs.degraded, pairs.factor, config.name or "pairs")
    assert config.data is not None
    assert config.task is not None
    measurement = by_name(config.task)  # first: a wrong name is reported before images are decoded
    return load_images(config.data, config.size, cache), measurement


def _export(outcome: Trained, recipe: OperatorRecipe, config: OperatorTraining) -> None:
    from paseo.operators.store import save_operator

    net = outcome.net
    assert isinstance(net, OperatorNet)
    net.spec = OperatorConfig(
        channels=recipe.latents.shape[0],
        latent_space=latent_space_of(recipe.codec, config.model),
        vae_hash=codec_digest(recipe.codec),
        degradation=config.name or recipe.measurement.name,
        degradation_params=recipe.measurement.params,
        noise_range=(0.0, config.noise),
        noise_unit="signed",
        residual=recipe.residual(net),
        training=outcome.summary | {"images": recipe.count, "settings": config.public()},
        widths=net.spec.widths,
    )
    save_operator(net, config.out / EXPORT, half=True)
