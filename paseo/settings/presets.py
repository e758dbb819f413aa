"""The paper's settings as values, each with the score it reached in the paper.

    preset("ffhq/sd35", "sr4").sampler                  PASEO, FFHQ, SD3.5-medium
    preset("ffhq/rv51", "blur", "paseo-dagger")         PASEO†, which keeps the original anchor (`fresh`)
    preset("coco/sd35", "sr8").prompt                   None: the image's own caption

Tables "PASEO hyperparameters on FFHQ", "… on COCO", "Settings of PASEO† that differ", and the full FFHQ and
COCO comparisons. All use 28, 50 or 100 steps (53, 97, 197 NFE), a CG tolerance of 1e-5 and both
perturbations. Scores are of 1000 images; KID is ×10³; seconds per image and GiB on one MI210. Presets of
embedded models lie beside their weights in `presets.json` and are read when asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from paseo.errors import BadInput
from paseo.files import read_json
from paseo.samplers.paseo import PASEO

FACE, PHOTO = "A high quality photo of a face", "A high quality photo"
MODELS = Path(__file__).parents[1] / "models"
PAPER, PAPER_DAGGER = "paseo", "paseo-dagger"


@dataclass(frozen=True)
class Preset:
    """Settings of one method for one model and task; it can be called as the sampler it holds."""

    sampler: Any
    prompt: str | None = None  # None: unconditional, or the image's own caption
    guidance: float = 1.0  # classifier-free guidance scale
    score: Mapping[str, float] = field(default_factory=dict)  # what these settings reached
    source: str = ""  # where the settings and the score come from

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self.sampler(*arguments, **options)

    def unsupported(self, problem: Any) -> str | None:
        return self.sampler.unsupported(problem)


def _row(psnr: float, lpips: float, kid: float, seconds: float, gib: float) -> dict[str, float]:
    return {"psnr": psnr, "lpips": lpips, "kid": kid, "seconds": seconds, "gib": gib}


def _rv(p: int, c: int, rho: float, lam: float, r: float, **more: Any) -> PASEO:
    return PASEO(
        steps=28,
        inner_steps=p,
        cg_budget=c,
        relaxation=rho,
        damping=lam,
        operator_noise=r,
        eta="ddpm",
        **more,
    )


def _sd35(p: int, c: int, rho: float, r: float, **more: Any) -> PASEO:
    return PASEO(
        steps=28,
        inner_steps=p,
        cg_budget=c,
        relaxation=rho,
        damping=0.0,
        operator_noise=r,
        eta="square",
        **more,
    )


def _coco(steps: int, p: int, c: int, rho: float, lam: float, r: float, **more: Any) -> PASEO:
    return PASEO(
        steps=steps, inner_steps=p, cg_budget=c, relaxation=rho, damping=lam, operator_noise=r, **more
    )


FFHQ, COCO = "paper, FFHQ 512×512, 1000 images, 53 NFE", "paper, COCO-val2017 512×512, 1000 images"

_ARC: dict[str, dict[str, Preset]] = {  # P, C, ρ, λ, r                        PSNR   LPIPS  KID    s     GiB
    "ffhq/rv51": {
        "sr4": Preset(_rv(3, 3, 0.15, 0.005, 0.05), FACE, 1.0, _row(27.98, 0.139, 1.81, 11.7, 3.6), FFHQ),
        "sr8": Preset(_rv(4, 2, 0.15, 0.005, 0.02), FACE, 1.0, _row(26.74, 0.212, 5.99, 11.6, 3.6), FFHQ),
        "blur": Preset(_rv(5, 3, 0.15, 0.005, 0.005), FACE, 1.0, _row(27.68, 0.162, 2.09, 17.3, 3.6), FFHQ),
        "inpaint": Preset(
            _rv(3, 12, 0.6, 0.005, 0.05, weight="soft"), FACE, 1.0, _row(21.76, 0.144, 14.00, 38.4, 3.6), FFHQ
        ),
        "jpeg": Preset(_rv(4, 1, 0.3, 0.05, 0.08), FACE, 1.0, _row(24.60, 0.258, 26.53, 8.2, 3.6), FFHQ),
    },
    "ffhq/sd35": {
        "sr4": Preset(_sd35(2, 2, 0.6, 0.01), FACE, 4.0, _row(29.92, 0.182, 10.27, 10.6, 16.8), FFHQ),
        "sr8": Preset(_sd35(1, 2, 1.0, 0.025), FACE, 1.0, _row(27.25, 0.330, 28.80, 8.8, 16.8), FFHQ),
        "blur": Preset(_sd35(1, 2, 0.6, 0.02), FACE, 4.0, _row(29.54, 0.200, 8.32, 8.6, 16.8), FFHQ),
        "inpaint": Preset(
            _sd35(1, 5, 1.0, 0.01, weight="soft"), FACE, 1.0, _row(22.61, 0.118, 2.71, 13.6, 16.8), FFHQ
        ),
        "jpeg": Preset(_sd35(3, 3, 0.3, 0.02), FACE, 4.0, _row(25.04, 0.350, 71.24, 13.9, 16.8), FFHQ),
    },
    "coco/sd35": {
        "sr4": Preset(
            _coco(50, 3, 3, 0.3, 0.0, 0.01, eta="sqrt", start="mean"),
            PHOTO,
            1.0,
            _row(26.69, 0.208, 1.14, 26.4, 16.8),
            COCO,
        ),
        "sr8": Preset(
            _coco(100, 3, 1, 0.45, 0.005, 0.025), None, 1.0, _row(23.64, 0.344, 7.36, 41.2, 16.8), COCO
        ),  # caption
        "blur": Preset(
            _coco(50, 4, 1, 0.4, 0.005, 0.02), PHOTO, 4.0, _row(26.98, 0.229, 0.78, 22.7, 16.8), COCO
        ),
        "inpaint": Preset(
            _coco(100, 2, 2, 1.0, 0.0, 0.005, eta="square", weight="soft"),
            PHOTO,
            1.0,
            _row(19.31, 0.174, 5.26, 58.7, 16.8),
            COCO,
        ),
        "jpeg": Preset(
            _coco(50, 5, 1, 0.3, 0.02, 0.08), PHOTO, 4.0, _row(24.62, 0.302, 18.82, 24.8, 16.8), COCO
        ),
    },
}

_DAGGER: dict[
    str, dict[str, tuple[dict[str, Any], dict[str, float]]]
] = {  # what changes from the row above, and its score
    "ffhq/rv51": {
        "sr4": (dict(inner_steps=4, relaxation=0.3), _row(28.15, 0.130, 2.96, 14.4, 3.6)),
        "sr8": (dict(cg_budget=3, relaxation=0.6), _row(26.37, 0.241, 13.13, 14.4, 3.6)),
        "blur": (dict(cg_budget=32), _row(27.90, 0.172, 6.66, 121, 3.6)),
        "inpaint": (dict(weight="fixed"), _row(21.67, 0.147, 13.36, 31.2, 3.6)),
        "jpeg": (dict(inner_steps=1, cg_budget=16, relaxation=0.6), _row(25.25, 0.238, 22.73, 14.0, 3.6)),
    },
    "ffhq/sd35": {
        "sr4": (dict(inner_steps=3, cg_budget=8, operator_noise=0.005), _row(28.76, 0.221, 9.49, 25.9, 16.8)),
        "sr8": (dict(inner_steps=2, relaxation=0.25), _row(27.23, 0.420, 30.33, 10.7, 16.8)),
        "blur": (dict(cg_budget=4), _row(29.61, 0.215, 10.69, 10.1, 16.8)),
        "inpaint": (dict(weight="fixed"), _row(20.94, 0.144, 11.39, 11.0, 16.8)),
        "jpeg": (
            dict(inner_steps=4, cg_budget=20, operator_noise=0.08),
            _row(26.40, 0.400, 58.74, 60.5, 16.8),
        ),
    },
    "coco/sd35": {
        "sr4": ({}, _row(26.76, 0.196, 0.73, 27.8, 16.8)),
        "sr8": (dict(inner_steps=2, cg_budget=12, relaxation=1.0), _row(22.62, 0.389, 35.92, 92.6, 16.8)),
        "blur": (
            dict(inner_steps=1, cg_budget=4, relaxation=0.6, damping=0.0),
            _row(26.88, 0.280, 2.10, 18.3, 16.8),
        ),
        "inpaint": (dict(weight="fixed"), _row(18.33, 0.186, 5.65, 40.3, 16.8)),
        "jpeg": (dict(cg_budget=16), _row(26.21, 0.307, 17.27, 112.6, 16.8)),
    },
}

ALIASES = {  # names people use → rows of the paper; photographs of anything are COCO's case
    "rv51": "ffhq/rv51",
    "sd15": "ffhq/rv51",
    "sd35": "coco/sd35",
    "sd": "ffhq/rv51",  # families without rows of their own borrow the nearest
    "sdxl": "ffhq/rv51",
    "sd3": "coco/sd35",
    "SG161222/Realistic_Vision_V5.1_noVAE": "ffhq/rv51",
    "stable-diffusion-v1-5/stable-diffusion-v1-5": "ffhq/rv51",
    "stabilityai/stable-diffusion-3.5-medium": "coco/sd35",
}


def preset(model: str, task: str, method: str = PAPER) -> Preset:
    """The settings for a model ("faces-128", "ffhq/sd35", a hub id…), a task ("sr4"…) and a method ("paseo",
    "paseo-dagger"…).
    """
    table = _table(model)
    name, method = str(getattr(task, "name", task)), method.lower().replace("†", "-dagger").replace("_", "-")
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


def presets(model: str) -> dict[str, dict[str, Preset]]:
    """Task → method → settings, all that are known for a model."""
    return {task: dict(methods) for task, methods in _table(model).items()}


def known_models() -> list[str]:
    """Names under which settings are kept."""
    return [*_ARC, *sorted(p.parent.name for p in MODELS.glob("*/presets.json"))]


def _table(model: str) -> dict[str, dict[str, Preset]]:
    key = ALIASES.get(str(model), str(model))
    if key in _ARC:
        return {task: {PAPER: row, PAPER_DAGGER: _dagger(key, task, row)} for task, row in _ARC[key].items()}
    for file in (MODELS / key / "presets.json", Path(key) / "presets.json"):
        if file.is_file():
            return _stored(file)
    raise BadInput(
        f"There are no settings for the model {model!r}; there are for "
        f"{', '.join([*known_models(), *ALIASES])}."
    )


def _dagger(key: str, task: str, row: Preset) -> Preset:
    changes, score = _DAGGER[key][task]
    return replace(row, sampler=replace(row.sampler, anchor="fresh", **changes), score=score)


def _stored(file: Path) -> dict[str, dict[str, Preset]]:
    """presets.json: {task: {method: {"class": "PASEO", "settings": {…}, "score": {…}, "source": …, "prompt":
    …, "guidance": …}}}.
    """
    entries = read_json(file)
    try:
        return {
            task: {method: _entry(e) for method, e in methods.items()} for task, methods in entries.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError) as error:
        raise BadInput(f"{file} does not hold presets: {error}.") from error


def _entry(entry: Mapping[str, Any]) -> Preset:
    samplers = import_module("paseo.samplers")
    kind = entry.get("class", "PASEO")
    if kind not in samplers.__all__:
        raise BadInput(f"{kind!r} is no sampler of this version: {', '.join(samplers.__all__)}.")
    sampler = getattr(samplers, kind)(**entry["settings"])
    return Preset(
        sampler,
        entry.get("prompt"),
        float(entry.get("guidance", 1.0)),
        dict(entry.get("score", {})),
        str(entry.get("source", "")),
    )
