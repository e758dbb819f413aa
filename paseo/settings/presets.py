"""The paper's settings as values, each with the score it reached in the paper.

    preset("ffhq/sd35", "sr4").sampler                  PASEO, FFHQ, SD3.5-medium
    preset("ffhq/rv51", "blur", "paseo-dagger")         PASEO†, which keeps the original anchor (`fresh`)
    preset("coco/sd35", "sr8").prompt                   None: the image's own caption
    preset("coco/sd35", "sr4", "daps")                  DAPS with the step size tuned there

The paper's settings lie in `paper.json`: its tables "PASEO hyperparameters on FFHQ", "… on COCO" and
"Settings of PASEO† that differ", with their scores from the full comparisons (1000 images; KID ×10³;
seconds per image and GiB on one MI210), and what its part on competitors states about the other methods.
Presets of embedded models lie beside their weights in `presets.json`. Both are read when asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from torch import Tensor

from paseo.base import Prior, Problem, Sampler, Watch, ignore
from paseo.degrade import Task
from paseo.errors import BadInput
from paseo.files import is_file, read_json
from paseo.hub.names import KNOWN, known_family
from paseo.noise import Noise

MODELS = Path(__file__).parents[1] / "models"
PAPER_FILE = Path(__file__).with_name("paper.json")
PAPER, PAPER_DAGGER = "paseo", "paseo-dagger"
# The paper's prompts: of a face, and where nobody describes the picture.
FACE, PHOTO = "A high quality photo of a face", "A high quality photo"


@dataclass(frozen=True)
class Preset:
    """Settings of one method for one model and task; it can be called as the sampler it holds."""

    sampler: Sampler
    prompt: str | None = None  # None: unconditional, or the image's own caption
    guidance: float = 1.0  # classifier-free guidance scale
    score: Mapping[str, float] = field(default_factory=dict)  # what these settings reached
    source: str = ""  # where the settings and the score come from
    operator: str = ""  # the model's operator they go with, such as "sr4/lean"; "": the task's own
    lent: Mapping[str, Any] = field(default_factory=dict)  # what a task that borrows them has instead

    def __call__(self, prior: Prior, problem: Problem, noise: Noise, watch: Watch = ignore) -> Tensor:
        return self.sampler(prior, problem, noise, watch)

    def unsupported(self, problem: Problem) -> str | None:
        return self.sampler.unsupported(problem)

    def borrowed(self) -> Preset:
        """For another degradation than the one they were chosen for: without what holds for that one alone,
        such as an early stop of CG.
        """
        changed: Any = self.sampler
        return replace(self, sampler=replace(changed, **self.lent)) if self.lent else self


# Family → rows of the paper: COCO's, for photographs of anything, or the nearest where there are none.
ROWS = {"sd": "ffhq/rv51", "sdxl": "ffhq/rv51", "sd3": "coco/sd35"}


def preset(model: str, task: str | Task, method: str = PAPER) -> Preset:
    """The settings for a model ("faces-128", "ffhq/sd35", a hub id…), a task ("sr4"…) and a method ("paseo",
    "paseo-dagger"…).
    """
    table = _table(model)
    name, method = task.name if isinstance(task, Task) else str(task), method_name(method)
    if name not in table:
        raise BadInput(
            f"There are no settings for the task {name!r} with {model}; there are for {', '.join(table)}. "
            "Give a sampler instead."
        )
    if method not in table[name]:
        raise BadInput(
            f"There are no settings of {method!r} for {model} and {name}; there are for "
            f"{', '.join(table[name])}."
        )
    return table[name][method]


def method_name(name: str) -> str:
    """The spelling under which settings are kept: "PASEO†" is "paseo-dagger"."""
    return name.lower().replace("†", "-dagger").replace("_", "-")


def presets(model: str) -> dict[str, dict[str, Preset]]:
    """Task → method → settings, all that are known for a model."""
    return {task: dict(methods) for task, methods in _table(model).items()}


def known_models() -> list[str]:
    """Names under which settings are kept."""
    return [*_paper(), *sorted(p.parent.name for p in MODELS.glob("*/presets.json"))]


def fitting(family: str | None) -> list[str]:
    """Names among them that fit a model: of a diffusers model the paper's rows of its family; an embedded one
    may try any.
    """
    if family is None:
        return known_models()
    kin = ROWS[family].partition("/")[2]  # the network that the rows were tuned with
    return [name for name in _paper() if name.partition("/")[2] == kin]


class NoSettings(BadInput):
    """Nothing is kept for a model; settings that are kept and cannot be read are another matter."""


def _table(model: str) -> dict[str, dict[str, Preset]]:
    key = rows_of(str(model))
    if key in _paper():
        return _paper()[key]
    for file in (MODELS / key / "presets.json", Path(key) / "presets.json"):
        if is_file(file):
            return _stored(file)
    raise NoSettings(
        f"There are no settings for the model {model!r}; there are for "
        f"{', '.join([*known_models(), *KNOWN])}."
    )


def rows_of(model: str) -> str:
    """Under which name the settings of a model are kept: its own, or the rows of its family."""
    family = model if model in ROWS else known_family(model)
    return model if family is None else ROWS[family]


@cache
def _paper() -> dict[str, dict[str, dict[str, Preset]]]:
    """paper.json: data and model → what a presets.json holds."""
    entries = read_json(PAPER_FILE)
    return {key: _presets(tasks) for key, tasks in entries.items()}


def _stored(file: Path) -> dict[str, dict[str, Preset]]:
    """presets.json: {task: {method: {"class": "PASEO", "settings": {…}, "score": {…}, "source": …,
    "operator": …, "lent": {…}, "prompt": …, "guidance": …}}}.
    """
    entries = read_json(file)
    try:
        return _presets(entries)
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError) as error:
        raise BadInput(f"{file} does not hold presets: {error}.") from error


def _presets(entries: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> dict[str, dict[str, Preset]]:
    return {task: {method: _entry(e) for method, e in methods.items()} for task, methods in entries.items()}


def _entry(entry: Mapping[str, Any]) -> Preset:
    samplers = import_module("paseo.samplers")
    kind = entry.get("class", "PASEO")
    if kind not in samplers.__all__:
        raise BadInput(f"{kind!r} is no sampler of this version: {', '.join(samplers.__all__)}.")
    sampler = getattr(samplers, kind)(**entry["settings"])
    found = Preset(
        sampler,
        entry.get("prompt"),
        float(entry.get("guidance", 1.0)),
        dict(entry.get("score", {})),
        str(entry.get("source", "")),
        str(entry.get("operator", "")),
        dict(entry.get("lent", {})),
    )
    found.borrowed()  # what is lent must be settings as well
    return found
