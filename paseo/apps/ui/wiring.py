"""Between gradio and the handlers: the request of a visitor, and the values of the page as a form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from paseo.apps.ui import look
from paseo.apps.ui.form import Form, painted
from paseo.apps.ui.handlers import Desk
from paseo.errors import BadInput, PaseoError

ASKED = (
    "picture",
    "way",
    "model",
    "task",
    "seed",
    "sigma",
    "fit",
    "keep_known",
    "editor",
)  # in this order to every run


def with_request(gr: Any, work: Any) -> Any:
    """Gradio hands the request to a parameter annotated with its class."""

    def handler(request: Any, *values: Any) -> Iterator[Any]:
        yield from work(*values, request=request)

    handler.__annotations__["request"] = gr.Request
    return handler


def typed(gr: Any, handler: Any) -> Any:
    """A handler whose only argument is the request."""

    def call(request: Any) -> Any:
        return handler(request)

    call.__annotations__["request"] = gr.Request
    return call


def path_only(payload: Any) -> str | None:
    """The upload's path, undecoded; gradio has checked that it is an upload."""
    return None if payload is None else payload.path


def uploads_only(component: Any) -> None:
    """Gradio fetches what a visitor names by URL, which would make this machine ask others. Here a picture is
    uploaded.
    """
    keep = component.async_move_resource_to_block_cache

    async def local(place: Any) -> Any:
        if "://" in str(place or ""):
            raise BadInput("Pictures are uploaded here, not fetched from elsewhere.")
        return await keep(place)

    component.async_move_resource_to_block_cache = local


def filled_in(desk: Desk, ask: dict[str, Any], asked: Any, rest: Any) -> Form | PaseoError:
    values = dict(zip(ASKED, asked, strict=True))
    method, draws, names, *pool = rest
    try:
        hole = painted(values.pop("editor"))
        settings = desk.assignments(values["model"], values["task"], method, names, pool)
        ticked = values.pop("keep_known")
        kept = ticked if hole is not None else None  # the box is about painted holes
        numbers = {"seed": int(values.pop("seed") or 0), "sigma": float(values.pop("sigma") or 0.0)}
        return Form(
            **values,
            **numbers,
            keep_known=kept,
            method=method,
            draws=int(draws),
            hole=hole,
            settings=settings,
        )
    except PaseoError as error:
        return error


def cancel(desk: Desk, request: Any) -> str:
    desk.cancel(request.session_hash or "")
    return look.note("Cancelling after the current step …")


def leave(desk: Desk, request: Any) -> None:
    desk.leave(request.session_hash or "")
