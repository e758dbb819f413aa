"""A codec that encodes and decodes a large picture in windows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from torch import Tensor

from paseo.base import Codec, sketched
from paseo.windows import Cover, blended


@dataclass(frozen=True, eq=False)
class WindowedCodec:
    """E and D as blends over the windows of one canvas; pictures of another size go through the codec
    whole.
    """

    codec: Codec
    cover: Cover

    @property
    def factor(self) -> int:
        return self.codec.factor

    def encode(self, x: Tensor) -> Tensor:
        if self._canvas(x, self.factor) != self.cover.canvas:
            return self.codec.encode(x)
        return blended(self.codec.encode, x, self.cover, entries=self.factor)

    def decode(self, z: Tensor) -> Tensor:
        return self._decoded(self.codec.decode, z)

    def sketch(self, z: Tensor) -> Tensor:
        return self._decoded(partial(sketched, self.codec), z)

    def _decoded(self, decode: Callable[[Tensor], Tensor], z: Tensor) -> Tensor:
        if self._canvas(z, 1) != self.cover.canvas:
            return decode(z)
        return blended(decode, z, self.cover, results=self.factor)

    @staticmethod
    def _canvas(x: Tensor, scale: int) -> tuple[int, int]:
        return x.shape[-2] // scale, x.shape[-1] // scale
