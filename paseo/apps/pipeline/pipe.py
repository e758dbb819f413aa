"""One pipeline for SD1.x, SD2.x, SDXL, SD3 and SD3.5: its components decide which it is.

Prompts are encoded once and remembered; `free_text_encoders()` lets the encoders go. The network may be in
half precision; the autoencoder and the operator stay in float32 unless they are converted one by one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import torch
from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL  # noqa: TID253 (this package is the diffusers face)
from diffusers.models.autoencoders.autoencoder_tiny import AutoencoderTiny  # noqa: TID253
from diffusers.models.transformers.transformer_sd3 import SD3Transformer2DModel  # noqa: TID253
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel  # noqa: TID253
from diffusers.pipelines.pipeline_utils import DiffusionPipeline  # noqa: TID253
from diffusers.schedulers.scheduling_utils import SchedulerMixin  # noqa: TID253
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase  # noqa: TID253

from paseo.apps.measuring import paste_known
from paseo.apps.pipeline.inputs import blank, generators, given_embeddings, to_batch, to_mask, to_operator
from paseo.apps.pipeline.output import PaseoPipelineOutput, as_kind, check_kind
from paseo.apps.pipeline.steps import Callback, StepWatcher
from paseo.base import BindsNoise, Degradation, LatentOperator, Sampler
from paseo.degrade import Mask, Task
from paseo.errors import BadInput, Cancelled, MissingWeights
from paseo.hub.attention import Backend, attention
from paseo.hub.autoencoder import wrap_codec
from paseo.hub.build import build_prior
from paseo.hub.conditioning import Conditioning
from paseo.hub.family import ModelFamily, classes_of, family_of
from paseo.hub.folder import check_complete, components, read_index, variant_of
from paseo.hub.folder import resolve as find_folder
from paseo.hub.operator import OperatorModel
from paseo.hub.text import Prompt, encode_text
from paseo.metrics.cost import Cost
from paseo.operators.net import OperatorNet
from paseo.operators.store import check_latent_space
from paseo.problem import fit
from paseo.recipe import Recipe, Request, resolve
from paseo.recipe.load import operator_at_hand
from paseo.settings.presets import Preset
from paseo.street import restore
from paseo.trust import vouch
from paseo.units import to_signed, to_unit

_KEPT = ("vae", "operator")  # stay in float32 when the pipeline is converted


class PaseoPipeline(DiffusionPipeline):
    """Restore images with a Stable Diffusion prior and a learned latent operator."""

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
        self._codec: Any = None
        self._prompts: dict[Any, Conditioning] = {}
        self._interrupt = False
        self._attention: Backend = "auto"
        self._check_operator(operator)

    # Loading, converting, saving

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: str | os.PathLike, **kwargs: Any
    ) -> PaseoPipeline:
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
    def from_pipe(cls, pipeline: Any, **options: Any) -> PaseoPipeline:
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

    def to(self, *args: Any, **kwargs: Any) -> PaseoPipeline:
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
        """Let the text encoders go; prompts that were encoded before can still be used."""
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
    def network(self) -> Any:
        return getattr(self, self.family.network)

    @property
    def codec(self) -> Any:
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

    def prior(self, conditioning: Conditioning, guidance: float = 1.0) -> Any:
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

    def _check_operator(self, operator: Any) -> None:
        """Refuse the operator of another latent space."""
        if isinstance(operator, OperatorNet):
            check_latent_space(operator.spec, self.codec.hash, self.config["force_operator"])

    # The call

    @torch.no_grad()
    def __call__(
        self,
        image: Any,
        task: str | Task | Degradation | None = None,
        prompt: Prompt | None = None,
        negative_prompt: Prompt | None = None,
        mask_image: Any = None,
        *,
        degradation: str | Task | Degradation | None = None,
        noise_level: float | None = None,
        sampler: Sampler | Preset | None = None,
        preset: str | None = None,
        operator: str | LatentOperator | BindsNoise | None = None,
        num_inference_steps: int | None = None,
        guidance_scale: float | None = None,
        num_images_per_prompt: int = 1,
        generator: torch.Generator | Sequence[torch.Generator] | None = None,
        conditioning: Conditioning | None = None,
        prompt_embeds: Tensor | None = None,
        pooled_prompt_embeds: Tensor | None = None,
        negative_prompt_embeds: Tensor | None = None,
        negative_pooled_prompt_embeds: Tensor | None = None,
        preserve_known: bool | None = None,
        output_type: str = "pil",
        return_dict: bool = True,
        callback_on_step_end: Callback | None = None,
        callback_on_step_end_tensor_inputs: Sequence[str] = ("latents",),
    ) -> Any:
        """Restore measured images.

        image: the degraded image or images, PIL or in [0,1]; at its own, small, size for super-resolution.
        task: "sr4", "sr8", "blur", "inpaint", "jpeg", or an object; the operator's own unless given
        (`degradation` is a synonym).
        mask_image: white where the image is to be filled; needs no learned operator.
        noise_level: σ_y, the measurement's noise in [0,1] units; the task's own unless given.
        sampler, preset: settings of one's own, or the name of a row of the paper such as "ffhq/sd35"; prompt,
        guidance and
            steps that are not given come from there.
        generator: one for each image to be made, or a single one.
        preserve_known: put the measured pixels back outside the hole; with a mask it is on.
        """
        check_kind(output_type)
        if num_images_per_prompt < 1:
            raise BadInput(
                f"num_images_per_prompt={num_images_per_prompt} cannot be used: ask for at least one."
            )
        y = to_batch(image)
        mask = None if mask_image is None else to_mask(mask_image, len(y))
        wanted = self.recipe(
            task if degradation is None else degradation,
            prompt,
            negative_prompt,
            mask,
            noise_level=noise_level,
            sampler=sampler,
            preset=preset,
            operator=operator,
            num_inference_steps=num_inference_steps,
            guidance_scale=guidance_scale,
            preserve_known=preserve_known,
        )
        embeddings = conditioning or given_embeddings(
            prompt_embeds, pooled_prompt_embeds, negative_prompt_embeds, negative_pooled_prompt_embeds
        )
        if embeddings is None:
            embeddings = self.encode_prompt(wanted.prompt or "", negative_prompt, wanted.guidance != 1)
        if mask is not None:
            y = blank(y, mask)
        y = y.repeat_interleave(num_images_per_prompt, 0)
        seeds = generators(generator, len(y))
        prior = self.prior(embeddings.repeat(num_images_per_prompt), wanted.guidance or 1.0)
        self._interrupt = False
        with Cost(self._execution_device) as cost:
            images, latents, interrupted = self._run(
                y, wanted, prior, seeds, callback_on_step_end, callback_on_step_end_tensor_inputs
            )
        if wanted.keep_known:
            images = paste_known(images, y, self._degradation(wanted), wanted.feather)
        self.maybe_free_model_hooks()
        result = as_kind(images, latents, output_type)
        if not return_dict:
            return (result,)
        return PaseoPipelineOutput(
            result, prior.nfe, cost.seconds, cost.peak_bytes, [g.initial_seed() for g in seeds], interrupted
        )

    def recipe(
        self,
        task: str | Task | Degradation | None = None,
        prompt: Prompt | None = None,
        negative_prompt: Prompt | None = None,
        mask: Mask | None = None,
        *,
        noise_level: float | None = None,
        sampler: Sampler | Preset | None = None,
        preset: str | None = None,
        operator: str | LatentOperator | BindsNoise | None = None,
        num_inference_steps: int | None = None,
        guidance_scale: float | None = None,
        preserve_known: bool | None = None,
    ) -> Recipe:
        """What a call with these arguments does, as the other doors decide it, and why (`recipe.why`)."""
        own = self.operator if operator is None else to_operator(operator)
        found = resolve(
            Request(
                model=str(self.config.get("_name_or_path") or type(self).__name__),
                family=self.family.name,
                task=vouch(task) if isinstance(task, str) else task or "",
                mask=mask if mask is not None else False,
                operator=own,
                preset=preset,
                sampler=sampler,
                steps=num_inference_steps,
                prompt=prompt,
                negative_prompt=negative_prompt,
                guidance=guidance_scale,
                sigma_y=noise_level,
                keep_known=preserve_known,
            )
        )
        if found.operator.kind == "model":
            raise MissingWeights(
                "There is no operator. Give one, from_pretrained(…, operator=FOLDER_OR_HUB_ID), or train it "
                "with `paseo train operator`; for free inpainting give a mask_image."
            )
        self._check_operator(found.operator.thing)
        return found

    @staticmethod
    def _degradation(wanted: Recipe) -> Degradation:
        found = wanted.degradation
        if found is None:
            raise BadInput(f"The task {wanted.task} has no degradation.")
        return found.degradation if isinstance(found, Task) else found

    def _run(
        self,
        y: Tensor,
        wanted: Recipe,
        prior: Any,
        seeds: list[torch.Generator],
        callback: Callback | None,
        watched: Sequence[str],
    ) -> tuple[Tensor, Tensor, bool]:
        """Images, latents, and whether somebody stopped the run: then these are the last clean estimate."""
        degradation, sampler = self._degradation(wanted), wanted.sampler
        steps = vars(sampler).get("steps", 2)  # a sampler of the user's own may walk otherwise
        with self.progress_bar(total=max(steps - 2, 0)) as bar:
            watcher = StepWatcher(self, bar, callback, watched)
            try:
                done = restore(
                    y,
                    operator=operator_at_hand(wanted.operator),
                    degradation=degradation,
                    sampler=sampler,
                    prior=prior,
                    codec=self.codec,
                    sigma_y=wanted.sigma_y,
                    seeds=seeds,
                    carry=wanted.carry,
                    watch=watcher,
                )
            except Cancelled:
                if watcher.last is None:
                    raise
                _, fitted = fit(to_signed(y[:1]), degradation, self.codec, prior)
                return to_unit(fitted.decode(watcher.last)).clamp(0, 1), watcher.last, True
            return done.images, done.latents, False


def _hashable(prompt: Prompt) -> Any:
    return prompt if isinstance(prompt, str) else tuple(prompt)
