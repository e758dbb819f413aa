"""The parts of a pipeline: SD1.x, SD2.x, SDXL, SD3 or SD3.5, as its components tell; loading and converting.

Prompts are encoded once and remembered; `free_text_encoders()` frees the encoders. The network may be in
half precision; the autoencoder and the operator stay in float32 unless they are converted one by one.
"""

from __future__ import annotations

import os
from typing import Any, Self

import torch
from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL  # noqa: TID253 (this package is the diffusers face)
from diffusers.models.autoencoders.autoencoder_tiny import AutoencoderTiny  # noqa: TID253
from diffusers.models.transformers.transformer_sd3 import SD3Transformer2DModel  # noqa: TID253
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel  # noqa: TID253
from diffusers.pipelines.pipeline_utils import DiffusionPipeline  # noqa: TID253
from diffusers.schedulers.scheduling_utils import SchedulerMixin  # noqa: TID253
from transformers import PreTrainedModel, PreTrainedTokenizerBase  # noqa: TID253

from paseo.apps.pipeline.inputs import to_operator
from paseo.codecs.kl import KLCodec
from paseo.codecs.tiny import TinyCodec
from paseo.errors import MissingWeights
from paseo.hub.attention import Backend, attention
from paseo.hub.autoencoder import wrap_codec
from paseo.hub.build import build_prior
from paseo.hub.conditioning import Conditioning
from paseo.hub.denoiser import Denoiser
from paseo.hub.family import ModelFamily, classes_of, family_of
from paseo.hub.folder import check_complete, components, read_index, variant_of
from paseo.hub.folder import resolve as find_folder
from paseo.hub.operator import OperatorModel
from paseo.hub.space import OF_FAMILY
from paseo.hub.text import Prompt, encode_text
from paseo.models.shipped import shipped_operators
from paseo.operators.net import OperatorNet
from paseo.operators.store import check_latent_space, load_operator

_KEPT = ("vae", "operator")  # stay in float32 when the pipeline is converted


