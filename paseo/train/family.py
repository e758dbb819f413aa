"""One operator for many degradations: parameters c are drawn with every sample.

    L(ψ) = E ‖ H_ψ(E(x), s, c) − E(lift(A_c(x) + s·n)) ‖₁

Everything is made on the fly: the picture (or a crop of one), its degradation, the noise and both encodings;
the codec is cheap beside the operator's own gradient. After training the error at a set of known degradations
is measured on held-out pictures and stored, so that the solver can take its r from it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from paseo.base import Codec, Degradation
from paseo.degrade import Compose, Task, task
from paseo.degrade.family import PARAMETERS, SUBCELLS, condition_of, numbers_of, parts_of
from paseo.operators.config import OperatorConfig, check_widths
from paseo.operators.family import ErrorAt, Family
from paseo.operators.net import OperatorNet
from paseo.train.draws import NOISE, RANGES, FamilyDraw
from paseo.train.latents import codec_digest, encode, latent_space_of
from paseo.train.loop import Trained, derive
from paseo.train.measure import noisy
from paseo.train.pictures import Pictures

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
        accelerator: Accelerator,
    ) -> None:
        self.codec, self.pictures, self.draw, self.config = codec, pictures, draw, config
        self.device, self.bf16 = accelerator.device, config.bf16_on(accelerator.device)
        if isinstance(codec, nn.Module):
            codec.to(self.device)
        self.count = pictures.count
        self.images = pictures.held_out(_EXPORT_IMAGES)
        channels = encode(codec, self.images[:1], self.device, False).shape[1]
        self.net: nn.Module = _initial(config, channels, codec)
        self.net.to(memory_format=torch.channels_last)  # ty: ignore[no-matching-overload]  (torch's stub lacks it)
        self._checks: dict[str, tuple[Tensor, Tensor]] = {}

    def loss(self, net: nn.Module, index: Tensor, rng: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        x = self.pictures.draw(index, rng)
        degradations = [self.draw(rng, x.shape[-1]) for _ in range(len(x))]
        s = torch.tensor([self.draw.noise(rng) for _ in range(len(x))])
        lifted = torch.cat([measured(a, x[i : i + 1], s[i : i + 1], rng) for i, a in enumerate(degradations)])
        c, seen = self.told(degradations, x)
        both = encode(self.codec, torch.cat([x, lifted]), self.device, self.bf16)
        z, target = both.chunk(2)
        z = z.contiguous(memory_format=torch.channels_last)
        error = net(z, s.to(self.device), c, seen).float() - target
        return error.abs().mean(), {"rms": error.detach().square().mean().sqrt()}

    def told(self, degradations: list[Degradation], x: Tensor) -> tuple[Tensor, Tensor]:
        """c (B, P) and the seen shares (B, n², h, w) of one degradation per picture."""
        size, factor = (x.shape[2], x.shape[3]), self.codec.factor
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
        x = self.images[:1]
        c, seen = self.told([known.degradation], x)
        s = torch.full((1,), probe_noise(known), device=self.device)
        blocks = zip(z.split(_BLOCK), target.split(_BLOCK), strict=True)
        return torch.cat([net(a, s.expand(len(a)), c, seen) - y for a, y in blocks])

    def _probe(self, name: str, count: int) -> tuple[Tensor, Tensor]:
        """Clean latents and encoded measurements of held-out pictures, always the same."""
        if name not in self._checks or len(self._checks[name][0]) < min(count, len(self.images)):
            x, known = self.images[:count], task(name)
            rng = torch.Generator().manual_seed(derive(self.config.seed, -4))
            s = torch.full((len(x),), probe_noise(known))
            lifted = measured(known.degradation, x, s, rng)
            self._checks[name] = (self._encode(x), self._encode(lifted))
        z, y = self._checks[name]
        return z[:count], y[:count]

    def _encode(self, x: Tensor) -> Tensor:
        return torch.cat([encode(self.codec, block, self.device, False) for block in x.split(_BLOCK)])


def probe_noise(known: Task) -> float:
    """s of a probe: what the task says, or the paper's."""
    return 2 * known.sigma_y if known.sigma_y > 0.01 else _VALIDATION_NOISE


@torch.no_grad()
def measured(degradation: Degradation, x: Tensor, s: Tensor, rng: torch.Generator) -> Tensor:
    """lift(A(x) + s·n) in float32, with the noise that lies inside a chain."""
    with torch.autocast(x.device.type, enabled=False):
        if isinstance(degradation, Compose):
            y = degradation.draw(x, lambda v: torch.randn(v.shape, generator=rng).to(v))
        else:
            y = degradation(x)
        return degradation.lift(noisy(y, s, rng), (x.shape[2], x.shape[3]))


def _initial(config: OperatorTraining, channels: int, codec: Codec) -> OperatorNet:
    from paseo.operators.store import adopt, load_operator

    family = Family(PARAMETERS, RANGES, SUBCELLS, config.local)
    net = OperatorNet(OperatorConfig(channels, family=family, widths=check_widths(config.widths)))
    if config.start is None:
        return net
    return adopt(net, load_operator(config.start, codec_hash=codec_digest(codec)).state_dict())


def export_family(outcome: Trained, recipe: FamilyRecipe, config: OperatorTraining, folder: Path) -> None:
    """The averaged weights with the family's config and its errors."""
    from paseo.operators.store import save_operator

    net = outcome.net
    assert isinstance(net, OperatorNet)
    family = Family(PARAMETERS, RANGES, SUBCELLS, config.local, recipe.errors(net.to(recipe.device)))
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
    )
    save_operator(net, folder, half=True)
