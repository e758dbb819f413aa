"""The *Compare* tab: several methods side by side, on the same measurement and seed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from types import ModuleType
from typing import Any

from paseo.apps.ui import look
from paseo.apps.ui.form import Form
from paseo.apps.ui.handlers import PageState
from paseo.apps.ui.results import ShownResult
from paseo.apps.ui.wiring import (
    ASKED,
    Update,
    Visitor,
    Widgets,
    cancel,
    comparable,
    filled_in,
    typed,
    with_request,
)
from paseo.apps.ui.work import RunProgress
from paseo.samplers import METHODS

COMPARED = ("paseo", "silo", "ldps")  # ticked at first


def compare_tab(gr: ModuleType, state: PageState, ask: Widgets) -> None:
    model, task = state.models[0], state.task_choices(state.models[0])[0][1]
    able = state.method_choices(model, task)
    start = [name for _, name in able if name in COMPARED]
    chosen = gr.CheckboxGroup(
        able, value=start, label="Methods, each as tuned, on the same measurement and seed", elem_id="methods"
    )
    budget = gr.Number(
        None,
        label="Denoiser calls of each, at most",
        info="Empty: as tuned",
        precision=0,
        minimum=1,
        elem_id="budget",
    )
    with gr.Row():
        go = gr.Button("Compare", variant="primary", elem_id="compare")
        stop = gr.Button("Cancel", variant="stop", interactive=False, elem_id="stop")
    status = gr.HTML(look.IDLE, elem_id="compare-status")
    with gr.Column(visible=False) as result:
        gallery = gr.Gallery(
            label="Side by side",
            columns=3,
            height="auto",
            object_fit="contain",
            format="png",
            elem_id="side-by-side",
        )
        scores = gr.HTML(elem_id="compare-scores")
        with gr.Row():
            left = gr.Dropdown([], label="Left", elem_id="left")
            right = gr.Dropdown([], label="Right", elem_id="right")
        slider = gr.ImageSlider(
            label="Left | right",
            type="pil",
            format="png",
            max_height=520,
            elem_id="compare-slider",
            buttons=["fullscreen"],
        )
    kept = gr.State({})
    quick: dict[str, object] = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}

    def begin(request: Visitor) -> tuple[Update, Update, str, Update]:
        state.begin(request.session_hash or "")
        return (
            gr.update(interactive=False),
            gr.update(interactive=True),
            look.WAITING,
            gr.update(visible=False),
        )

    def work(*values: Any, request: Visitor) -> Iterator[list[object]]:
        *asked, methods, limit = values
        form = filled_in(state, ask, asked, ["paseo", 1, []])
        if isinstance(form, Form):
            form = comparable(state, form, methods, limit)
        if not isinstance(form, Form):
            yield [look.note(str(form), bad=True), *[gr.skip()] * 7]
            return
        done: dict[str, ShownResult] = {}
        problems: list[str] = []
        for method, news in state.compare(
            form, methods, request.session_hash or "", int(limit) if limit else None
        ):
            title = METHODS[method].title if method in METHODS else method
            if isinstance(news, RunProgress):
                yield [
                    look.bar(news, f"{title}, {len(done) + len(problems) + 1} of {len(methods)}:"),
                    *[gr.skip()] * 7,
                ]
            elif isinstance(news, ShownResult):
                done[title] = news
                yield [gr.skip(), gr.update(visible=True), *_side_by_side(gr, done)]
            else:
                problems.append(f"{title}: {news}" if title else str(news))
        text = " ".join([f"{len(done)} of {len(methods)} methods done.", *problems])
        yield [look.note(text, bad=bool(problems)), *[gr.skip()] * 7]

    go.click(typed(gr, begin), None, [go, stop, status, result], **quick).then(
        with_request(gr, work),
        [*(ask[k] for k in ASKED), chosen, budget],
        [status, result, gallery, scores, left, right, kept, slider],
        concurrency_id="work",
        concurrency_limit=1,
        show_progress="hidden",
        api_visibility="private",
    ).then(lambda: (gr.update(interactive=True), gr.update(interactive=False)), None, [go, stop], **quick)
    stop.click(typed(gr, partial(cancel, state)), None, status, **quick)
    for choice in (left, right):
        choice.input(_pair, [left, right, kept], slider, **quick)

    def methods_of(model: str, task: str, preset: str, before: list[str]) -> Update:
        able = state.method_choices(model, task, preset)
        names = [c[1] for c in able]
        return gr.update(choices=able, value=[m for m in before if m in names])

    for trigger in (ask["task"].change, ask["preset"].change):
        trigger(methods_of, [ask["model"], ask["task"], ask["preset"], chosen], chosen, **quick)


def _side_by_side(gr: ModuleType, done: dict[str, ShownResult]) -> list[object]:
    first = next(iter(done.values()))
    pictures = {"measurement": str(first.before)}
    pictures |= {"original": str(first.original)} if first.original is not None else {}
    pictures |= {title: str(result.rows[0].shown) for title, result in done.items()}
    table = look.scores(
        [(title, r.rows[0].scores) for title, r in done.items()],
        first.sigma_y,
        {"NFE": [str(r.nfe) for r in done.values()], "seconds": [f"{r.seconds:.1f}" for r in done.values()]},
    )
    names, titles = list(pictures), list(done)
    sides = (titles[0] if len(titles) > 1 else "measurement"), titles[-1]
    updates = [gr.update(choices=names, value=side) for side in sides]
    shown = [(picture, name) for name, picture in pictures.items()]
    return [shown, table, *updates, pictures, (pictures[sides[0]], pictures[sides[1]])]


def _pair(left: str | None, right: str | None, kept: dict[str, str]) -> tuple[str, str] | None:
    return (kept[left], kept[right]) if left in kept and right in kept else None
