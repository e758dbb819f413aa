"""The options of `paseo train operator`, and the paper's values of them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

from paseo.errors import BadInput
from paseo.models import AUTO
from paseo.operators.config import WIDTHS, check_widths
from paseo.operators.family import check_reach
from paseo.setting import values_of
from paseo.train.config import LoopConfig, budget, option
from paseo.train.draws import family_of
from paseo.train.export import MODEL_HELP
from paseo.train.pictures import CROPS_HELP, DATA_HELP, check_crops
from paseo.train.splits import HELP

PAPER: dict[str, float | str | None] = {  # in place of the defaults, for recipe="paper"
    "lr": 1e-4,
    "schedule": "constant",
    "warmup": 0,
    "ema": 0.0,
    "clip": None,
    "weight_decay": 0.0,
    "beta2": 0.999,
    "batch_size": 16,
}


@dataclass(frozen=True, kw_only=True)
class OperatorTraining(LoopConfig):
    """Options of `paseo train operator`."""

    model: str = option(AUTO, MODEL_HELP)
    data: str | None = option(None, "Clean " + DATA_HELP)
    task: str | None = option(
        None,
        "The degradation: sr4, sr8, blur, inpaint, jpeg, with numbers such as blur:2.5 or sr:2,jpeg:60, "
        "module:function of images (B,3,H,W) in [0,1]; or family, for one operator that is told the numbers "
        "(family:jpeg+sr for some kinds).",
    )
    pairs: tuple[Path, Path] | None = option(
        None, "The degradation by example: a folder of clean and one of degraded images, same stems."
    )
    recipe: Literal["default", "paper"] = option(
        "default",
        "paper: Adam at a constant 1e-4, no warm-up, clipping or averaging; your own options stay.",
    )
    start: Path | None = option(
        None,
        "Folder of an operator whose weights are the starting point; shipped: the package's for the latent "
        "space.",
    )
    name: str | None = option(
        None, "Name of the degradation in the exported config; the task's unless given."
    )
    size: int = option(128, "Side of the training images in pixels.")
    crops: tuple[int, ...] = option((), CROPS_HELP + " Of a family only.")
    split: str = option("auto", HELP)
    local: bool = option(
        False, "Of a family: no positions and no statistics over the picture, for canvases of any size."
    )
    reach: int = option(
        0, "Of a family with masks: hidden cells this near to seen ones count: decoders draw across a rim."
    )
    widths: tuple[int, ...] = option(
        WIDTHS, "Channels of the network's three levels; 32,64,96 costs 0.6 of the paper's, 24,48,64 0.45."
    )
    pooled: bool = option(
        False, "The two inner levels at half the resolution, a leaner network: 24,48,64 costs 0.2."
    )
    teacher: Path | None = option(
        None, "Folder of an operator of the same task and model to imitate, instead of measurements."
    )
    specialists: str | None = option(
        None,
        "Of a family: FOLDER,FOLDER,… of operators of single tasks, to whose answers it is held beside the "
        "measurements.",
    )
    noise: float = option(
        0.04, "Largest training noise s on [-1,1] images; twice the largest σ_y it will be used with."
    )
    jacobian: float = option(
        0.0,
        "Weight of matching how the measurement changes along random directions; 0 is the paper's recipe.",
    )
    jacobian_step: float = option(0.3, "Standard deviation of those directions, in units of the latents.")
    measurements: int = option(
        0, "Noisy measurements per image to encode beforehand; 0 encodes fresh ones in every step."
    )
    examples: int = option(
        0,
        "Of a family with measurements: pictures or crops of each side to encode; 0: as many as there are.",
        "[0, 1e7]",
    )
    mirror: bool = option(
        True, "Mirror images at random; off where left and right differ for the degradation."
    )
    cache: Path | None = budget(
        None, "Folder for decoded images and latents, shared by runs; OUT/cache unless given."
    )

    def __post_init__(self) -> None:
        if self.recipe not in ("default", "paper"):
            raise BadInput(f"recipe is {self.recipe!r}, expected default or paper.")
        given = values_of(self)
        for f in fields(self) if self.recipe == "paper" else ():
            if f.name in PAPER and given[f.name] == f.default:
                object.__setattr__(self, f.name, PAPER[f.name])
        super().__post_init__()
        object.__setattr__(self, "data", None if self.data is None else str(self.data))
        check_crops(self.crops, 8)
        check_widths(self.widths)
        check_reach(self.reach)
        family = self.task is not None and family_of(self.task) is not None
        for name in ("crops", "local", "reach", "specialists"):
            if given[name] and not family:
                raise BadInput(f"{name} belongs to a family: give it with --task family.")
        if self.jacobian and family:
            raise BadInput("jacobian is for one degradation: a family draws a new one for every sample.")
        if self.examples and not (family and (self.measurements or self.teacher)):
            raise BadInput(
                "examples says how many pictures of a family to encode: give --measurements or --teacher."
            )
        if self.teacher and (self.measurements or self.jacobian or self.pairs or self.specialists):
            raise BadInput(
                "A student learns from its teacher alone: no measurements, jacobian, pairs or specialists."
            )
        if (self.task is None) == (self.pairs is None):
            raise BadInput(
                "An operator needs one degradation: a task (or module:function), or pairs of clean and "
                "degraded images."
            )
        if (self.data is None) != (self.pairs is not None):
            raise BadInput("Give clean images as data with a task; pairs bring their own and take no data.")
        if not 0 <= self.noise <= 2:
            raise BadInput(
                f"noise is {self.noise}, expected 0 to 2, the std on [-1,1] images; the paper's is 0.04."
            )
        if not 0 <= self.measurements <= 64:
            raise BadInput(f"measurements is {self.measurements}, expected 0 to 64.")
        if not (0 <= self.jacobian <= 1000 and 0 < self.jacobian_step <= 100):
            raise BadInput(
                f"jacobian is {self.jacobian} with steps of {self.jacobian_step}, expected 0 to 1000 and a "
                "step above 0 to 100."
            )
        if self.jacobian and self.pairs is not None:
            raise BadInput(
                "jacobian needs a degradation that can be applied to new images; pairs only show it on "
                "theirs."
            )
