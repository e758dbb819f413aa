"""What is where on the page, and which handler answers. Gradio is imported when the page is built."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from paseo.apps.ui import look
from paseo.apps.ui.compare import compare_tab
from paseo.apps.ui.fields import KINDS
from paseo.apps.ui.form import MAX_DRAWS, MAX_MEGABYTES, MAX_SEED, OWN, SHOW, Form, readable
from paseo.apps.ui.handlers import PageState, boxes
from paseo.apps.ui.results import ShownResult, enlarged
from paseo.apps.ui.sliders import CHOICES, SLIDERS, sentence
from paseo.apps.ui.wiring import (
    ASKED,
    cancel,
    filled_in,
    leave,
    masks,
    own_picture,
    path_only,
    samples_of,
    typed,
    uploads_only,
    with_request,
)
from paseo.apps.ui.work import RunProgress
from paseo.errors import PaseoError
from paseo.images import fit_square, to_pil
from paseo.models import AUTO

TITLE = """# PASEO
Draws of what a degraded picture may have looked like, from a latent diffusion prior and a small
learned operator."""
WAYS = [
    ("Show me: spoil a sharp picture, then restore it", SHOW),
    ("My picture is already degraded: restore it", OWN),
]


def build(state: PageState) -> Any:
    """The page as gradio blocks, not launched."""
    import gradio as gr

    with gr.Blocks(title="PASEO", analytics_enabled=False, delete_cache=(3600, 3600)) as page:
        gr.Markdown(TITLE, elem_id="title")
        with gr.Row():
            with gr.Column(scale=2, min_width=320):
                ask = _question(gr, state)
            with gr.Column(scale=3, min_width=320), gr.Tabs():
                with gr.Tab("Restore"):
                    _restore_tab(gr, state, ask)
                with gr.Tab("Compare"):
                    compare_tab(gr, state, ask)
        page.unload(typed(gr, partial(leave, state)))
    return page


# ---- left: the picture and the question


def _question(gr: Any, state: PageState) -> dict[str, Any]:
    first = state.models[0]
    choices = state.task_choices(first)
    ask: dict[str, Any] = {}
    ask["way"] = gr.Radio(WAYS, value=SHOW, label="What do you have?", elem_id="way")
    ask["picture"] = gr.Image(
        label="Picture",
        type="filepath",
        image_mode=None,
        sources=["upload", "clipboard"],
        height=300,
        elem_id="picture",
        buttons=[],
    )
    ask["picture"].preprocess = path_only  # decoding is ours, with our limits
    ask["about"] = gr.HTML(
        look.note(f"Drop a picture (at most {MAX_MEGABYTES} MB) or click on a sample."), elem_id="about"
    )
    gr.Examples(
        [[path] for path in samples_of(state.models)],
        inputs=ask["picture"],
        label="Samples",
        examples_per_page=8,
        cache_examples=False,
    )
    with gr.Row():
        ask["model"] = gr.Dropdown(
            list(state.models), value=first, label="Model", elem_id="model", visible=len(state.models) > 1
        )
        ask["task"] = gr.Dropdown(choices, value=choices[0][1], label="What happened to it", elem_id="task")
    with gr.Row():
        for name in ("first", "second"):
            ask[name] = gr.Slider(0, 1, value=0, visible=False, elem_id=name)
    ask["told"] = gr.HTML(look.note(sentence(choices[0][1], [])), elem_id="told")
    with gr.Group(visible=False) as ask["masking"]:
        ask["editor"] = gr.ImageEditor(
            label="Paint what to fill",
            show_label=False,
            type="pil",
            sources=[],
            transforms=[],
            layers=False,
            brush=gr.Brush(default_size=18, colors=["#ffffff"], default_color="#ffffff", color_mode="fixed"),
            height=420,
            elem_id="mask",
            buttons=[],
        )
        for upload in (ask["picture"], ask["editor"]):
            uploads_only(upload)
        note = "<small>Paint over what is to be filled; if nothing is painted, the box in the centre.</small>"
        gr.HTML(note, padding=True, elem_id="mask-note")
        ask["keep_known"] = gr.Checkbox(
            True, label="Copy the seen pixels from the picture, where a hole is painted"
        )
    with gr.Row():
        ask["seed"] = gr.Number(0, label="Seed", precision=0, minimum=0, maximum=MAX_SEED, elem_id="seed")
        ask["sigma"] = gr.Number(0.01, label="Noise σ_y", minimum=0, maximum=1, step=0.01, elem_id="sigma")
    ask["fit"] = gr.Checkbox(
        True,
        label="Crop and scale to the size the model was trained on",
        info="For sharp pictures of another size",
        elem_id="fit",
    )
    _question_events(gr, state, ask)
    return ask


def _question_events(gr: Any, state: PageState, ask: dict[str, Any]) -> None:
    def look_at(path: str | None, way: str, fit: bool, model: str) -> tuple[str, Any]:
        """What the picture is, and a canvas of it."""
        if path is None:
            return look.note(f"Drop a picture (at most {MAX_MEGABYTES} MB) or click on a sample."), None
        try:
            picture = readable(own_picture(state, path))
        except PaseoError as error:
            return look.note(str(error), bad=True), None
        (height, width), size = picture.size, state.model(model).size
        rgb, text = picture.rgb, f"{width}×{height} pixels" + "".join(f", {n}" for n in picture.notes)
        if way == SHOW and fit and picture.size != (size, size):
            rgb, text = fit_square(rgb, size), text + f"; becomes {size}×{size}"
        elif min(picture.size) < 16 or max(picture.size) > 1024:
            text += ". This size may take long, or be refused."
        canvas = enlarged(to_pil(rgb))
        return look.note(text), {"background": canvas, "layers": [], "composite": canvas}

    quick: dict[str, Any] = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
    seen = [ask["picture"], ask["way"], ask["fit"], ask["model"]]
    for trigger in (ask["picture"].change, ask["way"].change, ask["fit"].change):
        trigger(look_at, seen, [ask["about"], ask["editor"]], **quick)
    ask["task"].change(lambda t: gr.update(visible=masks(t)), ask["task"], ask["masking"], **quick)
    ask["way"].change(lambda w: gr.update(visible=w == SHOW), ask["way"], ask["fit"], **quick)
    _slider_events(gr, ask, quick)

    def of_model(model: str) -> Any:
        choices = state.task_choices(model)
        return gr.update(choices=choices, value=choices[0][1] if choices else None)

    ask["model_changed"] = ask["model"].change(of_model, ask["model"], ask["task"], **quick)


def _slider_events(gr: Any, ask: dict[str, Any], quick: dict[str, Any]) -> None:
    """The chosen degradation's sliders, and one sentence about what they say."""
    sliders = [ask["first"], ask["second"]]

    def of_task(task: str) -> list[Any]:
        shown = CHOICES.get(task, ())
        updates = [
            gr.update(label=s.label, minimum=s.low, maximum=s.high, step=s.step, value=s.value, visible=True)
            for s in shown
        ]
        updates += [gr.update(visible=False)] * (SLIDERS - len(shown))
        own = bool(shown) or task == AUTO  # these say their noise themselves
        return [
            *updates,
            gr.update(visible=not own),
            look.note(sentence(task, [s.value for s in shown])),
        ]

    def of_slider(task: str, *numbers: float) -> str:
        return look.note(sentence(task, list(numbers)))

    ask["task"].change(of_task, ask["task"], [*sliders, ask["sigma"], ask["told"]], **quick)
    for slider in sliders:
        slider.release(of_slider, [ask["task"], *sliders], ask["told"], **quick)


