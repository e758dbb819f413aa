"""`paseo doctor --tune`: which precision and layout of an embedded model is fastest on this machine.

Every way is one denoiser call at the trained size; the ways take turns, so that a busy machine slows all of
them alike, and the least of several times counts. On the CPU it is the time of the processor, not of the
wall. `--compile` is not tried: it takes a minute, and pays only for long folders.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from torch import Tensor

from paseo.models import Model, load_model

ROUNDS = 5
GAINS = 0.95  # of the plain time: less of a gain is not worth other bytes


@dataclass(frozen=True)
class Way:
    """Options of `paseo restore`, and what a call takes with them."""

    dtype: str
    channels_last: bool
    seconds: float = float("inf")

    @property
    def options(self) -> str:
        words = (["--dtype", self.dtype] if self.dtype != "fp32" else []) + [
            "--channels-last"
        ] * self.channels_last
        return " ".join(words) or "plain"


WAYS = [Way(dtype, layout) for dtype in ("fp32", "bf16") for layout in (False, True)]


@torch.no_grad()
def tune(name: str, device: str = "auto", rounds: int = ROUNDS) -> list[Way]:
    """The ways with their times, the plain one first."""
    models = [load_model(name, device=device, dtype=w.dtype, channels_last=w.channels_last) for w in WAYS]
    least = [float("inf")] * len(WAYS)
    for turn in range(rounds + 1):  # the first warms up
        for i, model in enumerate(models):
            seconds = timed(model)
            least[i] = min(least[i], seconds) if turn else least[i]
    return [Way(w.dtype, w.channels_last, s) for w, s in zip(WAYS, least, strict=True)]


def timed(model: Model) -> float:
    """Seconds of one call."""
    cells = model.size // model.codec.factor
    parameter = next(iter(model.prior.parameters())) if isinstance(model.prior, torch.nn.Module) else None
    place = parameter.device if parameter is not None else torch.device("cpu")
    x = torch.zeros(1, model.latent_channels, cells, cells, device=place)
    clock = time.process_time if place.type == "cpu" else time.perf_counter
    start = clock()
    finish(model.prior.x0(x, 0.5))
    return clock() - start


def finish(result: Tensor) -> None:
    """Wait until it is computed."""
    if result.device.type != "meta":
        float(result.flatten()[0])


def advice(ways: list[Way]) -> str:
    """One line for a reader."""
    plain, best = ways[0], min(ways, key=lambda w: w.seconds)
    if best.seconds > GAINS * plain.seconds:
        return f"nothing is faster than the plain way ({1000 * plain.seconds:.0f} ms a call)"
    times = f"{1000 * best.seconds:.0f} instead of {1000 * plain.seconds:.0f} ms a call"
    return f"`paseo restore {best.options}` is the fastest: {times}"
