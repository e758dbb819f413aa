"""What a learned operator stands for: R = E ∘ lift ∘ A ∘ D, and its directional derivatives by central
differences.

    R′(z) v ≈ (R(z + εv) − R(z − εv)) / 2ε          error O(ε²) + O(rounding / ε)

In float64 the rounding part is 10⁻¹² at ε = 10⁻⁴, so several steps can be compared: where they agree the
derivative exists and is known, where they do not (JPEG rounds) no number below should be trusted. The codec's
networks are copied to float64 for this; where that is not possible the steps are larger and the report says
float32.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from paseo.base import Codec, Degradation
from paseo.errors import BadInput

STEPS = {
    torch.float64: (1e-3, 1e-2, 1e-4),
    torch.float32: (3e-2, 1e-1, 1e-2),
}  # the first is the one that is used


class Reference:
    """E∘A∘D at the highest precision the codec allows."""

    def __init__(self, codec: Codec, degradation: Degradation) -> None:
        twin = in_float64(codec)
        self.dtype = torch.float32 if twin is None else torch.float64
        self.codec, self.degradation = codec if twin is None else twin, degradation
        self.device = next((p.device for m in _modules(codec) for p in m.parameters()), torch.device("cpu"))

    def __call__(self, z: Tensor) -> Tensor:
        """R(z), in float64 on the CPU."""
        x = self.codec.decode(z.to(self.device, self.dtype))
        lifted = self.degradation.lift(self.degradation(x), (x.shape[-2], x.shape[-1]))
        y = self.codec.encode(lifted.to(self.dtype))
        if y.shape != z.shape:
            raise BadInput(
                f"Decoding, degrading and encoding turns a latent {tuple(z.shape)} into {tuple(y.shape)}; "
                "check lift()."
            )
        return y.cpu().to(torch.float64)

    def encode(self, x: Tensor) -> Tensor:
        """E(x) of images in [-1,1], in float64 on the CPU."""
        return self.codec.encode(x.to(self.device, self.dtype)).cpu().to(torch.float64)

    def derivative(self, z: Tensor, v: Tensor, step: float) -> Tensor:
        """R′(z) v by central differences."""
        return (self(z + step * v) - self(z - step * v)) / (2 * step)


def in_float64(codec: Codec) -> Codec | None:
    """A copy whose networks compute in float64, or None where there is no such copy."""
    try:
        twin = copy.deepcopy(codec)
        for module in _modules(twin):
            module.double()
    except (
        TypeError,
        RuntimeError,
        AttributeError,
    ):  # not copyable, quantised, or on a device without float64
        return None
    tensors = [t for m in _modules(twin) for t in (*m.parameters(), *m.buffers())]
    return twin if all(t.dtype == torch.float64 for t in tensors if t.is_floating_point()) else None


def _modules(codec: object) -> list[nn.Module]:
    """The networks a codec is or holds."""
    if isinstance(codec, nn.Module):
        return [codec]
    return [value for value in getattr(codec, "__dict__", {}).values() if isinstance(value, nn.Module)]
