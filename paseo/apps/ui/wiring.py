"""Between gradio and the handlers: the request of a visitor, and the values of the page as a form."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from paseo.apps.ui import look
from paseo.apps.ui.admit import admitted
from paseo.apps.ui.form import OWN, SHOW, Form, painted
from paseo.apps.ui.handlers import PageState, kept
from paseo.apps.ui.sliders import CHOICES, choice_of, typed_task
from paseo.base import Sampler
from paseo.degrade import tasks
from paseo.errors import BadInput, PaseoError
from paseo.images import EXTENSIONS
from paseo.models import AUTO, ROOT
from paseo.setting import values_of
from paseo.settings.parse import with_settings

MAX_COUNT = 1000  # of steps, inner steps and whatever else is counted
MAX_NFE = 2000  # denoiser calls of one run

ASKED = (
    "picture",
    "way",
    "model",
    "preset",
    "task",
    "first",
    "second",
    "seed",
    "sigma",
    "fit",
    "faces",
    "keep_known",
    "editor",
)  # in this order to every run


Update = dict[str, object]  # what gradio is to change of a widget
Widgets = dict[str, Any]  # gradio's, by our names; they get their events as the class is made


class Visitor(Protocol):
    """Gradio's request, as far as it is read."""

    @property
    def session_hash(self) -> str | None: ...


def with_request(gr: ModuleType, work: Callable[..., Iterator[object]]) -> Callable[..., Iterator[object]]:
    """Gradio hands the request to a parameter annotated with its class."""

    def handler(request: Visitor, *values: object) -> Iterator[object]:
        yield from work(*values, request=request)

    handler.__annotations__["request"] = gr.Request
    return handler


def typed(gr: ModuleType, handler: Callable[[Visitor], object]) -> Callable[[Visitor], object]:
    """A handler whose only argument is the request."""

    def call(request: Visitor) -> object:
        return handler(request)

    call.__annotations__["request"] = gr.Request
    return call


def path_only(payload: Any) -> str | None:
    """The upload's path, undecoded; `Gate` and `own_picture` make sure that it is an upload."""
    return None if payload is None else payload.path


def samples_of(models: tuple[str, ...]) -> list[str]:
    """The pictures that come with the models, the first one's first."""
    folders = dict.fromkeys(ROOT / m / "samples" for m in models)
    found = [p for f in folders if f.is_dir() for p in sorted(f.iterdir()) if p.suffix in EXTENSIONS]
    return [str(p) for p in found]


def own_picture(state: PageState, path: str) -> str:
    """The resolved path of an upload or a sample."""
    return str(admitted(path, state.root, frozenset(Path(p).resolve() for p in samples_of(state.models))))


def masks(task: str) -> bool:
    """Whether a known task hides pixels; what a visitor names is looked up, never loaded."""
    return any(t.masks for t in tasks() if t.name == task)


def uploads_only(component: Any) -> None:
    """Gradio fetches what a visitor names by URL, which would make this machine ask others. Here a picture is
    uploaded.
    """
    keep = component.async_move_resource_to_block_cache

    async def local(place: object) -> object:
        if "://" in str(place or ""):
            raise BadInput("Pictures are uploaded here, not fetched from elsewhere.")
        return await keep(place)

    component.async_move_resource_to_block_cache = local


def filled_in(state: PageState, ask: Widgets, asked: Sequence[Any], rest: Sequence[Any]) -> Form | PaseoError:
    """The form, or what is wrong with it: every choice is one of those offered, every number within its
    limits.
    """
    values = dict(zip(ASKED, asked, strict=True))
    method, draws, names, *pool = rest
    try:
        if values["picture"]:
            values["picture"] = own_picture(state, values["picture"])
        preset = values["preset"]
        check_choices(state, values["way"], values["model"], values["task"], method, preset)
        turned = [number(values.pop(name), "slider") for name in ("first", "second")]
        hole = painted(values.pop("editor"))
        settings = state.assignments(values["model"], values["task"], method, names, pool, preset)
        check_settings(kept(values["model"], values["task"], method, preset), settings)
        choice, sigma = values["task"], number(values.pop("sigma"), "noise")
        values["task"] = typed_task(choice, turned)
        own = choice in CHOICES or choice == AUTO  # these say their noise themselves
        numbers = {"seed": whole(values.pop("seed"), "seed"), "sigma": None if own else sigma}
        ticked = bool(values.pop("keep_known"))
        known = ticked if hole is not None else None  # the box is about painted holes
        form: dict[str, Any] = {**values, **numbers, "fit": bool(values["fit"]), "keep_known": known}
        form |= {"preset": preset or None, "faces": bool(values["faces"])}
        draws = whole(draws, "number of draws")
        return Form(**form, draws=draws, method=method, hole=hole, settings=settings)
    except PaseoError as error:
        return error


def check_choices(
    state: PageState, way: object, model: object, task: object, method: object, preset: object
) -> None:
    """Gradio's widgets are drawn in the browser: what arrives here may be anything."""
    one_of(way, [SHOW, OWN], "way")
    one_of(model, list(state.models), "model")
    one_of(preset, [name for _, name in state.preset_choices(str(model))], "preset")
    one_of(choice_of(str(task)), [name for _, name in state.task_choices(str(model))], "task")
    one_of(method, [name for _, name in state.method_choices(str(model), str(task), str(preset))], "method")


def comparable(state: PageState, form: Form, methods: object, limit: object) -> Form | PaseoError:
    """The form itself, if the methods to compare are offered and the limit of their calls is a number."""
    try:
        for method in methods if isinstance(methods, list) else ():
            check_choices(state, form.way, form.model, form.task, method, form.preset or "")
        if whole(limit, "limit") > MAX_NFE:
            raise BadInput(f"{limit} denoiser calls are more than the {MAX_NFE} this page makes.")
    except PaseoError as error:
        return error
    return form


def one_of(value: object, offered: list[str], what: str) -> None:
    if not isinstance(value, str) or value not in offered:
        raise BadInput(f"This page does not offer that {what}. Choose one of {', '.join(offered)}.")


def check_settings(sampler: Sampler, settings: tuple[str, ...]) -> None:
    """A run must end while somebody waits for it."""
    changed = with_settings(sampler, settings)
    for name, value in values_of(changed).items():
        if isinstance(value, int) and value > MAX_COUNT:
            raise BadInput(
                f"{name}={value} is more than the {MAX_COUNT} this page computes. Use `paseo restore`."
            )
    if changed.nfe > MAX_NFE:
        raise BadInput(
            f"{changed.nfe} denoiser calls are more than the {MAX_NFE} this page makes. Use `paseo restore`."
        )


def whole(value: object, what: str) -> int:
    return int(number(value, what))


def number(value: object, what: str) -> float:
    """A finite number; an empty box is 0."""
    if value is None or (isinstance(value, int | float) and math.isfinite(value)):
        return float(value or 0)
    raise BadInput(f"The {what} is not a number.")


def cancel(state: PageState, request: Visitor) -> str:
    state.cancel(request.session_hash or "")
    return look.note("Cancelling after the current step …")


def leave(state: PageState, request: Visitor) -> None:
    state.leave(request.session_hash or "")
