"""What the buttons do. Free of gradio: every handler takes plain values and gives plain values back, so it
can be tested alone.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from PIL import Image

from paseo.apps.ui.estimate import Pace, restored_size
from paseo.apps.ui.fields import KINDS, Field, Kind, fields_of, most, shown
from paseo.apps.ui.form import Form, prepare
from paseo.apps.ui.results import ShownResult, collect
from paseo.apps.ui.sliders import TITLES, choice_of, example
from paseo.apps.ui.work import RunProgress, run
from paseo.base import Problem, Sampler
from paseo.degrade import task as find_task
from paseo.degrade import tasks
from paseo.errors import BadInput, Cancelled, PaseoError
from paseo.models import AUTO, DEFAULT, Model, load_model, real_name
from paseo.problem import pose
from paseo.recipe import Request, resolve
from paseo.recipe.family import FAMILY
from paseo.recipe.load import load_operator_of
from paseo.recipe.resolve import family_of
from paseo.samplers import METHODS, within
from paseo.setting import values_of
from paseo.settings.presets import fitting, presets
from paseo.units import to_unit

Choice = tuple[str, str]  # what is shown, what is meant
KEPT_RUNS = 24  # of one visitor; older results are deleted


@dataclass(eq=False)
class PageState:
    """The page's memory: loaded models, the temporary folder, and who may be cancelled."""

    root: Path
    models: tuple[str, ...] = (DEFAULT,)
    loaded: dict[str, Model] = field(default_factory=dict)
    running: dict[str, threading.Event] = field(default_factory=dict)
    methods: dict[tuple[str, str], list[Choice]] = field(default_factory=dict)
    pace: Pace = field(default_factory=Pace)
    folders: dict[str, list[Path]] = field(default_factory=dict)  # of each visitor's runs, oldest first

    def __post_init__(self) -> None:
        self.models = tuple(map(real_name, self.models))

    def model(self, name: str) -> Model:
        name = real_name(name)
        if name not in self.models:
            raise BadInput(
                f"This page does not offer the model {name!r}. Start it with `paseo ui --model {name}`."
            )
        if name not in self.loaded:
            found = load_model(name)
            if not found.tasks:
                raise BadInput(
                    f"The model {name} has no operators in its folder, and the page offers what it has "
                    "operators for. "
                    "Use `paseo restore --model … --operator …`, or give a folder such as `paseo train` "
                    "exports."
                )
            self.loaded[name] = found
        return self.loaded[name]

    def task_choices(self, model: str) -> list[Choice]:
        """Tasks that the model has an operator for; one for the family serves them all."""
        known = self.model(model).tasks
        choices = [(t.title, t.name) for t in tasks() if t.name in known or FAMILY in known]
        if FAMILY in known:
            choices += [(title, choice) for choice, title in TITLES.items()]
            choices.append(("Find out from the file", AUTO))
        return choices

    def preset_choices(self, model: str) -> list[Choice]:
        """Whose kept settings may be taken; "" is the model's own."""
        names = [name for name in fitting(family_of(real_name(model))) if name != real_name(model)]
        return [("Kept for this model", ""), *((f"Kept for {name}", name) for name in names)]

    def method_choices(self, model: str, task: str, preset: str = "") -> list[Choice]:
        """Methods that can restore this task with this model, asked one by one."""
        task = choice_of(task)
        if (model, task) not in self.methods:
            problem = self._problem(model, task)
            able = [(m.title, m.name) for m in METHODS.values() if m.default.unsupported(problem) is None]
            self.methods[model, task] = able
        named = [name for name in _presets_of(preset or model, task) if name not in METHODS]
        return self.methods[model, task] + [(f"{name} (as tuned)", name) for name in named]

    @torch.no_grad()
    def _problem(self, name: str, task: str) -> Problem:
        """A grey picture's, to ask methods about."""
        model, chosen = self.model(name), find_task(example("jpeg:" if task == AUTO else task))
        size = (model.size, model.size)
        return pose(
            to_unit(chosen.degradation(torch.zeros(1, 3, *size))),
            prior=model.prior,
            codec=model.codec,
            operator=load_operator_of(resolve(Request(model=name, task=chosen)), model).operator,
            degradation=chosen.degradation,
            sigma_y=chosen.sigma_y,
            size=size,
        )

    # ---- the advanced drawer: boxes of three kinds, as many as the method with most of them needs

    def drawer(
        self, model: str, task: str, method: str, preset: str = ""
    ) -> dict[Kind, list[tuple[Field, object]]]:
        """Settings of the method as tuned for model and task, by kind of box."""
        values = settings_of(model, task, method, preset)
        pairs = [(f, values[f.name]) for f in fields_of(type(kept(model, task, method, preset)))]
        return {
            kind: [(f, v if kind == "switch" else shown(v)) for f, v in pairs if f.kind == kind]
            for kind in KINDS
        }

    def assignments(
        self,
        model: str,
        task: str,
        method: str,
        names: Sequence[str | None],
        values: Sequence[object],
        preset: str = "",
    ) -> tuple[str, ...]:
        """What was changed in the drawer, as `--set` takes it. `names` says which box held which setting."""
        own = settings_of(model, task, method, preset)
        given = {
            name: shown(value).strip()
            for name, value in zip(names, values, strict=True)
            if name in own and value not in (None, "")
        }
        return tuple(f"{name}={text}" for name, text in given.items() if text != shown(own[name]))

    # ---- running and cancelling

    def begin(self, session: str) -> None:
        """A new run of this visitor, which a Cancel from now on reaches, even while it waits for its turn."""
        self.cancel(session)
        self.running[session] = threading.Event()

    def cancel(self, session: str) -> None:
        if session in self.running:
            self.running[session].set()

    def leave(self, session: str) -> None:
        """The visitor has closed the page: end the run, delete the files."""
        self.cancel(session)
        self.running.pop(session, None)
        self._forget(self.folders.pop(session, []))

    def _keep(self, session: str, folder: Path) -> None:
        runs = self.folders.setdefault(session, [])
        runs.append(folder)
        self._forget(runs[:-KEPT_RUNS])
        del runs[:-KEPT_RUNS]

    @staticmethod
    def _forget(folders: Sequence[Path]) -> None:
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)

    def restore(self, form: Form, session: str) -> Iterator[RunProgress | ShownResult | PaseoError]:
        """Progress, then the result; or the error that ended it."""
        cancelled = self.running.setdefault(session, threading.Event())
        try:
            if cancelled.is_set():
                raise Cancelled("Cancelled before it began.")
            model = self.model(form.model)
            prepared = prepare(form, self.root, model.size)
            self._keep(session, prepared.job.folder)
            yield from run(prepared, model, cancelled)
            result = collect(prepared)
            self.pace.learn(model.name, result.seconds, result.nfe, form.draws, read_size(result.files[0]))
            yield result
        except Cancelled:
            yield Cancelled("Cancelled.")
        except (PaseoError, OSError, ValueError) as error:
            yield error if isinstance(error, PaseoError) else PaseoError(f"{type(error).__name__}: {error}")

    def seconds(self, form: Form) -> float | None:
        """How long a run will take, from the picture's header; None where that cannot be said."""
        try:
            size = read_size(Path(form.picture or ""))
            model = self.model(form.model)
            calls = (
                kept(form.model, form.task, form.method, form.preset or "").nfe if form.task != AUTO else 53
            )
        except (PaseoError, OSError):
            return None
        height, width = restored_size(form, size, model.size)
        return self.pace.of(model) * form.draws * calls * height * width

    def compare(
        self, form: Form, methods: Sequence[str], session: str, budget: int | None = None
    ) -> Iterator[tuple[str, RunProgress | ShownResult | PaseoError]]:
        """The methods one after the other, each as tuned, on the same measurement and seed; `budget` limits
        their denoiser calls.
        """
        if len(methods) < 2:
            yield "", BadInput("Choose two or more methods to compare.")
            return
        for method in methods:
            try:
                settings = self._steps(form, method, budget)
            except PaseoError as error:
                yield method, error
                continue
            for news in self.restore(replace(form, method=method, settings=settings, draws=1), session):
                yield method, news
                if isinstance(news, Cancelled):
                    return

    def _steps(self, form: Form, method: str, budget: int | None) -> tuple[str, ...]:
        if budget is None:
            return ()
        sampler = kept(form.model, form.task, method, form.preset or "")
        return (f"steps={values_of(within(sampler, budget))['steps']}",)


def read_size(path: Path) -> tuple[int, int]:
    """(H, W) of a picture, from its header."""
    with Image.open(path) as image:
        return image.height, image.width


def kept(model: str, task: str, method: str, preset: str = "") -> Sampler:
    """The sampler as tuned for model and task; numbers behind a slider do not matter here."""
    return resolve(Request(model=model, task=example(task), method=method, preset=preset or None)).sampler


def settings_of(model: str, task: str, method: str, preset: str = "") -> dict[str, object]:
    """The same by field, in the order in which they are declared."""
    sampler = kept(model, task, method, preset)
    return {f.name: vars(sampler)[f.name] for f in fields_of(type(sampler))}


def _presets_of(model: str, task: str) -> list[str]:
    try:
        return list(presets(model).get(task, {}))
    except BadInput:
        return []


def boxes() -> dict[Kind, int]:
    """How many boxes of each kind the drawer holds ready."""
    return {kind: most(kind) for kind in KINDS}