class LoadedPipeline(DiffusionPipeline):
    """A Stable Diffusion model with a place for a latent operator; `PaseoPipeline` adds the call."""

    model_cpu_offload_seq = "text_encoder->text_encoder_2->text_encoder_3->unet->transformer->vae"
    # small, and its Jacobian products do not pass through forward()
    _exclude_from_cpu_offload = ["operator"]  # noqa: RUF012
    _callback_tensor_inputs = ["latents", "clean_latents"]  # noqa: RUF012
    _optional_components = [  # noqa: RUF012
        *("tokenizer", "text_encoder", "tokenizer_2", "text_encoder_2", "tokenizer_3", "text_encoder_3"),
        *("unet", "transformer", "operator"),
    ]

    def __init__(
        self,
        vae: AutoencoderKL | AutoencoderTiny,
        scheduler: SchedulerMixin,
        tokenizer: PreTrainedTokenizerBase | None = None,
        text_encoder: PreTrainedModel | None = None,
        tokenizer_2: PreTrainedTokenizerBase | None = None,
        text_encoder_2: PreTrainedModel | None = None,
        tokenizer_3: PreTrainedTokenizerBase | None = None,
        text_encoder_3: PreTrainedModel | None = None,
        unet: UNet2DConditionModel | None = None,
        transformer: SD3Transformer2DModel | None = None,
        operator: OperatorModel | None = None,
        force_operator: bool = False,
        published_time: bool = False,
    ) -> None:
        """`force_operator` pairs an operator with another autoencoder; `published_time` repeats released
        code's off-by-one.
        """
        super().__init__()
        self.register_modules(
            vae=vae,
            scheduler=scheduler,
            tokenizer=tokenizer,
            text_encoder=text_encoder,
            tokenizer_2=tokenizer_2,
            text_encoder_2=text_encoder_2,
            tokenizer_3=tokenizer_3,
            text_encoder_3=text_encoder_3,
            unet=unet,
            transformer=transformer,
            operator=operator,
        )
        self.register_to_config(force_operator=force_operator, published_time=published_time)
        self.family: ModelFamily = family_of(classes_of(self.components), type(self).__name__)
        self._codec: KLCodec | TinyCodec | None = None
        self._prompts: dict[tuple[object, ...], Conditioning] = {}
        self._shipped: dict[str, OperatorNet] = {}
        self._interrupt = False
        self._attention: Backend = "auto"
        self._check_operator(operator)

    # Loading, converting, saving

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: str | os.PathLike, **kwargs: Any) -> Self:
        """From a diffusers folder or hub id of a supported family, or from what `save_pretrained` wrote.

        `operator` is a folder, a hub id or an operator. `dtype` (or a dictionary of them) is for the network
        and the text encoders; the autoencoder is loaded in float32 unless the dictionary names it.
        `text_encoder_3=None, tokenizer_3=None` leaves T5 out.
        """
        name = pretrained_model_name_or_path
        folder = find_folder(str(name), revision=kwargs.pop("revision", None), variant=kwargs.get("variant"))
        index = read_index(folder)
        family = family_of({key: kind for key, (_, kind) in components(index).items()}, str(name))
        check_complete(folder, skip=tuple(k for k, v in kwargs.items() if v is None))
        kwargs["variant"] = kwargs.get("variant") or variant_of(folder, family.network)
        for part in (p for p in cls._optional_components if p not in components(index)):
            kwargs.setdefault(part, None)
        if kwargs.get("operator") is not None:
            kwargs["operator"] = to_operator(kwargs["operator"])
        dtype = kwargs.pop("dtype", None) or kwargs.pop("torch_dtype", None) or torch.float32
        table = dict(dtype) if isinstance(dtype, dict) else {"default": dtype}
        kwargs["dtype"] = {**dict.fromkeys(_KEPT, torch.float32), **table}
        pipe = super().from_pretrained(
            str(folder), use_safetensors=True, **{**kwargs, "trust_remote_code": False}
        )
        pipe.register_to_config(_name_or_path=str(name))
        return pipe

    @classmethod
    def from_pipe(cls, pipeline: DiffusionPipeline, **options: Any) -> Self:
        """Around the parts of a loaded pipeline, which are shared and keep their dtype unless `dtype` is
        given.
        """
        family_of(classes_of(pipeline.components), type(pipeline).__name__)
        if options.get("operator") is not None:
            options["operator"] = to_operator(options["operator"])
        if options.get("dtype") is None:
            network = getattr(pipeline, "transformer", None) or pipeline.unet
            options["dtype"] = next(network.parameters()).dtype
        return super().from_pipe(pipeline, **options)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """As in diffusers, but a dtype is for the network and the text encoders: autoencoder and operator
        stay as they are.
        """
        dtype = kwargs.pop("dtype", None) or next((a for a in args if isinstance(a, torch.dtype)), None)
        super().to(*[a for a in args if not isinstance(a, torch.dtype)], **kwargs)
        for name, part in self.components.items():
            if (
                name not in _KEPT
                and isinstance(part, torch.nn.Module)
                and dtype not in (None, next(part.parameters()).dtype)
            ):
                part.to(dtype=dtype)
        return self

    def set_attention_backend(self, backend: Backend) -> None:
        """Which attention kernel runs: "auto", "math", "flash", "efficient" or "cudnn"."""
        attention(backend)
        self._attention, self._codec = backend, None

    def free_text_encoders(self) -> None:
        """Free the text encoders; prompts that were encoded before can still be used."""
        for name in self.family.text:
            if name.startswith("text_encoder"):
                setattr(self, name, None)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    # Parts

    @property
    def interrupt(self) -> bool:
        return self._interrupt

    @property
    def network(self) -> UNet2DConditionModel | SD3Transformer2DModel:
        return getattr(self, self.family.network)

    @property
    def codec(self) -> KLCodec | TinyCodec:
        """The autoencoder as a codec."""
        if self._codec is None or self._codec.vae is not self.vae:
            self._codec = wrap_codec(
                self.vae,
                **({} if isinstance(self.vae, AutoencoderTiny) else {"around": attention(self._attention)}),
            )
        return self._codec

    def encode_prompt(
        self, prompt: Prompt, negative_prompt: Prompt | None = None, do_classifier_free_guidance: bool = True
    ) -> Conditioning:
        """Embeddings of a prompt, remembered; they can be saved, and given back to the call as
        `conditioning`.
        """
        negative = negative_prompt or ""
        key = (_hashable(prompt), _hashable(negative), do_classifier_free_guidance)
        if key not in self._prompts:
            if getattr(self, "text_encoder_2" if self.family.name != "sd" else "text_encoder") is None:
                raise MissingWeights(
                    "The text encoders were freed, and this prompt was not encoded before. Give "
                    "embeddings, or load them again."
                )
            self._prompts[key] = encode_text(
                self.family,
                self.components,
                prompt,
                negative,
                guided=do_classifier_free_guidance,
                device=self._execution_device,
                network_config=self.network.config,
            )
        return self._prompts[key]

    def prior(self, conditioning: Conditioning, guidance: float = 1.0) -> Denoiser:
        """The denoiser with these embeddings bound."""
        return build_prior(
            self.family,
            self.network,
            {**self.scheduler.config, "_class_name": type(self.scheduler).__name__},
            conditioning,
            guidance,
            published_time=self.config["published_time"],
            around=attention(self._attention),
        )

    @property
    def latent_space(self) -> str:
        """As operators know it: by channel count, scale and shift; of a tiny autoencoder by the family."""
        codec = self.codec
        return OF_FAMILY[self.family.name] if isinstance(codec, TinyCodec) else codec.latent_space

    def shipped_operator(self, name: str) -> OperatorNet:
        """The one that comes with the package for this latent space, loaded once."""
        folder = shipped_operators(self.latent_space).get(name)
        if folder is None:
            raise MissingWeights(
                "There is no operator. Give one, from_pretrained(…, operator=FOLDER_OR_HUB_ID), or train it "
                "with `paseo train operator`; for free inpainting give a mask_image."
            )
        if name not in self._shipped:
            self._shipped[name] = load_operator(folder, device=self.codec.device)
        return self._shipped[name]

    def _check_operator(self, operator: object) -> None:
        """Refuse the operator of another latent space."""
        if isinstance(operator, OperatorNet):
            check_latent_space(operator.spec, self.codec.hash, self.config["force_operator"])


def _hashable(prompt: Prompt) -> str | tuple[str, ...]:
    return prompt if isinstance(prompt, str) else tuple(prompt)
