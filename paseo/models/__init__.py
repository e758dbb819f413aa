"""Models by name: the embedded ones of this folder, a folder of one's own, or a diffusers model.

A model is a prior and a codec that share a latent space, with the operators that were trained for it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from paseo.base import Codec, Prior
from paseo.errors import BadInput, MissingWeights, Unsupported
from paseo.files import is_file, read_json

if TYPE_CHECKING:
    from paseo.operators.net import OperatorNet

ROOT = Path(__file__).parent
DEFAULT = "photos"  # what "auto" means, on every door
AUTO = "auto"
LEAN = "lean"  # below a task's operator: a smaller one that imitates it
MASKS = "masks"  # below the operator of a family: one for its masks alone


@dataclass(frozen=True, eq=False)
class Model:
    """A prior, its codec, and where their operators lie."""

    name: str
    prior: Prior
    codec: Codec
    latent_channels: int
    size: int  # the image side the prior was trained on
    folder: Path | None = None
    config: dict[str, Any] = field(default_factory=dict)
    hashes: dict[str, str] = field(default_factory=dict)

    @cached_property
    def identity(self) -> dict[str, str]:
        """All that tells this model from another one: what results, records and caches are known by.

        For models like the embedded ones the hashes and the SHA-256 of every weights file; for diffusers
        models see `PretrainedModel`.
        """
        files = sorted(self.folder.glob("*.safetensors")) if self.folder is not None else []
        return self.hashes | {f"{p.stem}_file": hashlib.sha256(p.read_bytes()).hexdigest() for p in files}

    @cached_property
    def tasks(self) -> list[str]:
        """Tasks for which an operator is stored with the model."""
        folder = self.folder / "operators" if self.folder else None
        return (
            sorted(p.name for p in folder.iterdir() if (p / "config.json").is_file())
            if folder and folder.is_dir()
            else []
        )

    def operator_folder(self, task: str) -> Path | None:
        """Where the operator of a task, a leaner one ("sr4/lean") or one of a family's masks ("family/masks")
        lies; None where there is none.
        """
        known = [name for own in self.tasks for name in (own, f"{own}/{LEAN}", f"{own}/{MASKS}")]
        if self.folder is None or task not in known:
            return None
        folder = self.folder / "operators" / task
        return folder if (folder / "config.json").is_file() else None

    def operator(self, task: str) -> OperatorNet:
        """H_ψ of a task, from the model's own folder."""
        from paseo.operators.store import load_operator

        folder = self.operator_folder(task)
        if folder is None:
            known = ", ".join(self.tasks) or "none"
            raise MissingWeights(
                f"The model {self.name} has no operator for {task!r} (it has: {known}). "
                f"Train one with `paseo train operator --task {task} --model {self.name}`."
            )
        return load_operator(folder, codec_hash=self.hashes.get("codec", ""))

    def to(
        self,
        device: str | torch.device | None = None,
        dtype: str | torch.dtype | None = None,
        *,
        channels_last: bool = False,
        compile: bool = False,
    ) -> Model:
        """Move prior and codec to a device ("auto", "cpu", "cuda", "mps"), in place as in torch. `dtype` is
        the prior's: codec and operators stay in float32, where what they lose would be seen.

        `channels_last` and `compile` (torch.compile) also change the prior alone, and with it the last bits
        of a result. `paseo doctor --tune` measures what they gain on this machine.
        """
        from paseo.hub.device import pick_device, pick_dtype

        prior, codec = self.prior, self.codec
        if not isinstance(prior, nn.Module) or not isinstance(codec, nn.Module):
            raise Unsupported(
                f"The model {self.name} cannot be moved. Load it where it is needed: "
                f"load_model({self.name!r}, device=…, dtype=…)."
            )
        if device is not None:
            place = pick_device(device)
            prior.to(place)
            codec.to(place)
            channels_last = channels_last or place.type == "cuda"  # where convolutions gain from it
        if channels_last:
            prior.to(memory_format=torch.channels_last)  # ty: ignore[no-matching-overload]
        if dtype is not None and dtype != "auto":
            prior.to(pick_dtype(dtype, torch.device("cpu")))
        if compile:
            for net in prior.children():
                net.compile()  # in place: names and weights stay
        return self


