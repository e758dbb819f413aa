"""What `paseo restore` does with one file: read, measure or take as measured, draw, write, and leave a
record.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch
from torch import Tensor

from paseo.apps.inputs import Job
from paseo.apps.measuring import complete, degradation_for, measured, paste_known
from paseo.base import Degradation, Watch
from paseo.degrade import Mask
from paseo.files import write_json
from paseo.images import Picture, read, save_png
from paseo.models import Model
from paseo.problem import device_of
from paseo.recipe import Recipe, read_off, settle
from paseo.recipe.load import LoadedOperator, learned_for_masks, load_model_of, load_operator_of
from paseo.record import SCHEMA_VERSION, environment, file_sha256, short
from paseo.seeds import of_image
from paseo.sheet import TOP, deviation_map
from paseo.street import Restored, restore

OperatorKey = tuple[str, str]  # the kind of its source, and its name


@dataclass(frozen=True)
class Plan:
    """One `paseo restore`: the recipe, and what is to be done with it."""

    recipe: Recipe
    mask: Path | None = None  # an image, or a folder with one per input; white is filled
    seeds: tuple[int, ...] = (0,)
    degrade: bool = False
    batch: int = 4


@dataclass(frozen=True, eq=False)
class Measured:
    """A file and all that follows from it before anything is computed."""

    job: Job
    picture: Picture
    recipe: Recipe  # settled: its operator is known
    degradation: Degradation
    mask_sha256: str | None
    noise_seed: int | None


@dataclass(frozen=True)
class Restoration:
    """A plan with its model loaded; called once per file."""

    plan: Plan
    loaded: Model | None = None  # a model that is there already
    operators: dict[OperatorKey, LoadedOperator] = field(default_factory=dict)

    @cached_property
    def model(self) -> Model:
        return self.loaded if self.loaded is not None else load_model_of(self.plan.recipe)

    def operator(self, recipe: Recipe) -> LoadedOperator:
        source = recipe.operator
        key = (source.kind, source.name or recipe.task)
        if key not in self.operators:
            self.operators[key] = load_operator_of(recipe, self.model)
        return self.operators[key]

    def load(self) -> None:
        """Find all weights now: what is missing is not the fault of a file."""
        _ = self.model
        if self.plan.recipe.settled and not self.plan.recipe.idle:
            self.operator(self.plan.recipe)

    def done(self, job: Job) -> bool:
        """Whether this very run of this file lies there already."""
        return complete(job, lambda: self.record(self._measured(job)))

    def __call__(self, job: Job, watch: Watch) -> dict[str, Any]:
        this = self._measured(job)
        record = self.record(this)
        y = measured(this.picture, this.degradation, this.recipe.sigma_y, this.noise_seed)
        seeds, n = self.plan.seeds, self.plan.batch
        if this.recipe.idle:
            draws = this.picture.rgb[None].expand(len(seeds), -1, -1, -1)
            record |= {"nfe": 0, "seconds": 0.0}
        else:
            parts = [self._draw(this, y, seeds[i : i + n], watch) for i in range(0, len(seeds), n)]
            draws = torch.cat([p.images for p in parts])
            record |= {"nfe": parts[0].nfe, "seconds": round(sum(p.seconds for p in parts), 3)}
            record |= _found(parts)
        if this.recipe.keep_known:
            draws = paste_known(draws, y, this.degradation, this.recipe.feather)
        record |= {"dtype": str(draws.dtype).removeprefix("torch.")}
        record["outputs"] = [
            {"file": path.name, "sha256": file_sha256(path)}
            for path in self._write(this, draws, y if self.plan.degrade else None, record)
        ]
        write_json(job.sidecar, record)
        return {
            "outputs": [str(job.folder / entry["file"]) for entry in record["outputs"]],
            "sidecar": str(job.sidecar),
            "seeds": list(seeds),
            "nfe": record["nfe"],
            "seconds": record["seconds"],
            "notes": [
                *(reason for reason in this.recipe.why if reason not in self.plan.recipe.why),
                *(_told(name, entry) for name, entry in record.get("found", {}).items()),
            ],
        }

    def _measured(self, job: Job) -> Measured:
        plan, picture = self.plan, read(job.source)
        recipe = plan.recipe if plan.degrade else read_off(plan.recipe, job.source)
        degradation, mask_sha256 = degradation_for(recipe, plan.mask, job, picture)
        if isinstance(degradation, Mask):
            recipe = settle(recipe, degradation, learned_for_masks(recipe, self.model))
        noise_seed = of_image(plan.seeds[0], picture.sha256) if plan.degrade else None
        return Measured(job, picture, recipe, degradation, mask_sha256, noise_seed)

    def _draw(self, this: Measured, y: Tensor, seeds: tuple[int, ...], watch: Watch) -> Restored:
        return restore(
            y,
            model=self.model,
            operator=self.operator(this.recipe).operator,
            degradation=this.degradation,
            sampler=this.recipe.sampler,
            sigma_y=this.recipe.sigma_y,
            seeds=list(seeds),
            size=this.picture.size if self.plan.degrade else None,
            carry=this.recipe.carry,
            watch=watch,
        )

    def record(self, this: Measured) -> dict[str, Any]:
        """All of the record that is known before anything is computed."""
        plan, job = self.plan, this.job
        entries = this.recipe.to_record()
        entries["model"] |= {"hashes": self.model.hashes}
        used = None if this.recipe.idle else self.operator(this.recipe).sha256
        entries["operator"] |= {"sha256": used}
        entries["recipe"] |= {"identity": self.model.identity}
        return {
            "schema_version": SCHEMA_VERSION,
            "kind": "restoration",
            "paseo": environment()["versions"].get("paseo"),
            "input": {
                "path": _relative(job.source, job.folder),
                "sha256": this.picture.sha256,
                "size": list(this.picture.size),
                "notes": this.picture.notes,
            },
            "mask": None
            if plan.mask is None
            else {"path": _relative(plan.mask, job.folder), "sha256": this.mask_sha256},
            "degrade": plan.degrade,
            "measurement_seed": this.noise_seed,
            "seeds": list(plan.seeds),
            "batch": plan.batch,
            "device": device_of(self.model.codec).type,
            **entries,
            **environment(),
        }

    def _write(
        self, this: Measured, draws: Tensor, y: Tensor | None, record: dict[str, Any]
    ) -> Iterator[Path]:
        job, alpha, seeds = this.job, this.picture.alpha, self.plan.seeds
        for k, (seed, image) in enumerate(zip(seeds, draws, strict=True)):
            suffix = f"_s{k}.png" if len(seeds) > 1 else ".png"
            yield save_png(job.path(suffix), image, alpha=alpha, record=short(record, seed))
        if len(seeds) > 1:
            std = draws.var(0).mean(0).sqrt()
            yield save_png(job.path("_mean.png"), draws.mean(0), alpha=alpha, record=short(record, None))
            yield save_png(
                job.path("_std.png"),
                deviation_map(std),
                record=f"standard deviation of the draws, black 0 to yellow {TOP} and above",
            )
        if y is not None:
            yield save_png(job.path("_measurement.png"), y[0])


def _told(name: str, entry: dict[str, Any]) -> str:
    spread = "" if entry["std"] is None else f" ± {entry['std']:.2g} over the draws"
    return f"{name} was found: {entry['mean']:.3g}{spread}"


def _found(parts: Sequence[Restored]) -> dict[str, Any]:
    """Parameters that were found, with their spread over the draws; nothing where none was sought."""
    found = {}
    for name in parts[0].found:
        draws = [value for part in parts for value in part.found[name]]
        spread = stdev(draws) if len(draws) > 1 else None
        found[name] = {"mean": fmean(draws), "std": spread, "draws": draws}
    return {"found": found} if found else {}


def _relative(path: Path, folder: Path) -> str:
    """From the sidecar's folder, so that a tree can be moved as a whole."""
    try:
        return Path(os.path.relpath(path, folder)).as_posix()
    except ValueError:  # another drive
        return path.resolve().as_posix()
