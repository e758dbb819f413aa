"""How far is a measurement from the data? Kernel distance of the lifted observations, as the paper's KID of
what samplers are given: 65.68, 176.31, 46.39, 117.64 and 42.90 there.

The distance here is on VGG16 features unless a file of Inception weights is given (`--set inception=FILE`);
it can be compared within a task, not across tasks and not with the paper's figures. Needs images, but no
model.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from paseo.degrade import task as find_task
from paseo.errors import BadInput
from paseo.images import to_signed, to_unit
from paseo.lab.bench.inception import load_inception
from paseo.lab.bench.pictures import Truth, stack
from paseo.lab.paper import TASKS, figure
from paseo.lab.reproduce.findings import PaperFinding
from paseo.lab.reproduce.result import Report
from paseo.lab.reproduce.truths import load_truths
from paseo.lab.text import Value
from paseo.metrics import kernel_distance, vgg_features

__all__ = ["Options", "run"]

HEADER = ("task", "distance ×10³", "±", "paper KID ×10³")
BATCH = 16


@dataclass(frozen=True)
class Options:
    model: str = "faces-128"  # whose sample images and size are taken
    data: str = "samples"
    part: str = "test"
    images: int = 100
    tasks: str = ",".join(TASKS)
    inception: str = ""  # file with Inception weights: then it is KID

    def __post_init__(self) -> None:
        if self.images < 3:
            raise BadInput(f"images={self.images}: a distance between sets needs at least 3.")

    @classmethod
    def quick(cls) -> Options:
        return cls(images=4, tasks="sr4,jpeg")


def run(o: Options) -> Report:
    pictures = load_truths(o.model, o.data, o.part, o.images)
    truth = features(stack(pictures), o.inception)
    lines: list[list[Value]] = []
    here: dict[str, float] = {}
    for name in (t.strip() for t in o.tasks.split(",")):
        d = kernel_distance(features(observed(name, pictures), o.inception), truth)
        here[name] = 1e3 * d.value
        lines.append(
            [name, here[name], 1e3 * d.standard_error, figure("text", "observation", name, column="kid")]
        )
    title = f"Distance of the observations from the data: {len(pictures)} images"
    return Report(title, HEADER, lines, findings(here), {"images": len(pictures)})


@torch.no_grad()
def observed(name: str, pictures: list[Truth]) -> Tensor:
    """What a sampler is given, at image size in [0,1], after the same 8 bits as every scored image."""
    task = find_task(name)
    y = task.measure(stack(pictures), [p.seed("measurement", 0) for p in pictures], task.sigma_y)
    return (to_unit(task.degradation.lift(to_signed(y), pictures[0].size)).clamp(0, 1) * 255).round() / 255


@torch.no_grad()
def features(x: Tensor, inception: str) -> Tensor:
    network = load_inception(inception) if inception else vgg_features
    return torch.cat([network(part) for part in x.split(BATCH)])


def findings(here: dict[str, float]) -> list[PaperFinding]:
    if not {"sr4", "sr8"} <= here.keys():
        return []
    shown = f"{here['sr4']:.1f} and {here['sr8']:.1f}"
    statement = "The observation of SR×8 starts farther from the data than that of SR×4."
    return [PaperFinding(statement, "65.7 and 176.3", shown, here["sr8"] > here["sr4"])]
