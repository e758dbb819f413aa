"""The left side of the page: the picture, and the question about it."""

from __future__ import annotations

from types import ModuleType

from paseo.apps.ui import look
from paseo.apps.ui.estimate import has_face
from paseo.apps.ui.form import MAX_MEGABYTES, MAX_SEED, OWN, SHOW, readable
from paseo.apps.ui.handlers import PageState
from paseo.apps.ui.results import enlarged
from paseo.apps.ui.sliders import CHOICES, SLIDERS, sentence
from paseo.apps.ui.wiring import (
    Update,
    Widgets,
    masks,
    own_picture,
    path_only,
    samples_of,
    uploads_only,
)
from paseo.errors import PaseoError
from paseo.faces import weights_available
from paseo.images import fit_square, to_pil
from paseo.models import AUTO

WAYS = [
    ("Show me: spoil a sharp picture, then restore it", SHOW),
    ("My picture is already degraded: restore it", OWN),
]


def question(gr: ModuleType, state: PageState) -> Widgets:
    first = state.models[0]
    choices = state.task_choices(first)
    ask: Widgets = {}
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
    presets = state.preset_choices(first)
    ask["preset"] = gr.Dropdown(
        presets, value="", label="Settings", elem_id="preset", visible=len(presets) > 1
    )
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
    ask["faces"] = gr.Checkbox(
        False,
        label="Restore faces with the model that knows them",
        info="On where a face is found in the picture",
        visible=weights_available(),
        elem_id="faces",
    )
    _events(gr, state, ask)
    return ask


def _events(gr: ModuleType, state: PageState, ask: Widgets) -> None:
    def look_at(path: str | None, way: str, fit: bool, model: str) -> tuple[str, object, bool]:
        """What the picture is, a canvas of it, and whether it has a face."""
        if path is None:
            text = f"Drop a picture (at most {MAX_MEGABYTES} MB) or click on a sample."
            return look.note(text), None, False
        try:
            picture = readable(own_picture(state, path))
        except PaseoError as error:
            return look.note(str(error), bad=True), None, False
        (height, width), size = picture.size, state.model(model).size
        rgb, text = picture.rgb, f"{width}×{height} pixels" + "".join(f", {n}" for n in picture.notes)
        if way == SHOW and fit and picture.size != (size, size):
            rgb, text = fit_square(rgb, size), text + f"; becomes {size}×{size}"
        elif min(picture.size) < 16 or max(picture.size) > 1024:
            text += ". This size may take long, or be refused."
        canvas = enlarged(to_pil(rgb))
        editor = {"background": canvas, "layers": [], "composite": canvas}
        return look.note(text), editor, has_face(rgb, model)

    quick: dict[str, object] = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
    seen = [ask["picture"], ask["way"], ask["fit"], ask["model"]]
    for trigger in (ask["picture"].change, ask["way"].change, ask["fit"].change):
        trigger(look_at, seen, [ask["about"], ask["editor"], ask["faces"]], **quick)
    ask["task"].change(lambda t: gr.update(visible=masks(t)), ask["task"], ask["masking"], **quick)
    ask["way"].change(lambda w: gr.update(visible=w == SHOW), ask["way"], ask["fit"], **quick)
    _slider_events(gr, ask, quick)

    def of_way(way: str, model: str, task: str) -> Update:
        """A degraded picture may say itself what happened to it; a sharp one is spoilt as chosen."""
        known = [name for _, name in state.task_choices(model)]
        if way == OWN and AUTO in known:
            return gr.update(value=AUTO)
        return gr.update(value=known[0]) if task == AUTO and known else gr.update()

    ask["way"].change(of_way, [ask["way"], ask["model"], ask["task"]], ask["task"], **quick)

    def of_model(model: str) -> tuple[Update, Update]:
        choices, presets = state.task_choices(model), state.preset_choices(model)
        task = gr.update(choices=choices, value=choices[0][1] if choices else None)
        return task, gr.update(choices=presets, value="", visible=len(presets) > 1)

    ask["model_changed"] = ask["model"].change(of_model, ask["model"], [ask["task"], ask["preset"]], **quick)


def _slider_events(gr: ModuleType, ask: Widgets, quick: dict[str, object]) -> None:
    """The chosen degradation's sliders, and one sentence about what they say."""
    sliders = [ask["first"], ask["second"]]

    def of_task(task: str) -> list[object]:
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
        slider.change(of_slider, [ask["task"], *sliders], ask["told"], **quick)
