"""Which latent space a diffusers model works in, and which operators lie in its folder, before any weight is
read.
"""

from __future__ import annotations

from pathlib import Path

from paseo.codecs.kl import SPACES
from paseo.files import is_folder, read_json
from paseo.hub.family import family_of
from paseo.hub.folder import INDEX, components, read_index
from paseo.hub.names import hub_id, known_family
from paseo.operators.store import load_config

OF_FAMILY = {"sd": "sd1", "sdxl": "sdxl", "sd3": "sd3"}  # latent spaces of the supported families


def space_of_folder(name: str | Path) -> str:
    """By channel count, scale and shift of the autoencoder; a tiny one, which has neither, by the family."""
    if known := known_family(str(name)):
        return OF_FAMILY[known]
    folder = folder_at_hand(name)
    if folder is None:
        return ""
    parts = {part: kind for part, (_, kind) in components(read_index(folder)).items()}
    config = read_json(folder / "vae" / "config.json")
    if parts.get("vae") == "AutoencoderTiny" or not isinstance(config, dict):
        return OF_FAMILY.get(family_of(parts, str(name)).name, "")
    channels, scale = config.get("latent_channels", 4), config.get("scaling_factor", 0.18215)
    shift = config.get("shift_factor") or 0.0
    if not (isinstance(channels, int) and isinstance(scale, float) and isinstance(shift, float)):
        return ""
    return SPACES.get((channels, scale, shift), "")


def folder_at_hand(name: str | Path) -> Path | None:
    """A model's folder, as given or from the hub's cache; nothing is fetched. None where it is not here."""
    if is_folder(name):
        return Path(name)
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    plain, _, revision = str(name).partition("@")
    try:
        found = try_to_load_from_cache(hub_id(plain), INDEX, revision=revision or None)
    except (HFValidationError, OSError):
        return None
    return Path(found).parent if isinstance(found, str) else None


def operators_in(folder: Path | None) -> dict[str, Path]:
    """Task → folder of the operators that lie with a model: `operator`, as pipelines keep it, and those below
    `operators`.
    """
    candidates = [] if folder is None else [*folder.glob("operators/*"), folder / "operator"]
    return {load_config(p).degradation: p for p in candidates if (p / "config.json").is_file()}
