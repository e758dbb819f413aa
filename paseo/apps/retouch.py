"""`--faces`: the faces of a restored picture by the face model, and a word on each.

The picture is restored as a whole first; then every draw is searched for faces, and those that the face
model can help are replaced (`paseo.faces`). What it did and why is kept in the record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from paseo.base import Degradation
from paseo.faces import FaceModel, FaceReport, restore_faces
from paseo.faces.weights import load_cascade
from paseo.models import Model, load_model
from paseo.recipe import Recipe
from paseo.recipe.faces import recipe_for_faces


@dataclass(frozen=True, eq=False)
class FacesFound:
    """What became of the faces of one picture: a list of reports for every draw."""

    draws: tuple[tuple[FaceReport, ...], ...] = ()
    hint: str | None = None  # where the picture is a face itself

    def to_record(self) -> list[list[dict[str, Any]]]:
        return [[_entry(face) for face in draw] for draw in self.draws]

    def sentence(self) -> str:
        """One line about the first draw."""
        if not self.draws or not self.draws[0]:
            return "faces: none found"
        done = sum(face.restored for face in self.draws[0])
        left = Counter(face.reason.split(":")[0].split(" (")[0] for face in self.draws[0] if face.reason)
        others = "".join(f"; {n} left as {_they(n)}: {reason}" for reason, n in left.items())
        return f"faces: {done} restored by the face model{others}"


@dataclass(frozen=True, eq=False)
class Retouch:
    """The face model of a run. `model` is one that is loaded already."""

    recipe: Recipe
    loaded: Model | None = None

    @cached_property
    def model(self) -> Model:
        return self.loaded or load_model(self.recipe.faces, **self.recipe.options)

    def load(self) -> None:
        """Find all weights now."""
        load_cascade()
        _ = self.model

    def __call__(
        self, y: Tensor, draws: Tensor, recipe: Recipe, degradation: Degradation, seeds: Sequence[int]
    ) -> tuple[Tensor, FacesFound]:
        """Draws (n,3,H,W) of a measurement y (1,3,h,w), all in [0,1], with their faces."""
        sampler = recipe_for_faces(recipe, degradation).sampler
        images, reports, hints = [], [], []
        for seed, image in zip(seeds, draws, strict=True):
            faces = FaceModel(self.model, sampler, recipe.sigma_y, seed)
            done = restore_faces(
                y[0],
                image,
                degradation,
                faces,
                sigma_y=recipe.sigma_y,
                strangeness=faces.strangeness,
                side=self.model.size,
            )
            images.append(done.image)
            reports.append(done.faces)
            hints.append(done.hint)
        return torch.stack(images), FacesFound(tuple(reports), hints[0] if hints else None)


def _entry(face: FaceReport) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "box": [round(v, 1) for v in face.box],
        "size": round(face.size, 1),
        "restored": face.restored,
        "reason": face.reason,
    }
    if face.judgement is not None:
        entry["judgement"] = asdict(face.judgement)
    return entry


def _they(n: int) -> str:
    return "it is" if n == 1 else "they are"
