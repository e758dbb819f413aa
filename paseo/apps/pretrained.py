"""What the verbs need to know of Stable Diffusion models: which options were given, and whose settings apply."""

from __future__ import annotations

from typing import Any

from paseo.errors import BadInput


def settings_for(model: str, task: str, method: str) -> Any:
    """The kept settings of a model; a Stable Diffusion model without its own takes those of its family."""
    from paseo.models import available
    from paseo.settings.presets import preset

    try:
        return preset(model, task, method)
    except BadInput:
        if model in available():
            raise
        from paseo.hub.pretrained import family_name

        family = family_name(model)
        if family is None:
            raise
        return preset(family, task, method)


def model_options(model: str, found: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Options for `load_model`: those that were given and, for a Stable Diffusion model, prompt and guidance
    of the settings.
    """
    from pathlib import Path

    from paseo.models import available

    options = {name: value for name, value in given.items() if value is not None}
    if model in available() or (Path(model) / "codec.safetensors").is_file():
        return options
    if found is not None:
        options.setdefault("guidance", found.guidance)
        if found.prompt is not None:
            options.setdefault("prompt", found.prompt)
    return options
