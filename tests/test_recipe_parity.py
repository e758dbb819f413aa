"""The same wish gives the same recipe at every door: command line, page, pipeline, bench, tune, reproduce."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch
import typer
from PIL import Image

from paseo.apps.cli.restore import RestoreOptions, requested, restore
from paseo.apps.pipeline import PaseoPipeline
from paseo.apps.ui.form import SHOW, Form
from paseo.apps.ui.handlers import PageState
from paseo.apps.ui.wiring import ASKED, filled_in, samples_of
from paseo.degrade import CentreBox, Mask
from paseo.errors import BadInput
from paseo.lab.bench.config import parse_config
from paseo.lab.bench.plan import setup_of
from paseo.lab.bench.setup import Setup
from paseo.lab.reproduce.variants import Options, recipe_of
from paseo.lab.tune.tune import Tuning
from paseo.operators.config import OperatorConfig
from paseo.operators.net import OperatorNet
from paseo.operators.store import operator_config, save_operator
from paseo.recipe import Recipe, Request, resolve, settle
from paseo.settings.presets import FACE, PHOTO, preset
from paseo.testing import tiny_pipeline
from paseo.trust import vouch

TASKS = ("sr4", "sr8", "blur", "inpaint", "jpeg")
CHANNELS = {"sd": 4, "sdxl": 4, "sd3": 16}


@dataclass(frozen=True)
class Wish:
    """What somebody wants, in words that every door understands."""

    task: str = "sr4"
    family: str = ""  # of a tiny Stable Diffusion model; "" for the default model
    method: str = "paseo"
    label: str | None = None
    preset: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    sigma: float | None = None
    prompt: str | None = None
    guidance: float | None = None
    hole: str = ""  # "box" or "free"
    doors: tuple[str, ...] = ("cli", "page", "widgets", "pipeline", "bench", "tune", "reproduce")

    @property
    def texts(self) -> dict[str, Any]:
        found = {"prompt": self.prompt, "guidance": self.guidance}
        return {name: value for name, value in found.items() if value is not None}

    @property
    def assignments(self) -> list[str]:
        return [f"{name}={value}" for name, value in self.settings.items()]


OWN = "faces-128"  # the embedded model that has an operator for each of the paper's tasks
OURS = [
    *(Wish(task) for task in TASKS),
    *(Wish(task, method="silo") for task in TASKS),
    *(Wish(task, label="paseo-dagger") for task in TASKS),
    *(Wish(task, method="red-diff") for task in ("sr4", "jpeg")),
    Wish("sr8", settings={"relaxation": 0.3, "steps": 40}),
    Wish("blur", sigma=0.03),
    Wish("blur:2"),
    Wish("blur:1.5,sr:2"),
    Wish("OWN"),
    Wish("OWN", method="silo"),
    Wish("sr4", preset="coco/sd35"),
    Wish("sr4", preset=OWN),
    Wish("inpaint", hole="box", doors=("cli", "page", "widgets")),
    Wish("inpaint", hole="free", doors=("cli", "page", "widgets")),
    Wish("inpaint", method="silo", hole="free", doors=("cli", "page", "widgets")),
]
THEIRS = [
    *(Wish(task, family) for family in CHANNELS for task in ("sr4", "sr8", "jpeg")),
    *(Wish(task, "sd3", preset="ffhq/sd35") for task in ("sr4", "blur", "inpaint")),
    Wish("jpeg", "sd", preset="ffhq/rv51"),
    Wish("sr4", "sd3", prompt="a cat", guidance=3.0),
    Wish("sr4", "sd3", settings={"steps": 9}),
    Wish("OWN", "sd3"),
    Wish("inpaint", "sd3", hole="box", doors=("cli", "pipeline")),
    Wish("inpaint", "sd3", hole="free", doors=("cli", "pipeline")),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tiny models by family, an operator of each task for each, and a degradation of one's own."""
    root = tmp_path_factory.mktemp("parity")
    (root / "own.py").write_text("def dim(x):\n    return 0.5 * x\n")
    vouch(f"{root / 'own.py'}:dim")  # the command line does so for what was typed
    for family, channels in CHANNELS.items():
        tiny_pipeline(cast(Any, family)).save_pretrained(root / family)
        for task in (*TASKS, "own"):
            name = task if task in TASKS else f"{root / 'own.py'}:dim"
            net = OperatorNet(OperatorConfig(channels, "", "", name))
            save_operator(net, root / "operators" / family / task)
    return root


