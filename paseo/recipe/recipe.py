"""A recipe: one restoration with nothing left open, but for the picture and the seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from paseo.base import BindsNoise, Degradation, LatentOperator, Sampler
from paseo.degrade import Task
from paseo.errors import BadInput
from paseo.recipe.request import Request
from paseo.record import NOISE_UNIT, sampler_from_record, sampler_record

FEATHER = 4  # pixels around a hole over which restored and seen pixels are blended
FACES = "faces-128"  # the model for faces in photographs
REPEATED = ("sampler", "paseo")  # entries that a replay writes as it read them: equal runs give equal bytes
MOST_NOISE = 10  # σ_y of images in [0,1]; a record holds no more
NOTHING = "noise:0"  # the task of a picture that is fine
CHAIN = "chain"  # `--operator chain`, and how a record names it
CELLS = "identity on the seen cells"  # how a record names the operator of a free mask

Source = Literal["model", "given", "cells", "mask", "chain"]


@dataclass(frozen=True)
class OperatorSource:
    """Where H_ψ comes from.

    model   the one stored with the model for the task, or under another `name`
    given   a folder or hub id, or an object that was passed
    cells   the identity on the seen latent cells: a mask that no operator was trained for
    chain   E∘A∘D itself: decode, degrade, encode. Needs no training, and costs the codec at every product
    mask    open until the mask is seen (`settle`): `given` or `model` if it stands for it, else `cells`
    """

    kind: Source = "model"
    place: str = ""  # folder or hub id of a given one
    name: str = ""  # of a stored one that is not the task's own, such as "family"
    thing: LatentOperator | BindsNoise | None = field(default=None, compare=False)  # one that was passed

    @property
    def given(self) -> bool:
        return bool(self.place) or self.thing is not None


@dataclass(frozen=True)
class Recipe:
    """What `resolve` decided. Equal recipes restore equally."""

    model: str
    task: str
    sampler: Sampler
    operator: OperatorSource = OperatorSource()
    sigma_y: float = 0.01  # in [0,1] units
    prompt: str | Sequence[str] | None = None  # None: the model is unconditional
    negative_prompt: str | Sequence[str] | None = None
    guidance: float | None = None
    keep_known: bool = False
    feather: int = FEATHER
    carry: float = 0.0  # a, the share of what the codec cannot hold that is taken from the measurement
    faces: str = ""  # the model that restores the faces of the picture; "": they are like the rest
    masked: bool = False  # a mask is given with the picture
    options: Mapping[str, Any] = field(default_factory=dict)  # of the model: device, dtype, offload, …
    rows: str = field(
        default="", compare=False
    )  # which kept settings these are, such as "faces-128 sr4 paseo"
    why: tuple[str, ...] = field(default=(), compare=False)  # what was chosen, and for which reason
    degradation: Degradation | Task | None = field(default=None, compare=False)  # None: named by `task`
    found: Mapping[str, Any] | None = field(default=None, compare=False)  # what was read off the file
    open: Request | None = field(default=None, compare=False)  # the task is to be read off the file
    recorded: Mapping[str, Any] = field(
        default_factory=dict, compare=False
    )  # entries of the record it is from

    def __post_init__(self) -> None:
        if not 0 <= self.sigma_y <= MOST_NOISE:  # NaN is not
            raise BadInput(
                f"sigma_y={self.sigma_y} cannot be used: the noise of images in [0,1] is a number from 0 to "
                f"{MOST_NOISE}."
            )
        if self.guidance is not None and not math.isfinite(self.guidance):
            raise BadInput(f"guidance={self.guidance} cannot be used: a finite number was expected.")

    @property
    def idle(self) -> bool:
        """Whether there is nothing to restore."""
        return self.task == NOTHING

    @property
    def settled(self) -> bool:
        """Whether nothing waits for a file or its mask any more."""
        return self.open is None and self.operator.kind != "mask"

    def model_options(self) -> dict[str, object]:
        """For `load_model`."""
        texts = {
            "prompt": self.prompt,
            "negative_prompt": self.negative_prompt,
            "guidance": self.guidance,
        }
        return {**self.options, **{name: value for name, value in texts.items() if value is not None}}

    def to_record(self) -> dict[str, Any]:
        """The entries of a record that a recipe decides; the run adds hashes, seeds and files."""
        source = self.operator
        by_kind = {"cells": CELLS, "chain": CHAIN}
        name = source.place or source.name or by_kind.get(source.kind, self.task)
        more: dict[str, Any] = {"carry": self.carry} if self.carry else {}
        more |= {"found": dict(self.found)} if self.found is not None else {}
        entries: dict[str, Any] = {
            "task": self.task,
            "sigma_y": self.sigma_y,
            "noise_unit": NOISE_UNIT,
            "keep_known": self.keep_known,
            "sampler": sampler_record(self.sampler),
            "model": {"name": self.model, "options": self.model_options()},
            "operator": {"name": name, "given": source.given},
            "recipe": {"rows": self.rows, "feather": self.feather, "why": list(self.why), **more},
        }
        entries |= {"faces": {"model": self.faces}} if self.faces else {}
        return entries | {name: self.recorded[name] for name in REPEATED if name in self.recorded}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Recipe:
        """The recipe of a record. Records before recipes copied the seen pixels without blending."""
        try:
            operator, model = record["operator"], record["model"]
            options = dict(model.get("options", {}))
            texts = {name: options.pop(name, None) for name in ("prompt", "negative_prompt", "guidance")}
            return cls(
                model=model["name"],
                task=record["task"],
                sampler=sampler_from_record(record["sampler"], _samplers()),
                operator=_source_of(operator, record["task"]),
                sigma_y=float(record["sigma_y"]),
                keep_known=bool(record["keep_known"]),
                feather=int(record.get("recipe", {}).get("feather", 0)),
                carry=float(record.get("recipe", {}).get("carry", 0.0)),
                found=record.get("recipe", {}).get("found"),
                faces=str((record.get("faces") or {}).get("model", "")),
                masked=record.get("mask") is not None,
                options=options,
                why=("as recorded",),
                recorded={name: record[name] for name in REPEATED if name in record},
                **texts,
            )
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise BadInput(f"The record is incomplete: {error}.") from None


def _source_of(operator: Mapping[str, Any], task: str) -> OperatorSource:
    if operator.get("given"):
        return OperatorSource("given", operator["name"])
    if operator["name"] == CELLS:
        return OperatorSource("cells")
    if operator["name"] == CHAIN:
        return OperatorSource("chain")
    return OperatorSource("model", name="" if operator["name"] == task else str(operator["name"]))


def _samplers() -> dict[str, type]:
    from paseo.samplers import METHODS

    return {method.cls.__name__: method.cls for method in METHODS.values()}
