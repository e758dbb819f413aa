"""One operator for many degradations: parameters c are drawn with every sample.

    L(ψ) = E ‖ H_ψ(E(x), s, c) − E(lift(A_c(x) + s·n)) ‖₁

The pairs are made on the fly or encoded beforehand (paseo.train.samples). After training the error at a set
of known degradations is measured on held-out pictures and stored, so that the solver can take its r from it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from paseo.base import Codec, Degradation
from paseo.degrade import Task, task
from paseo.degrade.family import PARAMETERS, SUBCELLS, condition_of, numbers_of, parts_of
from paseo.operators.config import OperatorConfig, check_widths
from paseo.operators.family import ErrorAt, Family
from paseo.operators.net import OperatorNet
from paseo.operators.store import adopt
from paseo.train.draws import NOISE, RANGES, FamilyDraw
from paseo.train.latents import codec_digest, encode, latent_space_of
from paseo.train.loop import Trained, derive
from paseo.train.pictures import Pictures
from paseo.train.samples import FreshSamples, Samples, StoredSamples, measured
from paseo.train.start import starting_weights
from paseo.train.teacher import Specialists, Teacher

if TYPE_CHECKING:
    from accelerate import Accelerator

    from paseo.train.operator_options import OperatorTraining

_VALIDATION_IMAGES = 24
_EXPORT_IMAGES = 96  # for the errors that are stored
_VALIDATION_NOISE = 0.02  # σ_y = 0.01 of [0,1] images
_BLOCK = 24


class FamilyRecipe:
    """The loss and the validation of a family's operator."""

    def __init__(
        self,
        codec: Codec,
        pictures: Pictures,
        draw: FamilyDraw,
        config: OperatorTraining,
        cache: Path,
        accelerator: Accelerator,
    ) -> None:
        self.codec, self.pictures, self.draw, self.config = codec, pictures, draw, config
        self.device, bf16 = accelerator.device, config.bf16_on(accelerator.device)
        if isinstance(codec, nn.Module):
            codec.to(self.device)
        fresh = FreshSamples(codec, pictures, draw, self.device, bf16)
        self.samples: Samples = fresh
        self.count = pictures.count
        self.teacher = (
            Teacher(config.teacher, codec, True, self.device, bf16, config.local) if config.teacher else None
        )
        self.specialists = (
            Specialists(config.specialists.split(","), codec, self.device, bf16)
            if config.specialists
            else None
        )
        if config.measurements or self.teacher is not None:
            self.count = config.examples or pictures.count
            self.samples = StoredSamples(
                fresh, self.count, config.measurements, config.seed, cache, accelerator
            )
        self.images = pictures.held_out(_EXPORT_IMAGES)
        channels = encode(codec, self.images[:1], self.device, False).shape[1]
        self.net: nn.Module = _initial(config, channels, codec)
        self.net.to(memory_format=torch.channels_last)  # ty: ignore[no-matching-overload]  (torch's stub lacks it)
        self._clean = torch.empty(0)  # encodings of held-out pictures
        self._checks: dict[str, Tensor] = {}  # and of their measurements, by probe

    def loss(self, net: nn.Module, index: Tensor, rng: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        sample = self.samples(index, rng)
        c, seen = self.told(sample.degradations, (sample.side, sample.side))
        z = sample.z.contiguous(memory_format=torch.channels_last)
        s, target = sample.s.to(self.device), sample.target
        if self.teacher is not None:
            z, target = self.teacher(z, s, rng, c, seen)
        error = net(z, s, c, seen).float() - target
        loss = error.abs().mean()
        if self.specialists is not None:  # half as many questions again, at the degradation of one of them
            half = len(z) // 2 or 1
            degradation, z, s, target = self.specialists(z[:half], s[:half], rng)
            c, seen = self.told([degradation], (sample.side, sample.side))
            loss = loss + (net(z, s, c, seen).float() - target).abs().mean()
        return loss, {"rms": error.detach().square().mean().sqrt()}

    def told(self, degradations: list[Degradation], size: tuple[int, int]) -> tuple[Tensor, Tensor]:
        """c (B, P) and the seen shares (B, n², h, w) of one degradation per picture of (H, W) pixels."""
        factor = self.codec.factor
        conditions = [condition_of(a, factor, size) for a in degradations]
        c = torch.tensor([[told.numbers[name] for name in PARAMETERS] for told in conditions])
        everything = torch.ones(1, SUBCELLS**2, size[0] // factor, size[1] // factor)
        seen = torch.cat([everything if told.seen is None else told.seen for told in conditions])
        return c.to(self.device), seen.to(self.device)

    def validate(self, net: nn.Module) -> dict[str, float]:
        """Ratio: mean over the probes of the RMS error over that of doing nothing; and the RMS of each."""
        rms, ratios = {}, []
        for name in self.draw.probes:
            z, target = self._probe(name, _VALIDATION_IMAGES)
            error = self._errors(net, name, z, target).square().mean().sqrt().item()
            ratios.append(error / max((z - target).square().mean().sqrt().item(), 1e-12))
            rms[name] = error
        return {"ratio": sum(ratios) / len(ratios)} | rms

    @torch.no_grad()
    def errors(self, net: nn.Module) -> tuple[ErrorAt, ...]:
        """RMS of H(z) − E(y) per channel at each probe, noise included: what the solver may take r from."""
        found = []
        for name in self.draw.probes:
            z, target = self._probe(name, len(self.images))
            each = self._errors(net, name, z, target).square().mean((0, 2, 3)).sqrt().clamp_min(1e-5).tolist()
            numbers = {k: round(v, 5) for k, v in numbers_of(parts_of(task(name))).items() if v}
            found.append(ErrorAt(name, numbers, tuple(round(v, 5) for v in each)))
        return tuple(found)

    def _errors(self, net: nn.Module, name: str, z: Tensor, target: Tensor) -> Tensor:
        known = task(name)
        c, seen = self.told([known.degradation], (self.images.shape[2], self.images.shape[3]))
        s = torch.full((1,), probe_noise(known), device=self.device)
        blocks = zip(z.split(_BLOCK), target.split(_BLOCK), strict=True)
        return torch.cat([net(a, s.expand(len(a)), c, seen) - y for a, y in blocks])

    def _probe(self, name: str, count: int) -> tuple[Tensor, Tensor]:
        """Clean latents and encoded measurements of held-out pictures, always the same."""
        x, known = self.images[:count], task(name)
        if len(self._clean) < len(x):
            self._clean = self._encode(x)
        if name not in self._checks or len(self._checks[name]) < len(x):
            rng = torch.Generator().manual_seed(derive(self.config.seed, -4))
            s = torch.full((len(x),), probe_noise(known))
            self._checks[name] = self._encode(measured(known.degradation, x, s, rng))
        return self._clean[: len(x)], self._checks[name][: len(x)]

    def _encode(self, x: Tensor) -> Tensor:
        return torch.cat([encode(self.codec, block, self.device, False) for block in x.split(_BLOCK)])


def probe_noise(known: Task) -> float:
    """s of a probe: what the task says, or the paper's."""
    return 2 * known.sigma_y if known.sigma_y > 0.01 else _VALIDATION_NOISE


def _initial(config: OperatorTraining, channels: int, codec: Codec) -> OperatorNet:
    family = Family(PARAMETERS, RANGES, SUBCELLS, config.local, reach=config.reach)
    spec = OperatorConfig(channels, family=family, widths=check_widths(config.widths), pooled=config.pooled)
    net = OperatorNet(spec)
    if config.start is None:
        return net
    return adopt(net, starting_weights(config.start, codec, config.task or ""))


def export_family(outcome: Trained, recipe: FamilyRecipe, config: OperatorTraining, folder: Path) -> None:
    """The averaged weights with the family's config and its errors."""
    from paseo.operators.store import save_operator

    net = outcome.net
    assert isinstance(net, OperatorNet)
    family = Family(
        PARAMETERS, RANGES, SUBCELLS, config.local, recipe.errors(net.to(recipe.device)), config.reach
    )
    net.to(memory_format=torch.contiguous_format)  # ty: ignore[no-matching-overload]  (torch's stub lacks it)
    net.spec = OperatorConfig(
        channels=net.spec.channels,
        latent_space=latent_space_of(recipe.codec, config.model),
        vae_hash=codec_digest(recipe.codec),
        degradation=config.name or "family",
        degradation_params={"kinds": list(recipe.draw.kinds)},
        noise_range=(0.0, NOISE),
        noise_unit="signed",
        training=outcome.summary | {"images": recipe.count, "settings": config.public()},
        family=family,
        widths=net.spec.widths,
        pooled=net.spec.pooled,
    )
    save_operator(net, folder, half=True)