def masked(hole: str, size: int = 32) -> Mask:
    if hole == "box":
        return Mask(CentreBox().observed_at(size, size))
    observed = torch.ones(size, size)
    observed[4:9, 3:20] = 0
    return Mask(observed)


class Doors:
    """Each method is one way in."""

    def __init__(self, wish: Wish, root: Path) -> None:
        self.wish, self.root = wish, root
        self.task = f"{root / 'own.py'}:dim" if wish.task == "OWN" else wish.task
        self.model = str(root / wish.family) if wish.family else OWN
        folder = root / "operators" / wish.family / ("own" if wish.task == "OWN" else wish.task)
        self.operator = str(folder) if wish.family else None
        if wish.hole:
            learned = root / "operators" / wish.family / "inpaint" if wish.family else _embedded("inpaint")
            self.learned = operator_config(learned)

    def settled(self, recipe: Recipe) -> Recipe:
        return settle(recipe, masked(self.wish.hole), self.learned) if self.wish.hole else recipe

    def cli(self) -> Recipe:
        w = self.wish
        words = ["a.png", "--task", self.task, "--model", self.model, "--method", w.label or w.method]
        for flag, value in (
            ("--preset", w.preset),
            ("--sigma", w.sigma),
            ("--prompt", w.prompt),
            ("--guidance", w.guidance),
            ("--operator", self.operator),
            ("--mask", "hole.png" if w.hole else None),
        ):
            words += [flag, str(value)] if value is not None else []
        for assignment in w.assignments:
            words += ["--set", assignment]
        app = typer.Typer()
        app.command()(restore)
        typed = typer.main.get_command(app).make_context("restore", words).params
        return self.settled(resolve(requested(cast(RestoreOptions, typed))))

    def page(self) -> Recipe | None:
        w = self.wish
        if w.family:
            return None  # the page offers what lies beside a model
        form = Form(
            picture="a.png",
            model=self.model,
            task=self.task,
            method=w.label or w.method,
            preset=w.preset,
            sigma=0.01 if w.sigma is None else w.sigma,
            hole=Image.new("L", (32, 32)) if w.hole else None,
            settings=tuple(w.assignments),
        )
        return self.settled(resolve(form.request()))

    def widgets(self) -> Recipe | None:
        """The page once more, from the values of its boxes; what they do not offer cannot be asked there."""
        w, state = self.wish, PageState(self.root, (OWN,))
        offered = {name for _, name in state.task_choices(OWN)} if not w.family else set()
        if w.family or self.task not in offered:
            return None
        painted = Image.new("RGBA", (32, 32), (255, 255, 255, 255))
        painted.paste((0, 0, 0, 0), (0, 0, 16, 16))
        values: dict[str, Any] = {
            **{"picture": samples_of(state.models)[0], "way": SHOW, "model": state.models[0]},
            **{"preset": "" if w.preset in (None, OWN) else w.preset, "task": self.task},
            **{
                "first": 0,
                "second": 0,
                "seed": 0,
                "faces": False,
                "sigma": 0.01 if w.sigma is None else w.sigma,
            },
            **{"fit": True, "keep_known": True, "editor": {"layers": [painted] if w.hole else []}},
        }
        method = w.label or w.method
        form = filled_in(state, {}, [values[name] for name in ASKED], [method, 1, *_boxes(w)])
        assert isinstance(form, Form), form
        return self.settled(resolve(form.request()))

    def pipeline(self) -> Recipe | None:
        w = self.wish
        if not w.family or w.method != "paseo" or w.label or self.operator is None:
            return None  # it takes samplers, not names of methods
        pipe = PaseoPipeline.from_pretrained(self.model)
        return pipe.recipe(
            self.task,
            w.prompt,
            mask=masked(w.hole) if w.hole else None,
            noise_level=w.sigma,
            preset=w.preset,
            operator=self.operator,
            num_inference_steps=w.settings.get("steps"),
            guidance_scale=w.guidance,
        )

    def bench(self) -> Recipe:
        w = self.wish
        method = {"name": w.method, "settings": w.settings, "preset": w.label}
        config = parse_config(
            {
                "model": self.model,
                "tasks": [self.task],
                "methods": [method],
                "preset_table": w.preset,
                "sigma_y": w.sigma,
                "model_options": w.texts,
                "operators": {} if self.operator is None else {self.task: self.operator},
            }
        )
        return setup_of(config, self.task, config.methods[0]).recipe

    def tune(self) -> Recipe:
        w = self.wish
        setup = Setup(self.model, self.task, w.sigma, self.operator, options=w.texts, preset=w.preset)
        pictures: Any = [None]  # none is looked at
        return Tuning(
            setup, w.method, pictures, Path("none.db"), fixed=w.settings, preset_name=w.label
        ).chosen.recipe

    def reproduce(self) -> Recipe | None:
        w = self.wish
        if w.method != "paseo" or w.label or w.settings or w.sigma is not None or w.texts:
            return None  # it varies the kept settings of PASEO, and has no other wishes
        return recipe_of(Options(model=self.model, preset=w.preset), self.task)


