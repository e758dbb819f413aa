"""What `paseo restore` does with one file: read, measure or take as measured, draw, write, and leave a
record.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from paseo.apps.inputs import Job
from paseo.apps.measuring import degradation_for, measured, measurement_seed
from paseo.errors import BadInput
from paseo.files import write_json
from paseo.images import Picture, read, save_png
from paseo.models import Model, load_model
from paseo.record import NOISE_UNIT, SCHEMA_VERSION, environment, file_sha256, sampler_record, short
from paseo.sheet import TOP, deviation_map
from paseo.street import restore


@dataclass(frozen=True)
class Plan:
    """One `paseo restore`, resolved: everything but the files."""

    task: str
    model: str
    sampler: Any
    operator: str | None = None  # a folder; None takes the model's own for the task
    mask: Path | None = None  # an image, or a folder with one per input; white is filled
    sigma_y: float = 0.01  # in [0,1] units
    seeds: tuple[int, ...] = (0,)
    degrade: bool = False
    batch: int = 4
    keep_known: bool = False
    options: Mapping[str, Any] = field(
        default_factory=dict
    )  # of the model: prompt, guidance, dtype, device, …


@dataclass(frozen=True)
class Restoration:
    """A plan with its model loaded; called once per file."""

    plan: Plan

    @cached_property
    def model(self) -> Model:
        return load_model(self.plan.model, **self.plan.options)

    @cached_property
    def operator(self) -> tuple[Any, dict[str, Any]]:
        """H_ψ and how the record names it."""
        plan = self.plan
        if plan.operator is None and plan.mask is not None:
            from paseo.operators.exact import LatentMask

            return LatentMask(torch.ones(())), {"name": "identity on the seen cells", "sha256": None}
        if plan.operator is None:
            folder = self.model.folder / "operators" / plan.task if self.model.folder else None
            return self.model.operator(plan.task), {"name": plan.task, "sha256": _weights_sha256(folder)}
        from paseo.operators.store import load_operator

        place = getattr(self.model.codec, "device", "cpu")
        found = load_operator(plan.operator, codec_hash=self.model.hashes.get("codec", ""), device=place)
        return found, {"name": plan.operator, "sha256": _weights_sha256(Path(plan.operator))}

    @cached_property
    def sampler(self) -> Any:
        """A free mask has no trained operator: the seen cells are the measurement, and the others have no
        say.
        """
        free = self.plan.mask is not None and self.plan.operator is None
        return (
            replace(self.plan.sampler, weight="mask")
            if free and hasattr(self.plan.sampler, "weight")
            else self.plan.sampler
        )

    def load(self) -> None:
        """Find all weights now."""
        _ = self.model, self.operator

    def __call__(self, job: Job, bar: Any) -> dict[str, Any]:
        picture = read(job.source)
        degradation, mask_sha256 = degradation_for(self.plan.task, self.plan.mask, job, picture)
        noise_seed = measurement_seed(picture, self.plan.seeds[0]) if self.plan.degrade else None
        y = measured(picture, degradation, self.plan.sigma_y, noise_seed)
        seeds, n = self.plan.seeds, self.plan.batch
        parts = [self._draw(y, degradation, seeds[i : i + n], picture, bar) for i in range(0, len(seeds), n)]
        draws = torch.cat([p.images for p in parts])
        if self.plan.keep_known:
            draws = _paste_known(draws, y, degradation)
        record = self._record(job, picture, mask_sha256, noise_seed)
        record |= {
            "nfe": parts[0].nfe,
            "seconds": round(sum(p.seconds for p in parts), 3),
            "dtype": str(draws.dtype).removeprefix("torch."),
        }
        record["outputs"] = [
            {"file": path.name, "sha256": file_sha256(path)}
            for path in self._write(job, picture, draws, y if self.plan.degrade else None, record)
        ]
        write_json(job.sidecar, record)
        outputs = [str(job.folder / entry["file"]) for entry in record["outputs"]]
        return {
            "outputs": outputs,
            "sidecar": str(job.sidecar),
            "seeds": list(self.plan.seeds),
            "nfe": record["nfe"],
            "seconds": record["seconds"],
        }

    def _draw(self, y: Tensor, degradation: Any, seeds: tuple[int, ...], picture: Picture, bar: Any) -> Any:
        return restore(
            y,
            model=self.model,
            operator=self.operator[0],
            degradation=degradation,
            sampler=self.sampler,
            sigma_y=self.plan.sigma_y,
            seeds=list(seeds),
            size=picture.size if self.plan.degrade else None,
            watch=getattr(bar, "watch", None)
            or (lambda step: bar.set_postfix_str(f"step {step.index + 1}/{step.total}")),
        )

    def _record(
        self, job: Job, picture: Picture, mask_sha256: str | None, noise_seed: int | None
    ) -> dict[str, Any]:
        plan = self.plan
        device = next((p.device.type for p in getattr(self.model.codec, "parameters", tuple)()), "cpu")
        return {
            "schema_version": SCHEMA_VERSION,
            "kind": "restoration",
            "paseo": environment()["versions"].get("paseo"),
            "input": {
                "path": _relative(job.source, job.folder),
                "sha256": picture.sha256,
                "size": picture.size,
                "notes": picture.notes,
            },
            "task": plan.task,
            "mask": None
            if plan.mask is None
            else {"path": _relative(plan.mask, job.folder), "sha256": mask_sha256},
            "sigma_y": plan.sigma_y,
            "noise_unit": NOISE_UNIT,
            "degrade": plan.degrade,
            "measurement_seed": noise_seed,
            "seeds": list(plan.seeds),
            "batch": plan.batch,
            "keep_known": plan.keep_known,
            "sampler": sampler_record(self.sampler),
            "model": {"name": plan.model, "hashes": self.model.hashes, "options": dict(plan.options)},
            "operator": self.operator[1] | {"given": plan.operator is not None},
            "device": device,
            **environment(),
        }

    def _write(
        self, job: Job, picture: Picture, draws: Tensor, y: Tensor | None, record: dict[str, Any]
    ) -> Iterator[Path]:
        seeds = self.plan.seeds
        for k, (seed, image) in enumerate(zip(seeds, draws, strict=True)):
            suffix = f"_s{k}.png" if len(seeds) > 1 else ".png"
            yield save_png(job.path(suffix), image, alpha=picture.alpha, record=short(record, seed))
        if len(seeds) > 1:
            std = draws.var(0).mean(0).sqrt()
            yield save_png(
                job.path("_mean.png"), draws.mean(0), alpha=picture.alpha, record=short(record, None)
            )
            yield save_png(
                job.path("_std.png"),
                deviation_map(std),
                record=f"standard deviation of the draws, black 0 to yellow {TOP} and above",
            )
        if y is not None:
            yield save_png(job.path("_measurement.png"), y[0])


def _weights_sha256(folder: Path | None) -> str | None:
    files = sorted(folder.glob("*.safetensors")) if folder is not None and folder.is_dir() else []
    return file_sha256(files[0]) if files else None


def _relative(path: Path, folder: Path) -> str:
    """From the sidecar's folder, so that a tree can be moved as a whole."""
    try:
        return Path(os.path.relpath(path, folder)).as_posix()
    except ValueError:  # another drive
        return path.resolve().as_posix()


def _paste_known(draws: Tensor, y: Tensor, degradation: Any) -> Tensor:
    """The measured pixels themselves where they were seen."""
    inner = getattr(degradation, "degradation", degradation)
    if not hasattr(inner, "observed_at"):
        raise BadInput("--keep-known is for inpainting: this task hides no pixels.")
    seen = inner.observed_at(*draws.shape[-2:]).to(draws)
    return seen * y.clamp(0, 1) + (1 - seen) * draws
