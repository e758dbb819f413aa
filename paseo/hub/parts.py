"""Where the pieces of a Stable Diffusion model come from: a folder, each piece loaded when first needed, or a
loaded pipeline.

From a folder the order is what saves memory: the text encoders are loaded, used and freed before the denoiser
is read.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import torch

from paseo.errors import BadInput, MissingWeights, Unsupported, out_of_memory
from paseo.files import read_json
from paseo.hub.conditioning import Conditioning
from paseo.hub.family import ModelFamily, classes_of, family_of
from paseo.hub.folder import check_complete, components, read_index, variant_of, weight_files
from paseo.hub.text import Prompt, encode_text
from paseo.weights import check_counts, pretrained

LESS_MEMORY = "Load it in bfloat16, turn CPU offload on, or take a smaller model."


class ModelParts(Protocol):
    """The pieces of one model."""

    @property
    def family(self) -> ModelFamily: ...
    @property
    def classes(self) -> Mapping[str, Any]: ...  # by component
    @property
    def dtype(self) -> torch.dtype: ...  # of the network
    @property
    def scheduler(self) -> Mapping[str, Any]: ...  # config
    @property
    def network_config(self) -> Mapping[str, Any]: ...
    @property
    def network(self) -> Any: ...
    @property
    def vae(self) -> Any: ...
    def encode(self, prompt: Prompt, negative_prompt: Prompt, guided: bool) -> Conditioning: ...


class FolderParts:
    """A diffusers folder."""

    def __init__(
        self,
        folder: Path,
        *,
        dtype: torch.dtype,
        device: torch.device,
        vae_dtype: torch.dtype = torch.float32,
        t5: bool = True,
        offload: bool = False,
    ) -> None:
        self.folder, self.dtype, self.device, self.vae_dtype, self.offload = (
            folder,
            dtype,
            device,
            vae_dtype,
            offload,
        )
        self.classes = components(read_index(folder))
        if not t5:
            self.classes = {
                k: v for k, v in self.classes.items() if k not in ("tokenizer_3", "text_encoder_3")
            }
        self.family = family_of({k: v[1] for k, v in self.classes.items()}, str(folder))
        wanted = (*self.family.text, self.family.network, "vae", "scheduler")
        check_complete(
            folder,
            skip=tuple(k for k in components(read_index(folder)) if k not in wanted or k not in self.classes),
        )
        self._hooks: list[Any] = []

    @cached_property
    def scheduler(self) -> Mapping[str, Any]:
        return self._json("scheduler", "scheduler_config.json")

    @cached_property
    def network_config(self) -> Mapping[str, Any]:
        return self._json(self.family.network, "config.json")

    @cached_property
    def network(self) -> Any:
        return self._place(self.load(self.family.network, self.dtype))

    @cached_property
    def vae(self) -> Any:
        return self._place(self.load("vae", self.vae_dtype))

    def encode(self, prompt: Prompt, negative_prompt: Prompt, guided: bool) -> Conditioning:
        """Load the text parts, encode, free them."""
        parts = {name: self.load(name, self.dtype) for name in self.family.text if name in self.classes}
        with out_of_memory("loading the text encoders", LESS_MEMORY):
            parts = {
                k: v.to(self.device).eval() if isinstance(v, torch.nn.Module) else v for k, v in parts.items()
            }
        result = encode_text(
            self.family,
            parts,
            prompt,
            negative_prompt,
            guided=guided,
            device=self.device,
            network_config=self.network_config,
        ).to("cpu")
        del parts
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        return result

    def load(self, name: str, dtype: torch.dtype) -> Any:
        """One component, from safetensors only."""
        library, kind = self.classes[name]
        if library not in ("diffusers", "transformers"):
            raise Unsupported(
                f"{self.folder} wants {name} from {library}.{kind}; only parts of diffusers and "
                "transformers are loaded."
            )
        cls = getattr(import_module(library), kind, None)
        if cls is None:
            raise Unsupported(
                f"{library} {import_module(library).__version__} has no class {kind}, which {name} needs. "
                "Install another version."
            )
        if not isinstance(cls, type) or not hasattr(cls, "from_pretrained"):
            raise Unsupported(
                f"{self.folder} wants {name} to be {library}.{kind}, which is no part of a model."
            )
        remote: dict[str, Any] = {"trust_remote_code": False} if library == "transformers" else {}
        place = self.folder / name
        with out_of_memory(f"loading {name}", LESS_MEMORY):
            if issubclass(cls, torch.nn.Module):
                variant = variant_of(self.folder, name)
                options = {"dtype": dtype, "variant": variant, "low_cpu_mem_usage": True, **remote}
                return pretrained(cls, place, weight_files(place), **options)
            try:
                return cls.from_pretrained(str(place), **remote)
            except Exception as error:  # tokenizers raise whatever a damaged file leads them to
                raise MissingWeights(
                    f"{place} could not be loaded as {kind}: {_first_line(error)} Try `paseo doctor`."
                ) from error

    def _place(self, module: Any) -> Any:
        """On the device; with offload in main memory, moved over while it works and back when another one
        does.
        """
        if not self.offload:
            with out_of_memory(f"moving {type(module).__name__} to {self.device}", LESS_MEMORY):
                return module.to(self.device).eval()
        from accelerate import cpu_offload_with_hook

        module, hook = cpu_offload_with_hook(
            module.eval(), self.device, self._hooks[-1] if self._hooks else None
        )
        self._hooks.append(hook)
        self._hooks[0].hook.prev_module_hook = (
            hook if len(self._hooks) > 1 else None
        )  # a ring: each one moves the one before it back
        return module

    def _json(self, name: str, file: str) -> Mapping[str, Any]:
        try:
            config = read_json(self.folder / name / file)
        except BadInput as error:
            raise MissingWeights(f"{error} Download the model again.") from error
        if not isinstance(config, dict):
            raise MissingWeights(
                f"{self.folder / name / file} does not hold a JSON object. Download the model again."
            )
        check_counts(config, self.folder / name / file)
        return config


class PipelineParts:
    """A pipeline that somebody has loaded; its modules are used where and as they are."""

    def __init__(self, pipe: Any) -> None:
        if not hasattr(pipe, "components") or not hasattr(pipe, "scheduler"):
            raise BadInput(
                "A model is a folder, a hub id or a loaded Stable Diffusion pipeline, got "
                f"{type(pipe).__name__}."
            )
        self.pipe = pipe
        self.family = family_of(classes_of(pipe.components), type(pipe).__name__)
        self.network, self.vae = getattr(pipe, self.family.network), pipe.vae
        self.scheduler: Mapping[str, Any] = {
            **pipe.scheduler.config,
            "_class_name": type(pipe.scheduler).__name__,
        }
        self.network_config: Mapping[str, object] = self.network.config
        self.classes = {k: v for k, v in classes_of(pipe.components).items() if v is not None}
        self.dtype: torch.dtype = self.network.dtype

    def encode(self, prompt: Prompt, negative_prompt: Prompt, guided: bool) -> Conditioning:
        return encode_text(
            self.family,
            self.pipe.components,
            prompt,
            negative_prompt,
            guided=guided,
            network_config=self.network_config,
        )


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".") + "."
