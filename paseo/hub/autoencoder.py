"""A codec from files alone, for training and checking operators without any prior.

FOLDER          a diffusers AutoencoderKL or AutoencoderTiny, or a pipeline's folder with one in `vae`
PATH/taesd3     the original pair PATH/taesd3_encoder.safetensors, PATH/taesd3_decoder.safetensors
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from paseo.codecs.kl import KLCodec
from paseo.codecs.tiny import SPACES, TinyCodec
from paseo.errors import BadInput, MissingWeights, Unsupported
from paseo.files import is_file, read_json


def is_codec(source: str | Path) -> bool:
    """Whether this names the files of a codec."""
    path = Path(source)
    return _original(path) or any(
        _class_name(folder) in ("AutoencoderKL", "AutoencoderTiny") for folder in (path, path / "vae")
    )


def open_codec(source: str | Path, *, dtype: torch.dtype = torch.float32) -> KLCodec | TinyCodec:
    """The codec of a folder or of an original pair of files."""
    path = Path(source)
    if _original(path):
        return TinyCodec.from_original(path.parent, path.name, dtype=dtype)
    for folder in (path, path / "vae"):
        if is_file(folder / "config.json"):
            return _from_folder(folder, dtype)
    raise MissingWeights(
        f"{source} holds no autoencoder. Give a diffusers folder, or the common stem of an original pair, "
        "such as weights/taesd3 "
        "for weights/taesd3_encoder.safetensors and its decoder."
    )


def wrap_codec(vae: Any, **options: Any) -> KLCodec | TinyCodec:
    """The codec around a loaded diffusers autoencoder."""
    kind = type(vae).__name__
    if kind == "AutoencoderTiny":
        return TinyCodec(vae, latent_space=options.get("latent_space"))
    if kind == "AutoencoderKL":
        return KLCodec(vae, **options)
    raise Unsupported(
        f"An autoencoder of the class {kind} is not supported: AutoencoderKL and AutoencoderTiny are."
    )


def _from_folder(folder: Path, dtype: torch.dtype) -> KLCodec | TinyCodec:
    kind = _class_name(folder)
    if kind == "AutoencoderTiny":
        return TinyCodec.from_pretrained(folder, dtype=dtype)
    if kind == "AutoencoderKL":
        return KLCodec.from_pretrained(folder, dtype=dtype)
    raise Unsupported(f"{folder} holds a {kind}, not an AutoencoderKL or AutoencoderTiny.")


def _class_name(folder: Path) -> str | None:
    try:
        config = read_json(folder / "config.json")
    except BadInput:
        return None
    return config.get("_class_name") if isinstance(config, dict) else None


def _original(path: Path) -> bool:
    return path.name in SPACES and is_file(path.with_name(f"{path.name}_encoder.safetensors"))
