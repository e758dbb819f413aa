"""A model and a task made ready once, to run any sampler on any picture: measure, restore, round to 8 bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from paseo.base import BindsNoise, LatentOperator, Problem, Sampler, Watch, ignore
from paseo.degrade import Task
from paseo.degrade import task as find_task
from paseo.hub.device import pick_device
from paseo.hub.pretrained import PretrainedModel
from paseo.lab.bench.pictures import Truth, stack
from paseo.lab.bench.scores import ScoredPair, eight_bit, score
from paseo.models import Model, load_model, own_folder
from paseo.problem import pose
from paseo.recipe import Recipe, Request, canonical, resolve
from paseo.recipe.load import LoadedOperator, load_operator_of
from paseo.street import Restored, restore

TEXT = ("prompt", "negative_prompt", "guidance")  # options that belong to the request itself


@dataclass(frozen=True)
class Setup:
    """One model and one task, with the method whose settings decide prompt, guidance and sampler."""

    model_name: str
    task_name: str
    sigma_y: float | None = None  # in [0,1] units; None takes the task's own
    operator_path: str | None = None  # a folder; None takes the model's own for the task
    noise_seed: int = 0  # of the measurements
    device: str = "cpu"  # or cuda, mps, auto
    options: dict[str, Any] = field(default_factory=dict)  # for `load_model`: prompt, guidance, dtype …
    method: str = "paseo"
    label: str | None = None  # a name among the kept settings, if another than the method's
    preset: str | None = None  # whose kept settings; the model's otherwise
    settings: Mapping[str, object] = field(default_factory=dict)  # on top of them
    budget: int | None = None  # denoiser calls that the method may not exceed

    @cached_property
    def recipe(self) -> Recipe:
        """As every other door decides it; the seen pixels are never copied into what is scored."""
        rest = {name: value for name, value in self.options.items() if name not in TEXT}
        return resolve(
            Request(
                model=self.model_name,
                task=self.task_name,
                operator=self.operator_path,
                method=self.method,
                label=self.label,
                preset=self.preset,
                settings=self.settings,
                budget=self.budget,
                sigma_y=self.sigma_y,
                prompt=self.options.get("prompt"),
                negative_prompt=self.options.get("negative_prompt"),
                guidance=self.options.get("guidance"),
                keep_known=False,
                options=rest,
            )
        )

    @cached_property
    def model(self) -> Model:
        return _model(self.recipe, self.device)

    @cached_property
    def task(self) -> Task:
        return find_task(self.task_name)

    @property
    def sigma(self) -> float:
        return self.recipe.sigma_y

    @cached_property
    def loaded(self) -> LoadedOperator:
        return load_operator_of(self.recipe, self.model)

    @property
    def operator(self) -> LatentOperator | BindsNoise:
        return self.loaded.operator

    @cached_property
    def hashes(self) -> dict[str, str]:
        """Of everything stored that a result depends on: the whole model, and the operator."""
        return self.model.identity | {f"operator_{name}": sum_ for name, sum_ in self.loaded.files.items()}

    def measure(self, pictures: Sequence[Truth]) -> Tensor:
        """(B,3,h,w) in [0,1] units; each image's noise is its own, the same for every method."""
        return self.task.measure(
            stack(pictures), [p.seed("measurement", self.noise_seed) for p in pictures], self.sigma
        )

    def draw(
        self, sampler: Sampler, pictures: Sequence[Truth], seed: int = 0, watch: Watch = ignore
    ) -> Restored:
        """One restoration of each picture; `seed` is the run's, each image has its own stream of it."""
        return restore(
            self.measure(pictures),
            model=self.model,
            operator=self.operator,
            degradation=self.task.degradation,
            sampler=sampler,
            sigma_y=self.sigma,
            carry=self.recipe.carry,
            seeds=[p.seed("sample", seed) for p in pictures],
            size=pictures[0].size,
            watch=watch,
        )

    def pair(self, images: Tensor, pictures: Sequence[Truth]) -> ScoredPair:
        """Restorations as files would hold them, beside their truths."""
        return ScoredPair(eight_bit(images.cpu()), stack(pictures), self.task)

    def scores(
        self, sampler: Sampler, pictures: Sequence[Truth], names: Sequence[str], seed: int = 0
    ) -> dict[str, Tensor]:
        """Metric → (B,) of one restoration of each picture."""
        return score(self.pair(self.draw(sampler, pictures, seed).images, pictures), names)

    def unsupported(self, sampler: Sampler, picture: Truth) -> str | None:
        """Why the sampler cannot run here, or None."""
        return sampler.unsupported(self.problem(picture))

    @torch.no_grad()
    def problem(self, picture: Truth) -> Problem:
        """What a sampler is given for one picture."""
        return pose(
            self.measure([picture]),
            prior=self.model.prior,
            codec=self.model.codec,
            operator=self.operator,
            degradation=self.task.degradation,
            sigma_y=self.sigma,
            size=picture.size,
        )


_LOADED: dict[str, Model] = {}


def _model(recipe: Recipe, device: str) -> Model:
    """Loaded once per process; prompts of one model share its networks."""
    key = canonical({"model": recipe.model, "device": device, "options": recipe.options})
    own = own_folder(recipe.model) is not None  # one of ours; others are put in place by those who load them
    if key not in _LOADED:
        place = {} if own else {"device": device}
        _LOADED[key] = model = load_model(recipe.model, **place, **recipe.options)
        for part in (model.prior, model.codec) if own else ():
            if isinstance(part, nn.Module):
                part.to(pick_device(device))
    found = _LOADED[key]
    if isinstance(found, PretrainedModel):
        return found.prompted(recipe.prompt or "", recipe.negative_prompt or "", recipe.guidance or 1.0)
    return found
