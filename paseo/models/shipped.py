"""Operators that come with the package for the latent spaces of others' models.

    models/operators/sd1/family/      config.json, diffusion_pytorch_model.safetensors, SHA256SUMS
    models/operators/sd3/…            SPACE is sd1, sdxl, sd3 or flux1

An operator only needs an autoencoder, and the tiny ones (TAESD and its siblings) speak the latent spaces of
the large ones: these operators were trained through them. A model without operators of its own is given the
one of its latent space, which is known by channel count, scale and shift of its autoencoder.
"""

from __future__ import annotations

from pathlib import Path

from paseo.errors import MissingWeights, PaseoError
from paseo.operators.store import operator_config

START = "shipped"  # `paseo train operator --start shipped`


def root() -> Path:
    """Where they lie; the one place that says so."""
    return Path(__file__).parent / "operators"


def shipped_operators(space: str) -> dict[str, Path]:
    """Name ("family", "sr4"…) → folder, of one latent space."""
    found = sorted((root() / space).glob("*/config.json")) if space in _spaces() else []
    return {path.parent.name: path.parent for path in found}


def operators_of_diffusers(name: str, space: str = "") -> dict[str, Path]:
    """Those of a diffusers model's own folder, then those that come with the package."""
    if space:
        return shipped_operators(space)
    from paseo.hub.space import folder_at_hand, operators_in

    own = operators_in(folder_at_hand(name))
    return {**shipped_operators(space_of_model(name)), **own} if _spaces() else own


def is_shipped(folder: Path) -> bool:
    return folder.is_relative_to(root())


def space_of_model(name: str) -> str:
    """The latent space of a diffusers model, from its name or the config of its autoencoder; "" where it is
    not known.
    """
    from paseo.hub.space import space_of_folder

    try:
        return space_of_folder(name)
    except PaseoError:
        return ""


def sentence(folder: Path, model: str) -> str:
    """What is to be said when one of them is taken."""
    config = operator_config(folder)
    codec = Path(str(config.training.get("settings", {}).get("model", ""))).name or "a tiny autoencoder"
    return (
        f"{model} has no operator of its own: taking the package's for the latent space "
        f"{config.latent_space}, which was trained through the tiny codec {codec}; "
        f"`paseo check-operator --model {model}` measures it on the real one"
    )


def starting_point(space: str, task: str) -> Path:
    """The folder for `--start shipped`: of the task, or of the family."""
    found = shipped_operators(space)
    for name in (task.partition(":")[0], "family"):
        if name in found:
            return found[name]
    raise MissingWeights(
        f"start is {START!r}, and no operator comes with the package for the latent space {space or '?'}. "
        f"There are some for: {', '.join(_spaces()) or 'none'}. Leave --start out."
    )


def _spaces() -> list[str]:
    """Latent spaces for which there are operators."""
    return sorted({path.parent.parent.name for path in root().glob("*/*/config.json")})
