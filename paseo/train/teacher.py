"""Learning from another operator instead of from measurements: a lean network imitates the one it replaces.

    L(ψ) = E ‖ H_ψ(z + v, s, c) − H_teacher(z + v, s, c) ‖₁ ,      v ~ N(0, δ² I),   δ ~ U(0, 0.5) per sample

Nothing is degraded or encoded, so a step costs two small networks. v leads away from the clean latents, to
where a sampler asks, and makes the two agree in how they change and not only in what they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from paseo.base import Codec, Degradation
from paseo.degrade import task
from paseo.errors import BadInput
from paseo.operators.net import OperatorNet
from paseo.operators.store import load_operator
from paseo.train.latents import codec_digest

SPREAD = 0.5  # largest δ, in units of the latents


class Teacher:
    """The operator to imitate, with the latents it is asked about."""

    def __init__(
        self, folder: Path, codec: Codec, family: bool, device: torch.device, bf16: bool, local: bool = False
    ) -> None:
        net = load_operator(folder, codec_hash=codec_digest(codec), device=device)
        if net.serves_family != family:
            kind = "a family" if net.serves_family else "one degradation"
            raise BadInput(f"The teacher {folder} is an operator of {kind}: train a student of the same.")
        if net.spec.family is not None and net.spec.family.local != local:
            wanted = "--local" if net.spec.family.local else "--no-local"
            raise BadInput(f"The teacher {folder} was trained with {wanted}: give it to the student, too.")
        self.net: OperatorNet = net.to(memory_format=torch.channels_last)  # ty: ignore[no-matching-overload]  (not in torch's stub)
        self.device, self.bf16 = device, bf16

    @torch.no_grad()
    def __call__(
        self,
        z: Tensor,
        s: Tensor,
        rng: torch.Generator,
        c: Tensor | None = None,
        seen: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """(z + v, H_teacher(z + v))."""
        delta = SPREAD * torch.rand(len(z), 1, 1, 1, generator=rng)
        z = z + (delta * torch.randn(z.shape, generator=rng)).to(z)
        z = z.contiguous(memory_format=torch.channels_last)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
            return z, self.net(z, s, c, seen).float()


class Specialists:
    """Operators of single degradations, whose knowledge a family's operator takes over beside what its own
    measurements tell: at their degradation it is to answer as they do.
    """

    def __init__(self, folders: Sequence[str], codec: Codec, device: torch.device, bf16: bool) -> None:
        self.teachers = [Teacher(Path(folder), codec, False, device, bf16) for folder in folders]
        self.degradations: list[Degradation] = [
            task(t.net.spec.degradation).degradation for t in self.teachers
        ]

    def __call__(
        self, z: Tensor, s: Tensor, rng: torch.Generator
    ) -> tuple[Degradation, Tensor, Tensor, Tensor]:
        """One of them at random: its degradation, the latents, the noise it was asked about, its answer."""
        i = int(torch.randint(len(self.teachers), (1,), generator=rng))
        s = s.clamp(max=2 * self.teachers[i].net.spec.unit_noise_range[1])  # what it was trained on
        z, answer = self.teachers[i](z, s, rng)
        return self.degradations[i], z, s, answer
