"""A request: what was typed, ticked or passed, and nothing else. What is left open has its empty value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from paseo.base import BindsNoise, Degradation, LatentOperator, Sampler
from paseo.degrade import Mask, Task
from paseo.settings.presets import Preset


@dataclass(frozen=True, eq=False)
class Request:
    """One restoration as somebody asks for it. To add a wish, add a field here and read it in `resolve`."""

    model: str = "auto"  # an embedded model, a folder, a hub id; "auto" takes the default
    family: str = ""  # of a pipeline that is loaded already: sd, sdxl, sd3
    space: str = ""  # the same, its latent space: sd1, sdxl, sd3
    # "": the operator's, or inpaint where there is a mask; "auto": else what the file says
    task: str | Task | Degradation = ""
    mask: Mask | bool = False  # True: one per file, known when the file is read
    operator: str | LatentOperator | BindsNoise | None = None  # a folder, a hub id, or the thing itself
    method: str = "paseo"
    label: str | None = None  # a name among the kept settings, if another than the method's
    preset: str | None = None  # whose settings: "ffhq/sd35", "coco/sd35", "faces-128", a folder
    sampler: Sampler | Preset | None = None  # instead of method, label and preset
    settings: Sequence[str] | Mapping[str, Any] = ()  # "field=value", or values by name; on top
    steps: int | None = None
    budget: int | None = None  # denoiser calls that may not be exceeded
    prompt: str | Sequence[str] | None = None
    negative_prompt: str | Sequence[str] | None = None
    guidance: float | None = None
    sigma_y: float | None = None  # in [0,1] units
    keep_known: bool | None = None  # copy the seen pixels into the result
    faces: bool = False  # faces in the picture are restored by the face model
    options: Mapping[str, Any] = field(default_factory=dict)  # of the model: device, dtype, offload, …

    def given_options(self) -> dict[str, object]:
        """The model's options that were really given."""
        return {name: value for name, value in self.options.items() if value is not None}
