"""Seconds and bytes of a run, taken where they are spent: a prior and a codec whose calls are metered."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Generator
from contextlib import contextmanager

import torch
from torch import Tensor

from paseo.base import Codec, Prior
from paseo.metrics.cost import Cost, synchronize
from paseo.problem import device_of
from paseo.schedule import Schedule


class Meter:
    """Seconds, or peak bytes, of the parts of a run: `with meter("encode"): …`; what lies between two parts
    is the correction's.
    """

    def __init__(
        self, device: torch.device, peaks: bool = False, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self.device, self.clock = device, clock
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.gaps: list[float] = []  # before each part
        self.peaks: dict[str, int] | None = {} if peaks else None
        self._between: Cost | None = None
        self._ended: float | None = None

    @contextmanager
    def __call__(self, part: str) -> Generator[None]:
        if self.peaks is None:
            synchronize(self.device)
            start = self.clock()
            self.gaps.append(0.0 if self._ended is None else start - self._ended)
            yield
            synchronize(self.device)
            self._ended = self.clock()
            self.seconds[part].append(self._ended - start)
            return
        self._end("correction", self._between)
        with Cost(self.device) as cost:
            yield
        self._end(part, cost)
        self._between = Cost(self.device).__enter__()

    def close(self) -> None:
        if self._between is not None:
            self._between.__exit__(None, None, None)
            self._between = None

    def _end(self, part: str, cost: Cost | None) -> None:
        if cost is None or self.peaks is None:
            return
        if cost is self._between:
            self.close()
        self.peaks[part] = max(self.peaks.get(part, 0), cost.peak_bytes)


class MeteredPrior:
    """A prior whose calls are metered."""

    def __init__(self, prior: Prior, meter: Meter) -> None:
        self.prior, self.meter = prior, meter

    @property
    def schedule(self) -> Schedule:
        return self.prior.schedule

    def x0(self, x: Tensor, t: float) -> Tensor:
        with self.meter("denoiser"):
            return self.prior.x0(x, t)


class MeteredCodec:
    """A codec whose calls are metered."""

    def __init__(self, codec: Codec, meter: Meter) -> None:
        self.codec, self.meter, self.factor, self.device = codec, meter, codec.factor, device_of(codec)

    def encode(self, x: Tensor) -> Tensor:
        with self.meter("encode"):
            return self.codec.encode(x)

    def decode(self, z: Tensor) -> Tensor:
        with self.meter("decode"):
            return self.codec.decode(z)
