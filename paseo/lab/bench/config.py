"""What a benchmark is: a YAML file, checked field by field, with `--set a.b=c` on top.

model: faces-128
data: {path: faces, part: test, count: 100}
tasks: [sr4, sr8, blur, inpaint, jpeg]
methods:
  # the settings kept for model and task, else its defaults
  - paseo
  - {name: paseo, label: paseo-dagger, preset: paseo-dagger}
  - {name: silo, budget: 53, count: 20}               # at most 53 denoiser calls, on the first 20 images
  - {name: paseo, label: one-iteration, settings: {cg_budget: 1}}
seeds: [0]
text:                                                 # for models that take it; the preset's where it is
not said
  sr4: {prompt: A high quality photo, guidance: 1}
  sr8: {captions: captions.json}                      # image name → its own prompt
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from paseo.degrade import task as find_task
from paseo.errors import BadInput
from paseo.lab.bench.pictures import Part
from paseo.lab.bench.scores import METRICS, metric
from paseo.models import AUTO, available, real_name
from paseo.samplers import METHODS
from paseo.settings.parse import split_assignment

Label = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+=-]*$", max_length=80)
]  # also the name of a folder
Zoom = Literal["eyes", "detail", "hole"]
MAX_YAML, MAX_DEPTH = 1 << 20, 32  # bytes and levels of a benchmark file


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Data(_Strict):
    """Which images."""

    path: str = "samples"  # a folder, tar file or list; "samples" are the held-out images beside the model
    part: Part = "all"
    rule: str = "auto"
    first: int = Field(0, ge=0)
    count: int | None = Field(None, ge=1)
    size: int | None = Field(None, ge=16, le=4096)  # None: the model's


class MethodSpec(_Strict):
    """One column of the comparison: a method with its settings."""

    name: str
    label: Label = ""
    preset: str | None = None  # name among the kept settings, if another than the method's
    settings: dict[str, Any] = Field(default_factory=dict)  # on top of them
    per_task: dict[str, dict[str, object]] = Field(default_factory=dict)  # on top of these, for some tasks
    budget: int | None = Field(None, ge=1)  # NFE it may not exceed
    tasks: tuple[str, ...] | None = None  # None: all
    count: int | None = Field(None, ge=1)  # only on the first images

    @model_validator(mode="before")
    @classmethod
    def _named(cls, value: object) -> object:
        value = {"name": value} if isinstance(value, str) else value
        if isinstance(value, dict) and "name" in value:
            return {**value, "label": value.get("label") or value.get("preset") or value["name"]}
        return value

    @field_validator("name")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in METHODS:
            raise ValueError(f"there is no method named {value!r}; known: {', '.join(METHODS)}")
        return value


class TaskText(_Strict):
    """What a model is told on one task."""

    prompt: str | None = None
    negative_prompt: str | None = None
    guidance: float | None = Field(None, ge=0)
    captions: str | None = None  # a JSON file, image name → prompt of that image

    def options(self, image: str | None = None) -> dict[str, Any]:
        """Options of the model, for one image where each has its own caption."""
        said = self.model_dump(exclude={"captions"}, exclude_none=True)
        if self.captions is None or image is None:
            return said
        return {**said, "prompt": _caption(self.captions, image)}


class BenchConfig(_Strict):
    """A whole benchmark."""

    name: Label = "bench"
    model: str = AUTO
    model_options: dict[str, object] = Field(
        default_factory=dict
    )  # prompt, guidance, dtype … for diffusers models
    preset_table: str | None = None  # whose kept settings: ffhq/sd35, coco/sd35, …; the model's otherwise
    text: dict[str, TaskText] = Field(
        default_factory=dict
    )  # task → prompt and guidance, where not the preset's
    data: Data = Data()
    tasks: tuple[str, ...] = Field(("sr4", "sr8", "blur", "inpaint", "jpeg"), min_length=1)
    operators: dict[str, str] = Field(default_factory=dict)  # task → folder, where not the model's own
    methods: tuple[MethodSpec, ...] = Field(min_length=1)
    seeds: tuple[Annotated[int, Field(ge=0)], ...] = Field((0,), min_length=1)
    sigma_y: float | None = Field(None, ge=0)  # in [0,1] units; None: each task's own
    noise_seed: int = Field(0, ge=0)  # of the measurements
    batch: int = Field(
        1, ge=1, le=256
    )  # images computed together; fixed by the plan, since rounding depends on it
    threads: int = Field(
        1, ge=1
    )  # per process; results may differ in the last bit between numbers of threads
    device: str = "cpu"
    metrics: tuple[str, ...] = Field(tuple(METRICS), min_length=1)
    features: bool = True  # VGG16 features for the kernel distance
    inception: str | None = None  # file with Inception weights, for KID and FID
    reference: Label = "paseo"  # the method that others are compared with
    zoom: Zoom = "eyes"  # where the crops of the picture grids are taken

    @field_validator("tasks")
    @classmethod
    def _tasks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            find_task(name)
        if len(set(value)) < len(value):
            raise ValueError("a task is named twice")
        return value

    @field_validator("metrics")
    @classmethod
    def _metrics(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            metric(name)
        return tuple(name for name in METRICS if name in value)

    @model_validator(mode="after")
    def _labels(self) -> BenchConfig:
        labels = [m.label for m in self.methods]
        if twice := sorted({x for x in labels if labels.count(x) > 1}):
            raise ValueError(f"two methods have the label {twice[0]!r}; give one of them another `label`")
        if strange := sorted(set(self.text) - set(self.tasks)):
            raise ValueError(f"text names the task {strange[0]!r}, which is not among the benchmark's")
        for m in self.methods:
            if unknown := [t for t in (*(m.tasks or ()), *m.per_task) if t not in self.tasks]:
                raise ValueError(
                    f"{m.label} names the task {unknown[0]!r}, which is not among the benchmark's: "
                    f"{', '.join(self.tasks)}"
                )
        return self

    def options_of(self, task: str, image: str | None = None) -> dict[str, object]:
        """Options of the model on a task, and for one image where it has its own caption."""
        said = self.text.get(task)
        return {**self.model_options, **(said.options(image) if said else {})}

    def captioned(self, task: str) -> bool:
        """Whether each image of a task has its own prompt: such images are computed one by one."""
        return task in self.text and self.text[task].captions is not None

    def located(self) -> BenchConfig:
        """With the full paths of everything that exists here, so that a plan can be run from any folder."""
        data = (
            self.data
            if self.data.path == "samples"
            else self.data.model_copy(update={"path": _full(self.data.path)})
        )
        operators = {task: _full(path) for task, path in self.operators.items()}
        inception = None if self.inception is None else _full(self.inception)
        name = real_name(self.model)
        model = name if name in available() else _full(name)
        text = {
            task: said.model_copy(update={"captions": said.captions and _full(said.captions)})
            for task, said in self.text.items()
        }
        found = {"model": model, "data": data, "operators": operators, "inception": inception, "text": text}
        return self.model_copy(update=found)

    def public(self) -> dict[str, Any]:
        """For reports: the same without folders of one machine."""
        values = self.model_dump(mode="json")
        values["data"]["path"], values["model"] = Path(self.data.path).name, Path(self.model).name
        values["operators"] = {task: Path(path).name for task, path in self.operators.items()}
        for said in values["text"].values():
            said["captions"] = said["captions"] and Path(said["captions"]).name
        values["inception"] = None if self.inception is None else Path(self.inception).name
        return values

    def to_yaml(self) -> str:
        return yaml.safe_dump(
            self.model_dump(mode="json", exclude_defaults=False), sort_keys=False, allow_unicode=True
        )


def load_config(path: str | Path, assignments: Sequence[str] = ()) -> BenchConfig:
    """From a YAML file, with `a.b=c` applied (values in YAML, list positions as numbers:
    methods.0.budget=53).
    """
    try:
        with Path(path).open("rb") as file:
            values = bounded_yaml(file.read(MAX_YAML + 1))
    except OSError as error:
        raise BadInput(f"Cannot read {path}: {error.strerror}.") from error
    except ValueError as error:
        raise BadInput(f"{path} is not YAML that can be used: {' '.join(str(error).split())}.") from error
    if not isinstance(values, dict):
        raise BadInput(
            f"{path} does not hold a benchmark: fields such as model, tasks and methods were expected."
        )
    for assignment in assignments:
        assign(values, assignment)
    return parse_config(values, str(path))


def bounded_yaml(raw: bytes) -> object:
    """The value of YAML in UTF-8 of bounded size and depth, without anchors, which can make a small file a
    huge value.
    """
    if len(raw) > MAX_YAML:
        raise ValueError(f"it has more than {MAX_YAML:,} bytes")
    try:
        text = raw.decode("utf-8")
        depth = 0
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                raise ValueError("it uses anchors, write the values out")
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                raise ValueError("it is nested too deeply")
        return yaml.safe_load(text)
    except (
        yaml.YAMLError,
        RecursionError,
        TypeError,
        AttributeError,
        OverflowError,
    ) as error:  # `? [a]: b`, odd dates
        raise ValueError(str(error) or type(error).__name__) from None


def parse_config(values: dict[str, object], source: str = "the benchmark") -> BenchConfig:
    if strange := [key for key in values if not isinstance(key, str)]:
        raise BadInput(f"{source} cannot be used: {strange[0]!r} is not the name of a field.")
    try:
        return BenchConfig.model_validate(values).located()
    except ValidationError as error:
        told = "; ".join(
            f"{'.'.join(map(str, e['loc'])) or 'benchmark'}: {e['msg'].removeprefix('Value error, ')}"
            for e in error.errors()
        )
        raise BadInput(f"{source} cannot be used: {told}.") from None


@cache
def _captions(path: str) -> dict[str, str]:
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadInput(f"The captions {path} cannot be read: {error}.") from None
    if not isinstance(found, dict) or not all(isinstance(v, str) for v in found.values()):
        raise BadInput(f"{path} does not hold captions: a JSON object of image name → text was expected.")
    return found


def _caption(path: str, image: str) -> str:
    captions = _captions(path)
    if image not in captions:
        raise BadInput(f"{path} has no caption for the image {image!r}; it has {len(captions)} others.")
    return captions[image]


def _full(path: str) -> str:
    try:
        found = Path(path).expanduser()
        return str(found.resolve()) if found.exists() else path
    except (OSError, ValueError, RuntimeError):  # too long for a name, a NUL, an unknown home
        return path


def assign(values: dict[str, object], assignment: str) -> None:
    """Apply one `a.b=c` in place."""
    where, text = split_assignment(assignment, "data.count=10")
    *path, last = where.split(".")
    node: object = values
    for part in path:
        node = _step(node, part, where)
    try:
        value = bounded_yaml(text.encode())
    except ValueError:
        raise BadInput(f"--set {assignment}: {text!r} is not a YAML value.") from None
    if isinstance(node, list):
        node[_position(node, last, where)] = value
    else:
        node[last] = value


def _step(node: Any, part: str, where: str) -> Any:
    if isinstance(node, list):
        return node[_position(node, part, where)]
    child = node.setdefault(part, {})
    if not isinstance(child, dict | list):
        raise BadInput(f"--set {where}: {part!r} is a value, not a group of fields.")
    return child


def _position(node: list[object], part: str, where: str) -> int:
    if not part.isdecimal() or int(part) >= len(node):
        raise BadInput(f"--set {where}: {part!r} is not a position in a list of {len(node)} entries.")
    return int(part)
