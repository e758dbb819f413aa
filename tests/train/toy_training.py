"""A regression small enough for tests; also run as a program: python toy_training.py OUT STEPS
[CHECKPOINT_SECONDS [PAUSE]].
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from paseo.train.config import LoopConfig
from paseo.train.loop import Trained, run, session


class Toy:
    """Fit y = A x + noise by a small convolutional net; the noise makes every step's generator matter."""

    def __init__(self, pause: float = 0.0, trouble_at: int | None = None) -> None:
        torch.manual_seed(0)
        self.net: nn.Module = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.SiLU(), nn.Dropout(0.1), nn.Conv2d(8, 3, 1)
        )
        self.net.to(memory_format=torch.channels_last)  # ty: ignore[no-matching-overload]  (torch's stub lacks it)
        self.x = torch.randn(50, 3, 8, 8, generator=torch.Generator().manual_seed(1))
        self.count, self.pause, self.calls, self.trouble_at = len(self.x), pause, 0, trouble_at
        self.seen: list[Tensor] = []

    def loss(self, net: nn.Module, index: Tensor, rng: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        time.sleep(self.pause)
        self.seen.append(index)
        self.calls += 1
        x = self.x[index]
        target = x.roll(1, 1) + 0.1 * torch.randn(x.shape, generator=rng)
        error = net(x).float() - target
        scale = torch.nan if self.calls == self.trouble_at else 1.0
        return error.square().mean() * scale, {"l1": error.detach().abs().mean()}

    def validate(self, net: nn.Module) -> dict[str, float]:
        return {"mse": (net(self.x) - self.x.roll(1, 1)).square().mean().item()}


def settings(out: Path, steps: int | None, **changes: Any) -> LoopConfig:
    values: dict[str, Any] = dict(
        out=out,
        steps=steps,
        batch_size=8,
        lr=1e-2,
        warmup=3,
        log_every=4,
        validate_every=10,
        device="cpu",
        quiet=True,
    )
    return LoopConfig(**(values | changes))


def train(out: Path, steps: int, recipe: Toy | None = None, **changes: Any) -> Trained:
    config = settings(out, steps, **changes)
    with session(config) as accelerator:
        return run(recipe or Toy(), config, accelerator)


if __name__ == "__main__":
    seconds, pause = (float(v) for v in (*sys.argv[3:], *"00"[len(sys.argv) - 3 :]))
    config = settings(Path(sys.argv[1]), int(sys.argv[2]), checkpoint_minutes=seconds / 60)
    with session(config) as accelerator:
        outcome = run(Toy(pause), config, accelerator)
        weights = torch.cat([p.flatten() for p in outcome.net.parameters()])
        print(
            f"rank {accelerator.process_index} of {accelerator.num_processes} checksum "
            f"{weights.double().sum().item()!r}",
            flush=True,
        )
