"""Stable Diffusion models by folder, hub id or loaded pipeline, as the same kind of model as the embedded
ones.

    model = load_diffusers_model("stabilityai/stable-diffusion-3.5-medium", prompt="A high quality photo",
    guidance=4.0)

The autoencoder is loaded at once; the denoiser and the text encoders when the first estimate is asked for, so
that training or checking an operator never pays for them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from paseo.base import Codec, HasHash, HasLatentSpace, OnDevice
from paseo.codecs.tiny import TinyCodec
from paseo.errors import BadInput, MissingWeights, PaseoError
from paseo.hub.attention import Backend, attention
from paseo.hub.autoencoder import open_codec, wrap_codec
from paseo.hub.build import build_prior, latent_multiple, schedule_of
from paseo.hub.conditioning import Conditioning
from paseo.hub.denoiser import Denoiser
from paseo.hub.device import pick_device, pick_dtype
from paseo.hub.family import family_of
from paseo.hub.folder import components, read_index, resolve
from paseo.hub.guidance import check_guidance
from paseo.hub.identity import component_hashes
from paseo.hub.parts import FolderParts, ModelParts, PipelineParts
from paseo.hub.space import OF_FAMILY, operators_in
from paseo.hub.text import Prompt
from paseo.models import Model
from paseo.models.shipped import is_shipped, shipped_operators
from paseo.operators.net import OperatorNet
from paseo.operators.store import load_config, load_operator
from paseo.schedule import VP, SD3Flow
from paseo.weights import damaged

PROMPT = "A high quality photo"  # the paper's, for photographs of anything


class PromptedPrior:
    """A prior whose network is loaded, and whose prompt is encoded, when the first estimate is asked for."""

    def __init__(
        self,
        parts: ModelParts,
        prompt: Prompt = PROMPT,
        negative_prompt: Prompt = "",
        guidance: float = 1.0,
        *,
        conditioning: Conditioning | None = None,
        published_time: bool = False,
        around: Callable[[], AbstractContextManager],
    ) -> None:
        self.parts, self.prompt, self.negative_prompt, self.guidance = (
            parts,
            prompt,
            negative_prompt,
            guidance,
        )
        self.schedule: VP | SD3Flow = schedule_of(parts.family, parts.scheduler)
        self.multiple = latent_multiple(parts.family, parts.network_config)
        self.published_time = published_time
        self._given, self._around = conditioning, around
        if conditioning is not None:
            check_guidance(guidance, conditioning)

    @cached_property
    def conditioning(self) -> Conditioning:
        """The embeddings; `conditioning.save(file)` keeps them for another day."""
        return self._given or self.parts.encode(self.prompt, self.negative_prompt, self.guidance != 1)

    @cached_property
    def denoiser(self) -> Denoiser:
        conditioning = self.conditioning  # first: its encoders are gone when the network comes
        return build_prior(
            self.parts.family,
            self.parts.network,
            self.parts.scheduler,
            conditioning,
            self.guidance,
            published_time=self.published_time,
            around=self._around,
        )

    @property
    def nfe(self) -> int:
        return self.denoiser.nfe if "denoiser" in self.__dict__ else 0

    def x0(self, x: Tensor, t: float) -> Tensor:
        return self.denoiser.x0(x, t)


@dataclass(frozen=True, eq=False)
class PretrainedModel(Model):
    """A diffusers model with a prompt and a guidance scale."""

    make: Callable[..., PromptedPrior] = field(kw_only=True)

    @cached_property
    def identity(self) -> dict[str, str]:
        """Every component, the name, the revision and the precision (`hub.identity` says what is read)."""
        parts = self.config["parts"] if self.folder is not None else ()
        found = component_hashes(self.folder, parts) if self.folder is not None else {}
        known = {name: str(self.config[name]) for name in ("family", "revision", "dtype", "codec_dtype")}
        return {**self.hashes, **found, **known, "name": Path(self.name.partition("@")[0]).name}

    def prompted(
        self,
        prompt: Prompt = PROMPT,
        negative_prompt: Prompt = "",
        guidance: float = 1.0,
        conditioning: Conditioning | None = None,
    ) -> PretrainedModel:
        """The same model, nothing loaded again, with another prompt."""
        return replace(self, prior=self.make(prompt, negative_prompt, guidance, conditioning=conditioning))

    @cached_property
    def tasks(self) -> list[str]:
        """Tasks of the operators in the folder, and of those that the package has for the latent space."""
        return sorted(self._operators)

    def operator_folder(self, task: str) -> Path | None:
        return self._operators.get(task)

    def operator(self, task: str) -> OperatorNet:
        if task not in self._operators:
            raise MissingWeights(
                f"The model {self.name} comes without an operator for {task!r}. Give one with --operator, "
                "or train it with "
                f"`paseo train operator --task {task} --model {self.name} --data IMAGES`."
            )
        folder = self._operators[task]
        if is_shipped(folder) and load_config(folder).channels != self.latent_channels:
            raise BadInput(
                f"The operator that comes for the latent space {self.config['latent_space']} has "
                f"{load_config(folder).channels} channels, the model {self.name} has {self.latent_channels}."
            )
        return load_operator(
            folder,
            codec_hash="" if is_shipped(folder) else self.hashes["codec"],  # the tiny codec has another
            device=self.codec.device if isinstance(self.codec, OnDevice) else "cpu",
        )

    @cached_property
    def _operators(self) -> dict[str, Path]:
        return {**shipped_operators(str(self.config["latent_space"])), **operators_in(self.folder)}


def family_name(source: str | Path) -> str | None:
    """ "sd", "sdxl" or "sd3" of a folder or hub id, from its index alone; None where it is none of these."""
    try:
        parts = components(read_index(resolve(source)))
        return family_of({name: kind for name, (_, kind) in parts.items()}, str(source)).name
    except PaseoError:
        return None


def load_diffusers_model(
    source: str | Path | Any,
    *,
    prompt: Prompt = PROMPT,
    negative_prompt: Prompt = "",
    guidance: float = 1.0,
    conditioning: Conditioning | str | Path | None = None,
    dtype: str | torch.dtype | None = None,
    vae_dtype: str | torch.dtype = torch.float32,
    device: str | torch.device = "auto",
    offload: bool = False,
    tiling: bool | int = False,
    attention_backend: Backend = "auto",
    t5: bool = True,
    codec: str | Path | Codec | None = None,
    published_time: bool = False,
    revision: str | None = None,
    variant: str | None = None,
) -> PretrainedModel:
    """A model from a diffusers folder, a hub id (or a short name: sd15, rv51, sdxl, sd3, sd35), or a loaded
    pipeline.

    `dtype` is the network's (bfloat16 on accelerators, float32 on the CPU unless given); the state, the
    solver and, by default, the autoencoder stay in float32. `conditioning` takes embeddings instead of a
    prompt, `codec` another autoencoder of the same latent space (a TAESD for speed), `t5=False` leaves SD3's
    largest text encoder out.
    """
    place = pick_device(device)
    parts, folder = _parts(source, dtype, vae_dtype, place, offload, t5, revision, variant)
    around = attention(attention_backend)
    with damaged(folder or "the pipeline"):
        own = _codec(codec, parts, place, tiling, around)
    given = Conditioning.load(conditioning) if isinstance(conditioning, str | Path) else conditioning

    def make(
        prompt: Prompt, negative_prompt: Prompt, guidance: float, conditioning: Conditioning | None = None
    ) -> PromptedPrior:
        return PromptedPrior(
            parts,
            prompt,
            negative_prompt,
            guidance,
            conditioning=conditioning,
            published_time=published_time,
            around=around,
        )

    with damaged(folder or "the pipeline"):
        return PretrainedModel(
            name=str(source)
            if isinstance(source, str | Path)
            else str(getattr(source, "name_or_path", "") or type(source).__name__),
            prior=make(prompt, negative_prompt, guidance, given),
            codec=own,
            latent_channels=int(parts.network_config["in_channels"]),
            size=_side(parts.network_config.get("sample_size", 64)) * own.factor,
            folder=folder,
            config={
                "family": parts.family.name,
                "revision": _commit(folder),
                "parts": _component_names(parts),
                "dtype": _plain(parts.dtype),
                "codec_dtype": _plain(vae_dtype),
                "latent_space": _space(own, parts),
            },
            hashes={"codec": own.hash if isinstance(own, HasHash) else ""},
            make=make,
        )


def _parts(
    source: object,
    dtype: str | torch.dtype | None,
    vae_dtype: str | torch.dtype,
    device: torch.device,
    offload: bool,
    t5: bool,
    revision: str | None,
    variant: str | None,
) -> tuple[ModelParts, Path | None]:
    if not isinstance(source, str | Path):
        return PipelineParts(source), None
    folder = resolve(source, revision=revision, variant=variant)
    options = {
        "dtype": pick_dtype(dtype, device),
        "vae_dtype": pick_dtype(vae_dtype, device),
        "device": device,
    }
    return FolderParts(folder, **options, t5=t5, offload=offload), folder


def _codec(
    codec: str | Path | Codec | None,
    parts: ModelParts,
    device: torch.device,
    tiling: bool | int,
    around: Callable[[], AbstractContextManager],
) -> Codec:
    if codec is None:
        return wrap_codec(parts.vae, tiling=tiling, around=around)
    return open_codec(codec).to(device) if isinstance(codec, str | Path) else codec


def _component_names(parts: ModelParts) -> tuple[str, ...]:
    """What is loaded for a prompt and an estimate; an operator has a hash of its own."""
    return tuple(sorted({*parts.family.text, parts.family.network, "vae", "scheduler"} & set(parts.classes)))


def _space(codec: Codec, parts: ModelParts) -> str:
    """A tiny autoencoder does not tell its latent space: the family does."""
    named = codec.latent_space if isinstance(codec, HasLatentSpace) else ""
    return OF_FAMILY[parts.family.name] if isinstance(codec, TinyCodec) else named


def _plain(dtype: str | torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _side(sample_size: int | list[int] | tuple[int, ...]) -> int:
    return int(max(sample_size)) if isinstance(sample_size, list | tuple) else int(sample_size)


def _commit(folder: Path | None) -> str:
    """The commit of a snapshot in the hub's cache, for records."""
    return folder.name if folder is not None and folder.parent.name == "snapshots" else ""
