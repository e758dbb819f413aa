"""A model and a task made ready once, to run any sampler on any picture: measure, restore, round to 8 bit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from paseo.base import Problem, Watch, ignore
from paseo.degrade import Task
from paseo.degrade import task as find_task
from paseo.errors import BadInput
from paseo.hub.device import pick_device
from paseo.images import to_signed
from paseo.lab.bench.pictures import Picture, stack
from paseo.lab.bench.scores import Pair, eight_bit, score
from paseo.models import Model, load_model
from paseo.record import file_sha256
from paseo.street import Padded, Restored, bound, observed_cells, restore
from paseo.train.export import codec_folder


@dataclass(frozen=True)
class Setup:
    """One model and one task."""

    model_name: str
    task_name: str
    sigma_y: float | None = None  # in [0,1] units; None takes the task's own
    operator_path: str | None = None  # a folder; None takes the model's own for the task
    noise_seed: int = 0  # of the measurements
    device: str = "cpu"  # or cuda, mps, auto
    options: dict[str, Any] = field(default_factory=dict)  # for `load_model`: prompt, guidance, dtype …

    @cached_property
    def model(self) -> Model:
        return _model(self.model_name, self.device, self.options)

    @cached_property
    def task(self) -> Task:
        return find_task(self.task_name)

    @property
    def sigma(self) -> float:
        return self.task.sigma_y if self.sigma_y is None else self.sigma_y

    @cached_property
    def operator(self) -> Any:
        if self.operator_path is None:
            return self.model.operator(self.task.name).to(pick_device(self.device))
        from paseo.operators.store import load_operator

        return load_operator(
            self.operator_path, codec_hash=self.model.hashes.get("codec", ""), device=pick_device(self.device)
        )

    @cached_property
    def hashes(self) -> dict[str, str]:
        """Of everything stored that a result depends on."""
        folder = self.model.folder
        operator = folder / "operators" / self.task.name if folder else None
        if self.operator_path:
            operator = Path(self.operator_path)
        found = dict(self.model.hashes)
        found |= (
            {f"{p.stem}_file": file_sha256(p) for p in sorted(folder.glob("*.safetensors"))} if folder else {}
        )
        found |= (
            {f"operator_{p.stem}": file_sha256(p) for p in sorted(operator.glob("*.safetensors"))}
            if operator
            else {}
        )
        return found

    def measure(self, pictures: Sequence[Picture]) -> Tensor:
        """(B,3,h,w) in [0,1] units; each image's noise is its own, the same for every method."""
        return self.task.measure(
            stack(pictures), [p.seed("measurement", self.noise_seed) for p in pictures], self.sigma
        )

    def draw(
        self, sampler: Any, pictures: Sequence[Picture], seed: int = 0, watch: Watch = ignore
    ) -> Restored:
        """One restoration of each picture; `seed` is the run's, each image has its own stream of it."""
        return restore(
            self.measure(pictures),
            model=self.model,
            operator=self.operator,
            degradation=self.task.degradation,
            sampler=sampler,
            sigma_y=self.sigma,
            seeds=[p.seed("sample", seed) for p in pictures],
            size=pictures[0].size,
            watch=watch,
        )

    def pair(self, images: Tensor, pictures: Sequence[Picture]) -> Pair:
        """Restorations as files would hold them, beside their truths."""
        return Pair(eight_bit(images.cpu()), stack(pictures), self.task)

    def scores(
        self, sampler: Any, pictures: Sequence[Picture], names: Sequence[str], seed: int = 0
    ) -> dict[str, Tensor]:
        """Metric → (B,) of one restoration of each picture."""
        return score(self.pair(self.draw(sampler, pictures, seed).images, pictures), names)

    def unsupported(self, sampler: Any, picture: Picture) -> str | None:
        """Why the sampler cannot run here, or None."""
        return sampler.unsupported(self.problem(picture))

    @torch.no_grad()
    def problem(self, picture: Picture) -> Problem:
        """What a sampler is given for one picture."""
        y, degradation = (
            to_signed(self.measure([picture]).to(pick_device(self.device))),
            self.task.degradation,
        )
        lifted = degradation.lift(y, picture.size)
        fitted = Padded(self.model.codec, picture.size, getattr(self.model.prior, "multiple", 1))
        y_z = fitted.encode(lifted)
        cells = observed_cells(degradation, fitted, y_z)
        return Problem(y, y_z, self.sigma, bound(self.operator, self.sigma), degradation, fitted, cells)


_LOADED: dict[str, Model] = {}


def _model(name: str, device: str, options: dict[str, Any]) -> Model:
    """Loaded once per process."""
    key = json.dumps([name, device, options], sort_keys=True, default=str)
    if key not in _LOADED:
        own = codec_folder(name) is not None  # one of ours; others are put in place by those who load them
        model = load_model(name, **options) if own else load_model(name, device=device, **options)
        for part in (model.prior, model.codec) if own else ():
            if isinstance(part, nn.Module):
                part.to(pick_device(device))
        _LOADED[key] = model
    return _LOADED[key]


def sampler_for(
    model: str, task: str, method: str, settings: dict[str, Any] | None = None, preset_name: str | None = None
) -> Any:
    """The tuned settings kept for model and task, or the method's defaults, with changes on top."""
    from paseo.samplers import method as find_method
    from paseo.settings.presets import preset

    entry = find_method(method)
    try:
        sampler = preset(model, task, preset_name or method).sampler
    except BadInput as error:
        if preset_name not in (None, method):
            fresh = " --set anchor=fresh" if preset_name == "paseo-dagger" else ""
            raise BadInput(
                f"{error} Choose some with `paseo tune --task {task} --method {method} --label "
                f"{preset_name}{fresh}`."
            ) from None
        sampler = entry.default
    if not isinstance(sampler, entry.cls):
        raise BadInput(
            f"The preset {preset_name or method!r} of {model} and {task} is a {type(sampler).__name__}, "
            f"not {entry.title}."
        )
    try:
        return replace(sampler, **(settings or {}))
    except TypeError as error:
        raise BadInput(f"{entry.title} does not take these settings: {error}.") from None