# ---- right: restore


def _restore_tab(gr: Any, state: PageState, ask: dict[str, Any]) -> dict[str, Any]:
    model, task = state.models[0], state.task_choices(state.models[0])[0][1]
    ui: dict[str, Any] = {}
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
    with gr.Row():
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


def _drawer(gr: Any, state: PageState, model: str, task: str) -> tuple[list[Any], Any]:
    """Boxes for every setting of any method, filled with those of PASEO; and which box holds which."""
    pool: list[Any] = []
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


def _box(entry: Any) -> dict[str, Any]:
    """How a box shows a setting, or hides."""
    if entry is None:
        return {"visible": False}
    field, value = entry
    options: dict[str, Any] = {
        "label": field.label,
        "info": field.note or None,
        "value": value,
        "visible": True,
    }
    return options | ({"choices": list(field.choices)} if field.kind == "choice" else {})


def _restore_events(gr: Any, state: PageState, ask: dict[str, Any], ui: dict[str, Any]) -> None:
    quick: dict[str, Any] = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}

    def refill(model: str, task: str, method: str) -> list[Any]:
        filled = state.drawer(model, task, method)
        updates, names = [], []
        for kind in KINDS:
            for i in range(boxes()[kind]):
                entry = filled[kind][i] if i < len(filled[kind]) else None
                updates.append(gr.update(**_box(entry)))
                names.append(entry[0].name if entry else None)
        return [names, *updates]

    def methods_of(model: str, task: str, method: str) -> Any:
        choices = state.method_choices(model, task)
        return gr.update(choices=choices, value=method if method in [c[1] for c in choices] else "paseo")

    drawer = [ui["names"], *ui["pool"]]
    chosen = [ask["model"], ask["task"], ui["method"]]
    for trigger in (ask["task"].change, ask["model_changed"].then):
        trigger(methods_of, chosen, ui["method"], **quick).then(refill, chosen, drawer, **quick)
    ui["method"].change(refill, chosen, drawer, **quick)
    ui["reset"].click(refill, chosen, drawer, **quick)

    outputs = [ui[k] for k in OUTPUTS]

    def begin(request: Any) -> tuple[Any, Any, str, Any]:
        state.begin(request.session_hash or "")
        return (
            gr.update(interactive=False),
            gr.update(interactive=True),
            look.WAITING,
            gr.update(visible=False),
        )

    def work(*values: Any, request: Any) -> Iterator[list[Any]]:
        form = filled_in(state, ask, values[: len(ASKED)], values[len(ASKED) :])
        for news in (
            state.restore(form, request.session_hash or "") if isinstance(form, Form) else iter([form])
        ):
            yield [_updates(gr, news).get(k, gr.skip()) for k in OUTPUTS]

    inputs = [*(ask[k] for k in ASKED), ui["method"], ui["draws"], ui["names"], *ui["pool"]]
    started = ui["run"].click(
        typed(gr, begin), None, [ui["run"], ui["cancel"], ui["status"], ui["result"]], **quick
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


def _updates(gr: Any, news: RunProgress | ShownResult | PaseoError) -> dict[str, Any]:
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
        "scores": look.scores([(row.name, row.scores) for row in news.rows], news.sigma_y),
        "spread": gr.update(visible=deviation is not None),
        "std": str(deviation) if deviation is not None else None,
        "png": gr.update(value=str(first.file), label=f"Download {first.file.name}"),
        "json": str(news.sidecar),
        "files": [str(f) for f in news.files],
        "command": news.command,
        "last": news,
    }


def _shown(name: str | None, last: ShownResult | None) -> tuple[Any, Any]:
    """Another picture on the right of the slider, and on the download button."""
    import gradio as gr

    if last is None or name is None:
        return gr.skip(), gr.skip()
    before = str(last.before)
    if name == "original":
        return ((before, str(last.original)) if last.original else gr.skip()), gr.skip()
    row = next((r for r in last.rows if r.name == name), last.rows[0])
    return (before, str(row.shown)), gr.update(value=str(row.file), label=f"Download {row.file.name}")
