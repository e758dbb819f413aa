"""Operators as folders: config.json and diffusion_pytorch_model.safetensors, as diffusers lays out a
component.

    folder/config.json                            OperatorConfig: latent space, degradation, noise, training
    folder/diffusion_pytorch_model.safetensors    the weights, float32 or float16 (read as float32)
    folder/SHA256SUMS                             of the weights, as `sha256sum` writes; checked if present

`model.safetensors` is read as well. Nothing is ever unpickled. An operator belongs to one latent space: it
maps encodings to encodings of one autoencoder, whose hash it remembers (`check_latent_space`).
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from paseo.errors import BadInput, MissingWeights
from paseo.files import atomic, exists, is_file, read_json, write_json, write_text
from paseo.operators.config import OperatorConfig
from paseo.operators.net import OperatorNet
from paseo.version import __version__
from paseo.weights import build

CONFIG = "config.json"
WEIGHTS = "diffusion_pytorch_model.safetensors"
OTHER_WEIGHTS = ("model.safetensors",)
SUMS = "SHA256SUMS"
CLASS_NAMES = ("OperatorModel", "OperatorNet")  # what `_class_name` may be


def save_operator(net: OperatorNet, folder: str | Path, *, half: bool = False) -> str:
    """Write the folder and return the SHA-256 of the weights; `half` stores float16, half the size."""
    from safetensors.torch import save

    dtype = torch.float16 if half else torch.float32
    state = {name: value.detach().to("cpu", dtype).contiguous() for name, value in net.state_dict().items()}
    if bad := [name for name, value in state.items() if not torch.isfinite(value).all()]:
        raise BadInput(
            f"Not saved: the weights {', '.join(bad[:3])} are not finite in {_name(dtype)}. Did the "
            "training diverge?"
        )
    folder, data = Path(folder), save(state, metadata={"format": "pt"})
    digest = hashlib.sha256(data).hexdigest()
    (folder / SUMS).unlink(missing_ok=True)  # until both files are whole, nothing vouches for them
    with atomic(folder / WEIGHTS) as file:
        file.write(data)
    write_json(
        folder / CONFIG, {"_class_name": CLASS_NAMES[0], "_paseo_version": __version__, **net.spec.to_dict()}
    )
    write_text(folder / SUMS, f"{digest}  {WEIGHTS}\n")
    return digest


def load_operator(
    source: str | Path,
    *,
    codec_hash: str = "",
    force: bool = False,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
) -> OperatorNet:
    """The frozen operator of a folder, or of a Hugging Face repository such as "user/paseo-sd35-sr4".

    `codec_hash` is the hash of the autoencoder it will be used with; another than the operator's own is
    refused unless `force`.
    """
    folder = operator_folder(source)
    config = load_config(folder)
    check_latent_space(config, codec_hash, force)
    path = _weights_file(folder)
    described = f"{CONFIG} (channels={config.channels})"
    net, _ = build(lambda: OperatorNet(config), path, _stored_sums(path), described, any_size=False)
    return net.to(device, dtype).eval().requires_grad_(False)


def adopt(net: OperatorNet, state: Mapping[str, Tensor]) -> OperatorNet:
    """Take over another operator's weights where the shapes allow: all that a dedicated one has, of the stem
    the channels that both know. What the others would bring in starts at zero.
    """
    own = dict(net.state_dict())
    for name, value in state.items():
        if name in own and own[name].shape == value.shape:
            own[name] = value
        elif name == "stem.weight":
            shared = min(value.shape[1], own[name].shape[1])
            own[name] = torch.zeros_like(own[name])
            own[name][:, :shared] = value[:, :shared]
    net.load_state_dict(own)
    return net


def operator_config(source: str | Path) -> OperatorConfig:
    """What an operator says of itself, without its weights."""
    return load_config(operator_folder(source))


def operator_folder(source: str | Path) -> Path:
    """Where an operator lies: as given, or as downloaded."""
    folder = Path(source) if exists(source) else _download(str(source))
    return folder.parent if is_file(folder) else folder


def check_latent_space(config: OperatorConfig, codec_hash: str, force: bool = False) -> None:
    """Refuse an operator of another autoencoder; a hash that is not known cannot be checked and passes."""
    ours, theirs = config.vae_hash.lower(), codec_hash.lower()
    if not ours or not theirs or ours == theirs:
        return
    message = (
        f"This operator was trained in the latent space {config.latent_space or '(unnamed)'} of the "
        f"autoencoder {ours[:12]}…, "
        f"not of {theirs[:12]}…; the same numbers mean different images there."
    )
    if not force:
        raise BadInput(
            f"{message} Use the model it was trained for, train one with `paseo train operator`, or force it."
        )
    warnings.warn(message, stacklevel=2)


def load_config(folder: Path) -> OperatorConfig:
    """The checked config.json of an operator's folder."""
    path = folder / CONFIG
    if not is_file(path):
        raise MissingWeights(
            f"{folder} is not an operator: it has no {CONFIG}. Give the folder that `paseo train operator` "
            "wrote."
        )
    values = read_json(path)
    if not isinstance(values, dict):
        raise BadInput(f"{path} does not hold a JSON object.")
    if (kind := values.get("_class_name", CLASS_NAMES[0])) not in CLASS_NAMES:
        raise BadInput(f"{path} describes a {kind}, not an operator ({CLASS_NAMES[0]}).")
    return OperatorConfig.from_dict(values)


def _weights_file(folder: Path) -> Path:
    for name in (WEIGHTS, *OTHER_WEIGHTS):
        if is_file(folder / name):
            return folder / name
    pickles = sorted(p.name for pattern in ("*.bin", "*.pt", "*.pth", "*.ckpt") for p in folder.glob(pattern))
    hint = (
        f" ({pickles[0]} is a pickle, which is never opened here: store it as safetensors.)"
        if pickles
        else ""
    )
    raise MissingWeights(
        f"{folder} has no {WEIGHTS}.{hint} Copy the whole folder, or train the operator with `paseo train "
        "operator`."
    )


def _stored_sums(path: Path) -> list[str]:
    """What SHA256SUMS says about a file, or about its other name; nothing where there is no such list."""
    sums = path.parent / SUMS
    if not sums.is_file():
        return []
    lines = (line.split(None, 1) for line in sums.read_text(encoding="utf-8", errors="replace").splitlines())
    named = {line[1].lstrip("*"): line[0].lower() for line in lines if len(line) == 2}
    found = [named[name] for name in (path.name, WEIGHTS, *OTHER_WEIGHTS) if name in named][:1]
    if not found:
        raise MissingWeights(f"{sums} does not name {path.name}. Copy the folder again, or delete {SUMS}.")
    return found


def _download(name: str) -> Path:
    """A snapshot of a Hugging Face repository, from the cache where it is there."""
    plain, _, revision = name.partition("@")  # user/name@revision
    parts = plain.split("/")
    if len(parts) != 2 or not all(parts) or name.startswith(("/", ".", "~")):
        raise MissingWeights(
            f"There is no folder {name}. Give an operator's folder, or a repository of the Hugging Face "
            "hub as user/name or user/name@revision."
        )
    from huggingface_hub import snapshot_download

    try:
        wanted = [CONFIG, WEIGHTS, *OTHER_WEIGHTS, SUMS]
        return Path(snapshot_download(plain, revision=revision or None, allow_patterns=wanted))
    except Exception as error:  # the hub raises a dozen types of its own and of its HTTP library
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise MissingWeights(
            f"There is no folder {name}, and the Hugging Face hub did not give a repository of that name: "
            f"{first}"
        ) from error


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
