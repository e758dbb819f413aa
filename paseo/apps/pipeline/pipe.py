"""The call of a pipeline: measured images in, restored images out, with what every other door decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from paseo.apps.measuring import paste_known
from paseo.apps.pipeline.inputs import blank, generators, given_embeddings, to_batch, to_mask, to_operator
from paseo.apps.pipeline.loaded import LoadedPipeline
from paseo.apps.pipeline.output import Images, PaseoPipelineOutput, as_kind, check_kind
from paseo.apps.pipeline.steps import Callback, StepWatcher
from paseo.base import BindsNoise, Degradation, LatentOperator, Prior, Sampler
from paseo.degrade import Mask, Task
from paseo.errors import BadInput, Cancelled
from paseo.hub.conditioning import Conditioning
from paseo.hub.text import Prompt
from paseo.metrics.cost import Cost
from paseo.problem import fit
from paseo.recipe import Recipe, Request, resolve
from paseo.recipe.load import operator_at_hand
from paseo.settings.presets import Preset
from paseo.street import restore
from paseo.trust import vouch
from paseo.units import to_signed, to_unit


class PaseoPipeline(LoadedPipeline):
    """Restore images with a Stable Diffusion prior and a learned latent operator."""

    @torch.no_grad()
    def __call__(
        self,
        image: object,
        task: str | Task | Degradation | None = None,
        prompt: Prompt | None = None,
        negative_prompt: Prompt | None = None,
        mask_image: object = None,
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
    ) -> PaseoPipelineOutput | tuple[Images]:
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
                space=self.latent_space,
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
            net = self.shipped_operator(found.operator.name or found.task)
            return replace(found, operator=replace(found.operator, thing=net))
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
        prior: Prior,
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
