"""What `paseo restore` does with one file: read it, measure or take it as measured, draw, write, record."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from paseo.apps.about import about
from paseo.apps.inputs import Job
from paseo.apps.measuring import complete, degradation_for, measured, paste_known
from paseo.apps.retouch import FacesFound, Retouch
from paseo.base import SPREAD, Degradation, Watch
from paseo.degrade import Mask
from paseo.errors import BadInput
from paseo.files import as_json
from paseo.formats import encode_picture
from paseo.images import Origin, Picture
from paseo.memory import Choice
from paseo.models import Model
from paseo.problem import device_of
from paseo.recipe import Recipe, read_off, settle
from paseo.recipe.load import LoadedOperator, learned_for_masks, load_model_of, load_operator_of
from paseo.record import SCHEMA_VERSION, environment, pinned, short
from paseo.restored import STD_NOTE, Restored
from paseo.seeds import of_image
from paseo.sheet import deviation_map
from paseo.street import restore
from paseo.windows import Windows

OperatorKey = tuple[str, str]  # the kind of its source, and its name


@dataclass(frozen=True)
class Plan:
    """One `paseo restore`: the recipe, and what is to be done with it."""

    recipe: Recipe
    mask: Path | None = None  # an image, or a folder with one per input; white is filled
    seeds: tuple[int, ...] = (0,)
    degrade: bool = False
    batch: int = 4  # draws of one picture computed at the same time
    together: int | None = 1  # pictures of one size computed at the same time; None: as many as fit
    size: tuple[int, int] | None = None  # (H, W) of the pictures sought, where measurements do not tell
    windows: Choice = "auto"  # how a large canvas is walked
    metadata: bool = True  # EXIF and colour profile go along


@dataclass(frozen=True, eq=False)
class Measured:
    """A picture and all that follows from it before anything is computed."""

    job: Job
    picture: Picture
    recipe: Recipe  # settled: its operator is known
    degradation: Degradation
    mask_sha256: str | None
    noise_seed: int | None
    told: list[dict[str, str]] = field(default_factory=list)  # warnings, once they were looked for

    @cached_property
    def y(self) -> Tensor:
        """(1,3,h,w) in [0,1]: measured, or taken as it is."""
        return measured(self.picture, self.degradation, self.recipe.sigma_y, self.noise_seed)


@dataclass(frozen=True, eq=False)
class Drawn:
    """The draws of one picture."""

    images: Tensor  # (draws, 3, H, W), on the CPU
    latents: Tensor
    nfe: int
    seconds: float  # its share of the pass
    windows: Windows | None
    together: int  # pictures in that pass; the last bits of a result depend on it
    found: Mapping[str, Any] = field(default_factory=dict)  # parameters that were sought (`PASEO(blind=…)`)
    faces: FacesFound | None = None  # None: they were not sought


@dataclass(frozen=True)
class Restoration:
    """A plan with its model loaded; called once per file."""

    plan: Plan
    loaded: Model | None = None  # a model that is there already
    loaded_faces: Model | None = None  # a face model that is there already
    operators: dict[OperatorKey, LoadedOperator] = field(default_factory=dict)

    @cached_property
    def model(self) -> Model:
        return self.loaded if self.loaded is not None else load_model_of(self.plan.recipe)

    @cached_property
    def faces(self) -> Retouch | None:
        """The face model, where faces are to be restored; the picture's own where it is the same."""
        recipe = self.plan.recipe
        if not recipe.faces:
            return None
        same = self.model if recipe.faces == recipe.model else None
        return Retouch(recipe, self.loaded_faces or same)

    def operator(self, recipe: Recipe) -> LoadedOperator:
        source = recipe.operator
        key = (source.kind, source.name or recipe.task)
        if key not in self.operators:
            self.operators[key] = load_operator_of(recipe, self.model)
        return self.operators[key]

    def load(self) -> None:
        """Load all weights now, so that missing ones are not reported as a failure of a file."""
        _ = self.model
        if self.faces is not None:
            self.faces.load()
        if self.plan.recipe.settled and not self.plan.recipe.idle:
            self.operator(self.plan.recipe)

    def done(self, job: Job) -> bool:
        """Whether this very run of this file lies there already."""
        return complete(job, self.suffixes(job.ending), lambda: self.record(self.prepare(job)))

    def __call__(self, job: Job, watch: Watch) -> dict[str, Any]:
        """One file alone."""
        this = self.prepare(job)
        return self.write(this, self.draw([this], watch)[0])

    def prepare(self, job: Job, picture: Picture | None = None) -> Measured:
        """Read a file and settle what depends on it; nothing is computed."""
        plan = self.plan
        picture = job.read() if picture is None else picture
        recipe = plan.recipe if plan.degrade else self._read_off(job)
        degradation, mask_sha256 = degradation_for(recipe, plan.mask, job, picture)
        if isinstance(degradation, Mask):
            recipe = settle(recipe, degradation, learned_for_masks(recipe, self.model))
        noise_seed = of_image(plan.seeds[0], picture.sha256) if plan.degrade else None
        this = Measured(job, picture, recipe, degradation, mask_sha256, noise_seed)
        as_json(self.record(this))  # what no record can hold is said now, not after the computation
        return this

    def _read_off(self, job: Job) -> Recipe:
        """The plan's recipe, with the task that the file tells where it was left open."""
        if job.data is None and job.source.is_file():
            return read_off(self.plan.recipe, job.source)
        if self.plan.recipe.open is not None:
            raise BadInput("The task can be read off a file only: name it, such as --task jpeg:40.")
        return self.plan.recipe

    def warnings(self, this: Measured) -> dict[str, str]:
        """What speaks against trusting this picture's result, by kind; looked for once."""
        if not this.told:
            this.told.append(
                {} if this.recipe.idle else about(self.model, this.y, this.degradation, self._size(this))
            )
        return this.told[0]

    def _size(self, this: Measured) -> tuple[int, int] | None:
        """(H, W) of the result, where its measurement does not tell."""
        return this.picture.size if self.plan.degrade else self.plan.size

    def draw(self, group: Sequence[Measured], watch: Watch, pad_to: int = 1) -> list[Drawn]:
        """Pictures of one size in one pass, or one picture in as many passes as its draws need.

        `pad_to` repeats the last picture up to so many: kernels are chosen by the size of a batch, so that
        the bytes of a picture depend on it, but not on who else is in it.
        """
        if any(this.recipe.idle or this.recipe != group[0].recipe for this in group):
            return [self._alone(this, watch) for this in group]
        seeds, together = self.plan.seeds, max(pad_to, len(group))
        if together == 1:
            n = self.plan.batch
            parts = [self._pass(group, seeds[i : i + n], watch) for i in range(0, len(seeds), n)]
        else:
            parts = [self._pass([*group, *[group[-1]] * (together - len(group))], seeds, watch)]
        images, latents = torch.cat([p.images for p in parts]), torch.cat([p.latents for p in parts])
        seconds = sum(p.seconds for p in parts) / len(group)
        rows = [slice(i * len(seeds), (i + 1) * len(seeds)) for i in range(len(group))]
        cost = (parts[0].nfe, seconds, parts[0].windows, together)
        return [
            self._retouched(this, Drawn(images[at].cpu(), latents[at].cpu(), *cost, _found(parts, at)))
            for this, at in zip(group, rows, strict=True)
        ]

    def _alone(self, this: Measured, watch: Watch) -> Drawn:
        """A picture with another degradation than the others of its pass, or one that needs none."""
        if not this.recipe.idle:
            return self.draw([this], watch)[0]
        same = this.picture.rgb[None].expand(len(self.plan.seeds), -1, -1, -1)
        return Drawn(same, same[:, :, :0, :0], 0, 0.0, None, 1)

    def _retouched(self, this: Measured, drawn: Drawn) -> Drawn:
        """The draws with their faces, where that was asked for, and with the seen pixels, where they stay."""
        images, faces, start = drawn.images, None, time.perf_counter()
        if self.faces is not None:
            images, faces = self.faces(this.y, images, this.recipe, this.degradation, self.plan.seeds)
        if this.recipe.keep_known:
            images = paste_known(images, this.y, this.degradation, this.recipe.feather)
        seconds = round(drawn.seconds + time.perf_counter() - start, 3)
        return replace(drawn, images=images, faces=faces, seconds=seconds)

    def _pass(self, group: Sequence[Measured], seeds: Sequence[int], watch: Watch) -> Restored:
        this = group[0]
        return restore(
            torch.cat([g.y.expand(len(seeds), -1, -1, -1) for g in group]) if len(group) > 1 else this.y,
            model=self.model,
            operator=self.operator(this.recipe).operator,
            degradation=this.degradation,
            sampler=this.recipe.sampler,
            sigma_y=this.recipe.sigma_y,
            carry=this.recipe.carry,
            seeds=list(seeds) * len(group),
            size=self._size(this),
            windows=self.plan.windows,
            watch=watch,
        )

    def write(self, this: Measured, drawn: Drawn) -> dict[str, Any]:
        """The record is made before anything is written, and takes its name last: where it lies, all does."""
        job, record = this.job, self.finished(this, drawn)
        files = list(self._files(this, drawn.images, record))
        names = [job.path(suffix).name for suffix, _ in files]
        sums = [hashlib.sha256(data).hexdigest() for _, data in files]
        record["outputs"] = [
            {"file": name, "sha256": sha256} for name, sha256 in zip(names, sums, strict=True)
        ]
        job.write_all([*files, (".json", as_json(record))])
        return {
            "outputs": [str(job.folder / name) for name in names],
            "sidecar": str(job.sidecar),
            "seeds": list(self.plan.seeds),
            "nfe": record["nfe"],
            "seconds": record["seconds"],
            "notes": [
                *(reason for reason in this.recipe.why if reason not in self.plan.recipe.why),
                *(_told(name, entry) for name, entry in drawn.found.items()),
                *(drawn.faces.notes(job.relative) if drawn.faces is not None else ()),
            ],
        }

    def finished(self, this: Measured, drawn: Drawn) -> dict[str, Any]:
        """The whole record, but for the files."""
        found = {
            "nfe": drawn.nfe,
            "seconds": drawn.seconds,
            "dtype": str(drawn.images.dtype).removeprefix("torch."),
            "metadata": self.plan.metadata,
            "windows": None if drawn.windows is None else asdict(drawn.windows),
        }
        more: dict[str, Any] = {"together": drawn.together} if drawn.together > 1 else {}
        more |= {"found": dict(drawn.found)} if drawn.found else {}
        record: dict[str, Any] = self.record(this) | found | more
        if drawn.faces is not None:
            found = {"told": drawn.faces.sentence(), "found": drawn.faces.to_record()}
            record["faces"] = {**record["faces"], **found}
        if told := self.warnings(this):
            record["warnings"] = list(told.values())
        return record

    def record(self, this: Measured) -> dict[str, Any]:
        """All of the record that is known before anything is computed."""
        plan, job = self.plan, this.job
        entries = this.recipe.to_record()
        name = pinned(this.recipe.model, self.model.folder)
        entries["model"] |= {"name": name, "hashes": self.model.hashes}
        used = None if this.recipe.idle else self.operator(this.recipe)
        entries["operator"] |= {"sha256": used and used.sha256}
        entries["operator"] |= {"name": used.name} if used and used.name else {}
        if self.faces is not None:
            entries["faces"] |= {"hashes": self.faces.model.hashes}
        entries["recipe"] |= {"identity": self.model.identity}
        return {
            "schema_version": SCHEMA_VERSION,
            "kind": "restoration",
            "paseo": environment()["versions"].get("paseo"),
            "input": {
                "path": job.address or _relative(job.source, job.folder),
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

    def _files(self, this: Measured, draws: Tensor, record: dict[str, Any]) -> Iterator[tuple[str, bytes]]:
        """(what follows the stem, the bytes) of every picture."""
        seeds, ending = self.plan.seeds, this.job.ending
        names = iter(self.suffixes(ending))
        origin = this.picture.origin if self.plan.metadata else Origin(this.picture.alpha)
        for seed, image in zip(seeds, draws, strict=True):
            yield next(names), encode_picture(image, ending, origin, short(record, seed))
        if len(seeds) > 1:
            std = deviation_map(draws.var(0).mean(0).sqrt())
            yield next(names), encode_picture(draws.mean(0), ending, origin, short(record, None))
            yield next(names), encode_picture(std, record=STD_NOTE)
        if self.plan.degrade:
            yield next(names), encode_picture(this.y[0])

    def suffixes(self, ending: str) -> list[str]:
        """What follows the stem in the names of all pictures of a run, in order."""
        draws = len(self.plan.seeds)
        found = [ending]
        if draws > 1:
            found = [*(f"_s{k}{ending}" for k in range(draws)), f"_mean{ending}", "_std.png"]
        return [*found, "_measurement.png"] if self.plan.degrade else found


def _told(name: str, entry: dict[str, Any]) -> str:
    spread = "" if entry["std"] is None else f" ± {entry['std']:.2g}"
    return f"{name} was found: {entry['mean']:.3g}{spread}"


def _found(parts: Sequence[Restored], rows: slice) -> dict[str, Any]:
    """Parameters that were found for one picture, and how far they may be off; nothing where none was
    sought.
    """
    every = {name: [v for part in parts for v in part.found[name]][rows] for name in parts[0].found}
    spreads = {name: fmean(values) for name, values in every.items() if name.endswith(SPREAD)}
    return {
        name: {"mean": fmean(draws), "std": spreads.get(name + SPREAD), "draws": draws}
        for name, draws in every.items()
        if not name.endswith(SPREAD)
    }


def _relative(path: Path, folder: Path) -> str:
    """From the sidecar's folder, so that a tree can be moved as a whole."""
    try:
        return Path(os.path.relpath(path, folder)).as_posix()
    except ValueError:  # another drive
        return path.resolve().as_posix()
