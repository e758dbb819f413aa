"""Between two steps: the progress bar, the user's callback, and the wish to stop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from paseo.base import Step
from paseo.errors import BadInput, Cancelled

Callback = Callable[[Any, int, float, dict[str, Tensor]], dict[str, Tensor] | None]
TENSORS = ("latents", "clean_latents")  # what a callback may ask for: x and z of a step


class StepWatcher:
    """The `watch` hook of a pipeline's run; remembers the last clean estimate for an interrupted run."""

    def __init__(self, pipe: Any, bar: Any, callback: Callback | None, wanted: Sequence[str]) -> None:
        unknown = [name for name in wanted if name not in TENSORS]
        if unknown:
            raise BadInput(f"callback_on_step_end_tensor_inputs {unknown} are not among {list(TENSORS)}.")
        self.pipe, self.bar, self.callback, self.wanted = pipe, bar, callback, wanted
        self.last: Tensor | None = None

    def __call__(self, step: Step) -> Tensor | None:
        self.bar.update()
        returned: dict[str, Tensor] = {}
        if self.callback is not None:
            known = {"latents": step.x, "clean_latents": step.z}
            shown = {name: known[name] for name in self.wanted}
            returned = self.callback(self.pipe, step.index, step.point.t, shown) or {}
        self.last = step.z
        if self.pipe.interrupt:
            raise Cancelled("The run was interrupted.")
        return returned.get("latents")  # the sampler goes on from it
