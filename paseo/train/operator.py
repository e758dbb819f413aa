"""The ℓ1 recipe of the learned latent operator, one per degradation and latent space.

    L(ψ) = E ‖ H_ψ(E(x), s) − E(lift(A(x) + s·n)) ‖₁ ,      s ~ U(0, 0.04) per sample on [-1,1] images

"Latent-operator training details" of the paper, after SILO (Raphaeli et al., 2025). The codec is frozen; the
operator never sees a diffusion state. Clean latents are encoded once. Measurements are encoded as they are
needed, with fresh noise, or `measurements` times per image beforehand. `recipe="paper"` is Adam with a
constant 1e-4, batches of 16 and no averaging, for a long run; the defaults (1e-3 with warm-up and cosine,
averaged weights) reach further on a small budget.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from paseo.base import Codec
from paseo.models.shipped import START as SHIPPED
from paseo.operators.config import OperatorConfig, check_widths
from paseo.operators.net import OperatorNet
from paseo.operators.store import adopt
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
from paseo.train.loop import Trained, derive
from paseo.train.measure import ByExample, Measurement, by_name, mirrored, noisy
from paseo.train.operator_options import OperatorTraining
from paseo.train.pairs import load_pairs
from paseo.train.splits import split
from paseo.train.start import Start, started, starting_weights
from paseo.train.teacher import Teacher

if TYPE_CHECKING:
    from accelerate import Accelerator

_VALIDATION_IMAGES = 128
_VALIDATION_NOISE = 0.02  # σ_y = 0.01 of [0,1] images
EXPORT = "operator"  # folder of the exported operator below OUT


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
        self.teacher = (
            Teacher(config.teacher, codec, False, self.device, self.bf16) if config.teacher else None
        )
        self.net: nn.Module = _initial(config, self.latents.shape[0], codec)
        self._checks: tuple[Tensor, Tensor, Tensor] | None = None

    def loss(self, net: nn.Module, index: Tensor, rng: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        images = self.train[index.numpy()]
        mirror = (torch.rand(len(images), generator=rng) < 0.5) & self.config.mirror
        z = self.latents(images, mirror.numpy().astype(int)).to(self.device)
        if self.teacher is not None:
            s = (self.config.noise * torch.rand(len(images), generator=rng)).to(self.device)
            z, target = self.teacher(z, s, rng)
        elif self.targets is None:
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
    net = OperatorNet(OperatorConfig(channels, widths=check_widths(config.widths), pooled=config.pooled))
    if config.start is not None:
        weights = starting_weights(config.start, codec, config.task or "")
        if str(config.start) == SHIPPED:  # a family's has parts that this one does not have
            adopt(net, weights)
        else:
            net.load_state_dict(weights)
    return net


def train_operator(config: OperatorTraining, codec: Codec | None = None) -> Trained:
    """Train, and export float16 averaged weights with their config to OUT/operator; `codec` stands in for
    config.model's.
    """
    with started(config, config.cache) as start:
        codec = codec or load_codec(config.model)
        if draw := family_of(config.task or ""):
            return _train_family(config, codec, draw, start)
        with start.accelerator.main_process_first():
            images, measurement = _examples(config, start.cache)
        recipe = OperatorRecipe(codec, images, measurement, config, start.cache, start.accelerator)
        return start.train(recipe, config, lambda outcome: _export(outcome, recipe, config))


def _train_family(config: OperatorTraining, codec: Codec, draw: FamilyDraw, start: Start) -> Trained:
    assert config.data is not None
    pictures = start.pictures(config.data, config, config.mirror)
    recipe = FamilyRecipe(codec, pictures, draw, config, start.cache, start.accelerator)
    folder = config.out / EXPORT
    return start.train(recipe, config, lambda outcome: export_family(outcome, recipe, config, folder))


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
        pooled=net.spec.pooled,
    )
    save_operator(net, config.out / EXPORT, half=True)