def _boxes(wish: Wish) -> list[Any]:
    """Which box of the drawer holds which setting, and what stands in them."""
    return [list(wish.settings), *map(str, wish.settings.values())]


def _embedded(task: str) -> Path:
    from paseo.models import own_folder

    folder = own_folder(OWN)
    assert folder is not None
    return folder / "operators" / task


def facts(recipe: Recipe) -> dict[str, Any]:
    texts = (recipe.prompt, recipe.guidance)
    return {"task": recipe.task, "sampler": recipe.sampler, "sigma_y": recipe.sigma_y, "texts": texts}


@pytest.mark.parametrize("wish", [*OURS, *THEIRS], ids=str)
def test_every_door_decides_the_same(wish: Wish, place: Path) -> None:
    doors = Doors(wish, place)
    ways: dict[str, Callable[[], Recipe | None]] = {name: getattr(doors, name) for name in wish.doors}
    found = {name: recipe for name, way in ways.items() if (recipe := way()) is not None}
    assert len(found) >= 2
    first = found["cli"]
    for name, recipe in found.items():
        assert facts(recipe) == facts(first), name
        if name in ("cli", "page", "widgets", "pipeline"):
            assert (recipe.keep_known, recipe.feather) == (first.keep_known, first.feather), name
        if name != "reproduce":
            assert recipe.operator.kind == first.operator.kind, name


def test_there_are_thirty_of_them() -> None:
    assert len(OURS) + len(THEIRS) >= 30


def test_what_was_decided() -> None:
    """The rules of `paseo.recipe.resolve`, by example."""
    own = resolve(Request(task="sr4"))
    assert (own.model, own.sampler, own.prompt) == ("photos", preset("photos", "sr4").sampler, None)
    photo = resolve(Request(task="sr4", model="stabilityai/stable-diffusion-3.5-medium"))
    assert (photo.sampler, photo.prompt) == (preset("coco/sd35", "sr4").sampler, PHOTO)
    face = resolve(Request(task="sr4", model="sd35", preset="ffhq/sd35"))
    assert (face.sampler, face.prompt, face.guidance) == (preset("ffhq/sd35", "sr4").sampler, FACE, 4.0)
    assert (
        resolve(Request(task="sr4", model="sd15")).prompt == PHOTO
    )  # rows of faces, borrowed for photographs
    assert not resolve(Request(task="inpaint")).keep_known
    assert resolve(Request(mask=True)).keep_known


def test_a_task_of_ones_own_borrows_the_settings_of_sr4(place: Path) -> None:
    recipe = resolve(Request(task=f"{place / 'own.py'}:dim"))
    assert recipe.sampler == replace(
        preset("photos", "sr4").sampler, weight="ones"
    )  # the chain has no residual
    assert any("borrowing" in reason for reason in recipe.why)


def test_a_recipe_survives_its_record() -> None:
    for request in (Request(task="jpeg"), Request(task="sr4", model="sd35", negative_prompt="dark")):
        recipe = resolve(request)
        assert Recipe.from_record(recipe.to_record()) == recipe


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (Request(), "What happened"),
        (Request(task="sr4", mask=True), "belongs to the task inpaint"),
        (Request(task="sr4", preset="nowhere"), "nowhere"),
        (Request(task="sr4", method="magic"), "magic"),
        (Request(task="sr4", label="magic"), "paseo tune"),
        (Request(task="sr4", prompt="a cat"), "unconditional"),
        (Request(task="sr4", settings={"rho": 1}), "no rho"),
    ],
)
def test_what_cannot_be_resolved_is_said(request_: Request, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        resolve(request_)
