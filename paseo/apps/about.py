"""What speaks against trusting the result of one picture, before it is computed: one line for each kind."""

from __future__ import annotations

from torch import Tensor

from paseo.base import Degradation, Sees
from paseo.models import Model
from paseo.models.known import unknown_picture
from paseo.units import to_signed, to_unit

FAR = 2.0  # how many times larger or smaller than the trained side a picture may be before it is said


def about(model: Model, y: Tensor, degradation: Degradation, size: tuple[int, int] | None) -> dict[str, str]:
    """The warnings for a measurement y (1,3,h,w) in [0,1], by kind; `size` is the result's where known."""
    lifted = to_unit(degradation.lift(to_signed(y), size)).clamp(0, 1)
    height, width = int(lifted.shape[-2]), int(lifted.shape[-1])
    found: dict[str, str] = {}
    sees_all = isinstance(model.prior, Sees) and model.prior.receptive_field is None
    if sees_all and model.size and not 1 / FAR <= (height * width) ** 0.5 / model.size <= FAR:
        found["size"] = (
            f"the result is {width}×{height}, far from the {model.size}×{model.size} that {model.name} "
            "was trained on: expect a worse one."
        )
    if reason := unknown_picture(model, lifted[0]):
        found["range"] = reason
    return found
