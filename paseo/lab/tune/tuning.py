"""What is tuned and on what, and what came of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path

from paseo.base import Sampler
from paseo.errors import BadInput
from paseo.lab.bench.pictures import Truth
from paseo.lab.bench.scores import PROTOCOL, Metric, metric
from paseo.lab.bench.setup import Setup
from paseo.lab.tune.spaces import Space, Value, space_of
from paseo.samplers import within


@dataclass(frozen=True)
class Tuning:
    """What is tuned, and on what."""

    setup: Setup
    method: str
    pictures: Sequence[Truth]
    study: Path  # the SQLite file
    trials: int = 50  # finished or given up, over all processes
    metric_name: str = "lpips"
    fixed: Mapping[str, object] = field(default_factory=dict)
    space_changes: Sequence[str] = ()
    preset_name: str | None = None  # what to start from, and the name under which the result is kept
    budget: int | None = None  # NFE that no trial may exceed
    batch: int = 4
    seed: int = 0
    prune: bool = True
    final_pictures: Sequence[
        Truth
    ] = ()  # where the best trials are compared once more; none: the best trial is taken
    finalists: int = 3
    grid: Sequence[Mapping[str, object]] = ()  # settings to be tried first, after those kept until now

    def __post_init__(self) -> None:
        if self.trials < 1 or self.batch < 1 or not self.pictures:
            raise BadInput(
                f"trials={self.trials}, batch={self.batch} and {len(self.pictures)} images: each must be "
                "at least 1."
            )

    @property
    def metric(self) -> Metric:
        return metric(self.metric_name)

    @property
    def label(self) -> str:
        return self.preset_name or self.method

    @property
    def space(self) -> Space:
        return space_of(
            self.method, masks=self.setup.task.masks, fixed=self.fixed, changes=self.space_changes
        )

    def base(self) -> Sampler:
        """The sampler that trials vary."""
        sampler = self.chosen.recipe.sampler
        return within(sampler, self.budget) if self.budget is not None else sampler

    @cached_property
    def chosen(self) -> Setup:
        """With the method's own settings, prompt and guidance; a new label starts from the method's."""
        known = replace(self.setup, method=self.method, label=self.preset_name, settings=dict(self.fixed))
        try:
            _ = known.recipe
        except BadInput:
            if self.preset_name is None:
                raise
            return replace(known, label=None)
        return known

    def sampler(self, values: Mapping[str, Value]) -> Sampler:
        """The base with some values; within the budget also where they change the calls per step."""
        sampler = replace(
            self.base(), **{name: self.space[name].short(value) for name, value in values.items()}
        )
        return within(sampler, self.budget) if self.budget is not None else sampler

    def name(self) -> str:
        """Task, method, metric and a digest of everything else."""
        facts = {
            "protocol": PROTOCOL,
            "hashes": self.chosen.hashes,
            "task": self.setup.task.params,
            "sigma_y": self.setup.sigma,
            "noise_seed": self.setup.noise_seed,
            "images": [p.sha256 for p in self.pictures],
            "fixed": dict(self.fixed),
            "space": {name: axis.to_json() for name, axis in self.space.items()},
            "budget": self.budget,
            "seed": self.seed,
        }
        if options := self.chosen.recipe.model_options():
            facts["options"] = options  # prompt, guidance, precision
        digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:10]
        return f"{self.setup.task.name} {self.label} {self.metric_name} {digest}"


@dataclass(frozen=True)
class Tuned:
    """The best settings and how they were found."""

    task: str
    label: str
    sampler: Sampler
    score: dict[str, float]  # means over the images, of the metric and of SCORED
    start_score: float | None  # of the settings that were kept until now
    importances: dict[str, float]
    trials: int
    pruned: int
    images: int
    study: str
    # every trial: its settings and its score, None where it was given up
    history: tuple[dict[str, object], ...] = ()
    beside: Mapping[str, object] = field(default_factory=dict)  # prompt, guidance, a leaner operator

    def entry(self) -> dict[str, object]:
        """As `presets.json` holds it."""
        source = f"tuned in {self.trials} trials; scores of {self.images} validation images"
        settings = json.loads(json.dumps(asdict(self.sampler)))
        return {
            "class": type(self.sampler).__name__,
            "settings": settings,
            "score": self.score,
            "source": source,
            **self.beside,
        }

    def as_json(self) -> dict[str, object]:
        more = {
            "start_score": self.start_score,
            "importances": self.importances,
            "trials": self.trials,
            "pruned": self.pruned,
        }
        return {
            "task": self.task,
            "method": self.label,
            **self.entry(),
            **more,
            "images": self.images,
            "study": self.study,
            "history": list(self.history),
        }
