"""Averaged weights as a model folder: float16 safetensors, and a config.json that says what they are and how
they came to be.

    folder/codec.safetensors, folder/prior.safetensors, perhaps folder/sketch.safetensors
    folder/config.json       name, latent_space, size, the networks' settings, a summary and SHA-256 per file

`paseo.models.load_model` reads such a folder; operators lie below it in operators/<task>.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import torch
from torch import nn

from paseo.base import Codec
from paseo.errors import BadInput
from paseo.files import atomic, is_file, read_json, write_json

MODEL_HELP = (
    "Whose latent space: an embedded model, a folder with a codec, or a diffusers model; auto: the default "
    "model's."
)


def half(net: nn.Module) -> nn.Module:
    """Round the weights in place to what float16 can hold, so that what is validated is what is stored."""
    with torch.no_grad():
        for name, value in net.state_dict().items():
            if value.is_floating_point():
                value.copy_(value.half().float())
                if not torch.isfinite(value).all():
                    raise BadInput(f"{name} does not fit into float16. Did the training diverge?")
    return net


def write_weights(net: nn.Module, path: Path) -> str:
    """float16 safetensors; returns the file's SHA-256."""
    from safetensors.torch import save

    state = {
        k: (v.half() if v.is_floating_point() else v).detach().cpu().contiguous()
        for k, v in net.state_dict().items()
    }
    blob = save(state, metadata={"format": "pt"})
    with atomic(path) as file:
        file.write(blob)
    return hashlib.sha256(blob).hexdigest()


def copy_file(source: Path, target: Path) -> str:
    """Copy in one step; returns the SHA-256."""
    blob = source.read_bytes()
    with atomic(target) as file:
        file.write(blob)
    return hashlib.sha256(blob).hexdigest()


def copy_parts(source: Path, target: Path, *parts: str) -> dict[str, str]:
    """Copy the weights of those parts that a model folder has; their SHA-256 by file name."""
    files = [f"{part}.safetensors" for part in parts if is_file(source / f"{part}.safetensors")]
    return {name: copy_file(source / name, target / name) for name in files}


def write_model_config(
    folder: Path,
    base: dict[str, Any],
    part: str,
    entry: dict[str, Any],
    summary: dict[str, Any],
    sha256: dict[str, str],
) -> None:
    """Add one part ("codec", "prior" or "sketch") to the config a folder has, or to `base` if it has none."""
    path = folder / "config.json"
    config = base | (read_json(path) if path.is_file() else {})
    config[part] = entry
    config["training"] = config.get("training", {}) | {part: summary}
    config["sha256"] = config.get("sha256", {}) | sha256
    write_json(path, config)


def codec_folder(name: str) -> Path | None:
    """The folder of a codec of our own: an embedded model's, or a path with codec.safetensors and
    config.json.
    """
    from paseo.models import ROOT, real_name

    for folder in (ROOT / real_name(name), Path(name)):
        if is_file(folder / "codec.safetensors") and is_file(folder / "config.json"):
            return folder
    return None


def load_codec(name: str) -> Codec:
    """The frozen codec of an embedded model, of a folder, of autoencoder files, or of anything `load_model`
    knows.
    """
    from paseo.codecs.embedded import EmbeddedCodec
    from paseo.hub.autoencoder import is_codec, open_codec
    from paseo.models import load_model

    folder = codec_folder(name)
    if folder is None:
        return open_codec(name) if is_codec(name) else load_model(name).codec
    return EmbeddedCodec.load(folder, read_json(folder / "config.json").get("latent_space", "embedded"))
