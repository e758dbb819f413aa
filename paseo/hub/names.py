"""The names people use for diffusers models, once: short name → hub id and family. Nothing heavy is imported.

A family is told from a model's components (`hub.family`); for these names it is known without looking.
"""

from __future__ import annotations

KNOWN: dict[str, tuple[str, str]] = {  # short name → (hub id, family)
    "sd15": ("stable-diffusion-v1-5/stable-diffusion-v1-5", "sd"),
    "rv51": ("SG161222/Realistic_Vision_V5.1_noVAE", "sd"),
    "sdxl": ("stabilityai/stable-diffusion-xl-base-1.0", "sdxl"),
    "sd3": ("stabilityai/stable-diffusion-3-medium-diffusers", "sd3"),
    "sd35": ("stabilityai/stable-diffusion-3.5-medium", "sd3"),
    "sd35-large": ("stabilityai/stable-diffusion-3.5-large", "sd3"),
}
MOVED = {"runwayml/stable-diffusion-v1-5": "stable-diffusion-v1-5/stable-diffusion-v1-5"}


def hub_id(name: str) -> str:
    """The hub id of a short name, or of a repository that has moved; other names stay as they are."""
    return KNOWN[name][0] if name in KNOWN else MOVED.get(name, name)


def known_family(name: str) -> str | None:
    """The family of a name of this table, without looking at any file; None for other names."""
    return dict(KNOWN.values()).get(hub_id(name))