def available() -> list[str]:
    """Names of the embedded models."""
    return sorted(p.parent.name for p in ROOT.glob("*/config.json"))


def with_samples() -> list[str]:
    """The embedded models that bring pictures to show, the default one first."""
    found = [name for name in available() if (ROOT / name / "samples").is_dir()]
    return sorted(found, key=lambda name: name != DEFAULT)


def real_name(name: str | Path) -> str:
    """The model that is meant: "auto" is the default one."""
    return DEFAULT if str(name) == AUTO else str(name)


def own_folder(name: str | Path) -> Path | None:
    """The folder of an embedded model, or of one with the same layout; None for anything else."""
    name = real_name(name)
    folder = ROOT / name if name in available() else Path(name)
    return folder if is_file(folder / "config.json") and is_file(folder / "codec.safetensors") else None


def stored_operator(name: str | Path, task: str, space: str = "") -> Path | None:
    """Where the operator of a model for a task lies: in the model's folder, or, for the latent space of a
    diffusers model, in the package (shipped.py); None where there is none. `space` is that of a model that is
    loaded already, and that no name may tell.
    """
    folder = own_folder(name)
    if folder is not None and not space:
        found = folder / "operators" / task
        return found if is_file(found / "config.json") else None
    from paseo.models.shipped import operators_of_diffusers

    return operators_of_diffusers(str(name), space).get(task)


def load_model(name: str | Path = AUTO, **options: Any) -> Model:
    """An embedded model by name, a folder with the same layout, or anything diffusers can load.

    Every model takes `device` ("auto" picks an accelerator if there is one) and `dtype`.
    """
    name = real_name(name)
    if (folder := own_folder(name)) is not None:
        return _load_embedded(folder, **options)
    if name == DEFAULT:
        raise MissingWeights(
            f"The embedded model {DEFAULT} is not in this installation. Reinstall the package."
        )
    from paseo.hub.pretrained import load_diffusers_model

    return load_diffusers_model(name, **options)


def _load_embedded(
    folder: Path,
    device: str | torch.device = "auto",
    dtype: str | torch.dtype | None = None,
    channels_last: bool = False,
    compile: bool = False,
    **options: Any,
) -> Model:
    from paseo.codecs.embedded import EmbeddedCodec
    from paseo.priors.embedded import EmbeddedPrior

    if options:
        raise BadInput(f"The model {folder.name} is unconditional: it takes no {', '.join(sorted(options))}.")
    config = _checked(read_json(folder / "config.json"), folder)
    codec = EmbeddedCodec.load(folder, config["latent_space"])
    prior = EmbeddedPrior.load(folder)
    if prior.net.config["channels"] != codec.channels:
        raise BadInput(
            f"{folder}: prior and codec have different latents. Copy, download or train them again."
        )
    hashes = {"codec": codec.hash, "prior": prior.hash}
    model = Model(config["name"], prior, codec, codec.channels, config["size"], folder, config, hashes)
    return model.to(device, dtype, channels_last=channels_last, compile=compile)


def _checked(config: object, folder: Path) -> dict[str, Any]:
    """What a model says of itself, as far as it is used."""
    good = (
        isinstance(config, dict)
        and all(isinstance(config.get(key), str) for key in ("name", "latent_space"))
        and type(config.get("size")) is int
        and 16 <= config["size"] <= 8192
    )
    if not good:
        raise BadInput(
            f"{folder / 'config.json'} does not describe a model: name, latent_space and size (16 to 8192) "
            f"were "
            "expected. Copy, download or train it again."
        )
    return config
