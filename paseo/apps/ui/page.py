"""What is where on the page, and which handler answers. Gradio is imported when the page is built."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from types import ModuleType
from typing import Any

from paseo.apps.ui import look
from paseo.apps.ui.compare import compare_tab
from paseo.apps.ui.fields import KINDS, Field
from paseo.apps.ui.form import MAX_DRAWS, Form
from paseo.apps.ui.handlers import PageState, boxes
from paseo.apps.ui.question import question
from paseo.apps.ui.results import ShownResult, enlarged
from paseo.apps.ui.wiring import (
    ASKED,
    Update,
    Visitor,
    Widgets,
    cancel,
    filled_in,
    leave,
    typed,
    with_request,
)
from paseo.apps.ui.work import RunProgress
from paseo.errors import PaseoError
from paseo.models.known import known_pictures


def build(state: PageState) -> Any:
    """The page as gradio blocks, not launched."""
    import gradio as gr

    with gr.Blocks(title="PASEO", analytics_enabled=False, delete_cache=(3600, 3600)) as page:
        gr.Markdown(look.title(known_pictures(state.model(state.models[0]))), elem_id="title")
        with gr.Row():
            with gr.Column(scale=2, min_width=320):
                ask = question(gr, state)
            with gr.Column(scale=3, min_width=320), gr.Tabs():
                with gr.Tab("Restore"):
                    _restore_tab(gr, state, ask)
                with gr.Tab("Compare"):
                    compare_tab(gr, state, ask)
        page.unload(typed(gr, partial(leave, state)))
    return page


def _restore_tab(gr: ModuleType, state: PageState, ask: Widgets) -> Widgets:
    model, task = state.models[0], state.task_choices(state.models[0])[0][1]
    ui: Widgets = {}
    with gr.Row():
        ui["method"] = gr.Dropdown(
            state.method_choices(model, task), value="paseo", label="Method", elem_id="method"
        )
        ui["draws"] = gr.Slider(
            1,
            MAX_DRAWS,
            value=4,
            step=1,
            label="Draws",
            info="Two or more show where they differ",
            elem_id="draws",
        )
    with gr.Accordion("Advanced: every setting of the method", open=False, elem_id="advanced"):
        ui["pool"], ui["names"] = _drawer(gr, state, model, task)
        ui["reset"] = gr.Button("Back to the tuned settings", size="sm")
    with gr.Row(elem_id="go"):
        ui["run"] = gr.Button("Restore", variant="primary", elem_id="run")
        ui["cancel"] = gr.Button("Cancel", variant="stop", interactive=False, elem_id="cancel")
    ui["status"] = gr.HTML(look.IDLE, elem_id="status")
    ui["preview"] = gr.Image(
        label="So far (the clean estimate)", height=300, visible=False, elem_id="preview", buttons=[]
    )
    with gr.Column(visible=False, elem_id="result") as ui["result"]:
        ui["slider"] = gr.ImageSlider(
            label="Before | after",
            type="pil",
            format="png",
            max_height=520,
            elem_id="slider",
            buttons=["fullscreen"],
        )
        ui["shown"] = gr.Radio([], label="Shown on the right", elem_id="shown")
        ui["gallery"] = gr.Gallery(
            label="All draws", columns=4, height="auto", object_fit="contain", format="png", elem_id="gallery"
        )
        ui["scores"] = gr.HTML(elem_id="scores")
        with gr.Column(visible=False) as ui["spread"]:
            ui["std"] = gr.Image(
                label="Standard deviation of the draws",
                format="png",
                height=360,
                elem_id="std",
                buttons=["fullscreen"],
            )
            gr.HTML(look.LEGEND)
        with gr.Row():
            ui["png"] = gr.DownloadButton("Download the PNG", elem_id="png")
            ui["json"] = gr.DownloadButton("Download its record (JSON)", elem_id="json")
        with gr.Accordion("All files", open=False, elem_id="all-files"):
            ui["files"] = gr.Files(show_label=False, interactive=False, elem_id="files")
        ui["command"] = gr.Code(
            label="On the command line", language="shell", interactive=False, elem_id="command"
        )
    ui["last"] = gr.State(None)
    _restore_events(gr, state, ask, ui)
    return ui


def _drawer(gr: ModuleType, state: PageState, model: str, task: str) -> tuple[list[object], object]:
    """Boxes for every setting of any method, filled with those of PASEO; and which box holds which."""
    pool: list[object] = []
    filled = state.drawer(model, task, "paseo")
    names: list[str | None] = []
    kinds = {"text": gr.Textbox, "choice": gr.Dropdown, "switch": gr.Checkbox}
    for kind in KINDS:
        with gr.Row():
            for i in range(boxes()[kind]):
                entry = filled[kind][i] if i < len(filled[kind]) else None
                options = _box(entry)
                pool.append(kinds[kind](interactive=True, min_width=150, **options))
                names.append(entry[0].name if entry else None)
    return pool, gr.State(names)


def _box(entry: tuple[Field, object] | None) -> dict[str, object]:
    """How a box shows a setting, or hides."""
    if entry is None:
        return {"visible": False}
    field, value = entry
    options: dict[str, object] = {
        "label": field.label,
        "info": field.note or None,
        "value": value,
        "visible": True,
    }
    return options | ({"choices": list(field.choices)} if field.kind == "choice" else {})


def _restore_events(gr: ModuleType, state: PageState, ask: Widgets, ui: Widgets) -> None:
    quick: dict[str, object] = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}

    def refill(model: str, task: str, preset: str, method: str) -> list[object]:
        filled = state.drawer(model, task, method, preset)
        updates, names = [], []
        for kind in KINDS:
            for i in range(boxes()[kind]):
                entry = filled[kind][i] if i < len(filled[kind]) else None
                updates.append(gr.update(**_box(entry)))
                names.append(entry[0].name if entry else None)
        return [names, *updates]

    def methods_of(model: str, task: str, preset: str, method: str) -> Update:
        choices = state.method_choices(model, task, preset)
        return gr.update(choices=choices, value=method if method in [c[1] for c in choices] else "paseo")

    drawer = [ui["names"], *ui["pool"]]
    chosen = [ask["model"], ask["task"], ask["preset"], ui["method"]]
    for trigger in (ask["task"].change, ask["preset"].change, ask["model_changed"].then):
        trigger(methods_of, chosen, ui["method"], **quick).then(refill, chosen, drawer, **quick)
    ui["method"].change(refill, chosen, drawer, **quick)
    ui["reset"].click(refill, chosen, drawer, **quick)

    outputs = [ui[k] for k in OUTPUTS]

    def begin(request: Visitor) -> tuple[Update, Update, str, Update]:
        state.begin(request.session_hash or "")
        return (
            gr.update(interactive=False),
            gr.update(interactive=True),
            look.WAITING,
            gr.update(visible=False),
        )

    def work(*values: object, request: Visitor) -> Iterator[list[object]]:
        form = filled_in(state, ask, values[: len(ASKED)], values[len(ASKED) :])
        for news in (
            state.restore(form, request.session_hash or "") if isinstance(form, Form) else iter([form])
        ):
            yield [_updates(gr, news).get(k, gr.skip()) for k in OUTPUTS]

    def foretell(*values: Any) -> str:
        form = filled_in(state, ask, values[: len(ASKED)], values[len(ASKED) :])
        return look.estimate(state.seconds(form) if isinstance(form, Form) and form.picture else None)

    inputs = [*(ask[k] for k in ASKED), ui["method"], ui["draws"], ui["names"], *ui["pool"]]
    started = ui["run"].click(
        typed(gr, begin),
        None,
        [ui["run"], ui["cancel"], ui["status"], ui["result"]],
        js=look.TO_STATUS,
        **quick,
    )
    started.then(
        with_request(gr, work),
        inputs,
        outputs,
        concurrency_id="work",
        concurrency_limit=1,
        show_progress="hidden",
        api_visibility="private",
    ).then(
        lambda: (gr.update(interactive=True), gr.update(interactive=False)),
        None,
        [ui["run"], ui["cancel"]],
        **quick,
    )
    changes = [ask[k].change for k in ("picture", "way", "task", "fit", "faces")]
    for change in (*changes, ui["draws"].release, ui["method"].change):
        change(foretell, inputs, ui["status"], **quick)
    ui["cancel"].click(typed(gr, partial(cancel, state)), None, ui["status"], **quick)
    ui["shown"].input(_shown, [ui["shown"], ui["last"]], [ui["slider"], ui["png"]], **quick)


OUTPUTS = (
    "status",
    "preview",
    "result",
    "slider",
    "shown",
    "gallery",
    "scores",
    "spread",
    "std",
    "png",
    "json",
    "files",
    "command",
    "last",
)


def _updates(gr: ModuleType, news: RunProgress | ShownResult | PaseoError) -> dict[str, object]:
    """What changes on the page."""
    if isinstance(news, PaseoError):
        return {"status": look.note(str(news), bad=True), "preview": gr.update(visible=False)}
    if isinstance(news, RunProgress):
        preview = (
            {} if news.preview is None else {"preview": gr.update(value=enlarged(news.preview), visible=True)}
        )
        return {"status": look.bar(news)} | preview
    shots = [(str(row.shown), row.name) for row in news.rows]
    more = [(str(news.before), "measurement")] + ([(str(news.original), "original")] if news.original else [])
    names = [row.name for row in news.rows]
    first = news.rows[0]
    deviation = news.deviation
    return {
        "status": look.finished(news),
        "preview": gr.update(visible=False),
        "result": gr.update(visible=True),
        "slider": (str(news.before), str(first.shown)),
        "shown": gr.update(
            choices=names + (["original"] if news.original else []),
            value=names[0],
            visible=len(names) > 1 or bool(news.original),
        ),
        "gallery": shots + more,
        "scores": look.scores(
            [(row.name, row.scores) for row in news.rows], news.sigma_y, warnings=news.warnings
        ),
        "spread": gr.update(visible=deviation is not None),
        "std": str(deviation) if deviation is not None else None,
        "png": gr.update(value=str(first.file), label=f"Download {first.file.name}"),
        "json": str(news.sidecar),
        "files": [str(f) for f in news.files],
        "command": news.command,
        "last": news,
    }


def _shown(name: str | None, last: ShownResult | None) -> tuple[object, object]:
    """Another picture on the right of the slider, and on the download button."""
    import gradio as gr

    if last is None or name is None:
        return gr.skip(), gr.skip()
    before = str(last.before)
    if name == "original":
        return ((before, str(last.original)) if last.original else gr.skip()), gr.skip()
    row = next((r for r in last.rows if r.name == name), last.rows[0])
    return (before, str(row.shown)), gr.update(value=str(row.file), label=f"Download {row.file.name}")
