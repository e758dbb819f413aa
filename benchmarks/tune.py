"""The settings kept for an embedded model: every method on every task, the same images and number of trials
for each.

    python benchmarks/tune.py --data FACES --out runs/tune --trials 8       a JSON file per method and task
    python benchmarks/tune.py --data FACES --out runs/tune --shard 0/2       half of it, for a second process
    python benchmarks/tune.py --out runs/tune --collect paseo/models/faces-128  presets.json and search.json

Each method searches its step size, or the pair its authors tune, by LPIPS on validation faces; the other
fields keep the values of PASEO's paper. The first trial is what is kept until now or the default, then comes
the grid below, then Optuna's choices. PASEO runs at 53 denoiser calls, every other method at 79 at most (SILO
also at 53). `paseo-paper` is Algorithm 2 as printed. What is done is not done again.

    python benchmarks/tune.py --data FACES --out runs/tune --methods paseo,paseo-paper --trials 4 --images 12
    python benchmarks/tune.py --model photos --data validation.tar --part all --out runs/p --methods paseo
    python benchmarks/tune.py --data FACES --out runs/more --methods silo,silo-53 --trials 5 --more

    python benchmarks/tune.py --model photos --like faces-128 --data validation.tar --part all --out runs/p …

`--more` is a second search beside what is kept: after it, each searched number times 0.5, 2, 0.7 and 1.4
in turn. `--like` begins a model's first search with what another model keeps, and goes on in the same way.
`paseo-equal` is PASEO searched as every baseline is, as if this model kept nothing for it: with `--like` it
tries what the other model keeps, the defaults, and what lies around.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from paseo.base import Sampler
from paseo.errors import BadInput
from paseo.files import read_json, write_json
from paseo.lab.bench.pictures import load_pictures
from paseo.lab.bench.setup import Setup
from paseo.lab.tune.spaces import Space, read_grid, space_of
from paseo.lab.tune.tune import Tuning, tune
from paseo.samplers import METHODS

TASKS = ("sr4", "sr8", "blur", "inpaint", "jpeg")
GRIDS: dict[str, tuple[str, ...]] = {  # label → fields that are searched, and what is tried first
    "paseo": ("recall=", "relaxation=", "operator_noise="),  # tried first: see TRIED
    "paseo-paper": ("inner_steps=", "cg_budget=", "relaxation=", "damping=", "operator_noise="),
    "paseo-dagger": ("relaxation=0.5,1.0", "operator_noise=0.01,0.03,0.1"),
    "ding": ("observation_noise=0.003,0.03,0.1,0.3,0.6,1.0",),
    "dds": ("gamma=0.3,3.0,10.0,30.0,100.0,1000.0",),
    "diffpir": ("lam=0.1,1.0,3.0,20.0,100.0,1000.0",),
    "ddnm": ("eta=0.0,0.85,1.0", "plus=false,true"),
    "silo": ("scale=2.0,8.0,32.0", "shift=0.125,1.0"),
    "red-diff": ("lr=0.05,0.1,0.2,0.4,0.8,3.2",),
    "pnp-flow": ("lr=0.05,0.4,0.8,1.5,5.0,10.0",),
    "ldps": ("guidance=0.3,1.0,3.0,30.0,60.0,100.0",),
    "psld": ("guidance=1.0,3.0,30.0", "gluing=0.1,1.0"),
    "gml-dps": ("guidance=1.0,3.0,30.0", "goodness=0.1,1.0"),
    "flow-dps": ("step_size=0.3,1.0,3.0,30.0,60.0,100.0",),
    "daps": ("step_size=3e-7,1e-6,1e-5,1e-4,3e-4,1e-3",),
    "flow-chef": ("step_size=0.23,0.9,1.8,3.6,14.4,57.6",),
    "resample": ("lr_latent=0.001,0.002,0.01,0.02,0.05,0.1",),
}
# Of PASEO, found beforehand (search.json, `earlier`): what makes it faster than the methods it is set
# against, and its grid.
ONCE = {
    "inner_steps": 1,
    "damping": 0.001,
    "weight": "residual",
    "expand": "anchor",
    "eta": "ddpm",
    "shift": 3.0,
}
STRUCTURE: dict[str, dict[str, Any]] = {
    "sr4": {**ONCE, "cg_budget": 3},
    "sr8": {**ONCE, "cg_budget": 3, "eta": "sqrt", "shift": 2.0},
    "blur": {**ONCE, "cg_budget": 4},
    "inpaint": {**ONCE, "cg_budget": 1, "weight": "ones", "shift": 2.0},
    "jpeg": {
        **ONCE,
        "inner_steps": 2,
        "cg_budget": 1,
        "damping": 0.0,
        "shift": None,
        "anchor": "linear",
        "recheck": 2,
    },
}
PAPER = {  # Algorithm 2 as printed: no weights but soft ones, the prior's own grid, nothing remembered
    "anchor": "arc",
    "weight": "ones",
    "expand": "estimate",
    "eta": "ddpm",
    "shift": None,
    "recheck": 0,
    "recall": 0,
}


def remembered(*trials: tuple[int, float, float]) -> list[dict[str, Any]]:
    """K, ρ and r of PASEO's trials."""
    return [dict(zip(("recall", "relaxation", "operator_noise"), t, strict=True)) for t in trials]


def printed(*trials: tuple[int, int, float, float, float]) -> list[dict[str, Any]]:
    """P, C, ρ, r and λ of the paper's."""
    names = ("inner_steps", "cg_budget", "relaxation", "operator_noise", "damping")
    return [dict(zip(names, t, strict=True)) for t in trials]


TRIED: dict[str, dict[str, list[dict[str, Any]]]] = {  # instead of a grid: what a search tries first
    "paseo": {
        "sr4": remembered((4, 0.8, 0.05), (8, 0.8, 0.05), (4, 0.6, 0.1)),
        "sr8": remembered((4, 0.5, 0.2), (8, 0.5, 0.2), (4, 0.4, 0.1)),
        "blur": remembered((4, 0.8, 0.05), (8, 0.8, 0.05), (4, 0.7, 0.03)),
        "inpaint": remembered((4, 0.75, 0.05), (8, 0.75, 0.05), (4, 1.0, 0.05)),
        "jpeg": remembered((4, 0.25, 0.2), (8, 0.25, 0.2), (4, 0.2, 0.3)),
    },
    "paseo-paper": {
        "sr4": printed((1, 3, 0.8, 0.1, 0.001), (2, 2, 0.4, 0.1, 0.001), (1, 1, 1.0, 0.02, 0.0)),
        "sr8": printed((1, 3, 0.5, 0.2, 0.001), (2, 2, 0.3, 0.2, 0.001), (1, 1, 1.0, 0.02, 0.0)),
        "blur": printed((1, 4, 0.8, 0.1, 0.001), (2, 2, 0.4, 0.1, 0.001), (1, 1, 1.0, 0.02, 0.0)),
        "inpaint": printed((1, 1, 0.75, 0.05, 0.001), (1, 2, 1.0, 0.05, 0.001), (1, 1, 1.0, 0.02, 0.0)),
        "jpeg": printed((3, 1, 0.15, 0.3, 0.0), (1, 1, 0.4, 0.3, 0.0), (2, 1, 0.25, 0.5, 0.0)),
    },
}
ON_PHOTOS = {  # K, ρ and r of PASEO's first trials with the model photos
    "sr4": remembered((8, 0.8, 0.08), (8, 0.6, 0.12), (8, 1.0, 0.05)),
    "sr8": remembered((8, 0.5, 0.2), (8, 0.6, 0.1), (8, 0.4, 0.3)),
    "blur": remembered((8, 0.8, 0.06), (8, 0.7, 0.04), (8, 0.6, 0.1)),
    "inpaint": remembered((8, 0.75, 0.1), (8, 1.0, 0.05), (8, 0.75, 0.2)),
    "jpeg": remembered((8, 0.25, 0.3), (8, 0.4, 0.3), (8, 0.25, 0.2)),
}
CHANGES = {"paseo": ("recall=0,4,8",)}  # axes that the settings do not declare
EQUAL = "paseo-equal"
BUDGETS = dict.fromkeys(("paseo", EQUAL, "paseo-paper", "paseo-dagger", "silo-53", "psld-53"), 53)
OTHERS = 79
MARKED: dict[str, tuple[str, dict[str, Any]]] = {
    "paseo-paper": ("paseo", PAPER),
    "paseo-dagger": ("paseo", {"anchor": "fresh"}),
    EQUAL: ("paseo", {}),
    "silo-53": ("silo", {}),
    "psld-53": ("psld", {}),
}
GRIDS |= {
    EQUAL: ("relaxation=", "operator_noise="),
    "silo-53": GRIDS["silo"],
    "psld-53": GRIDS["psld"],
}  # PASEO's nearest rivals also at PASEO's number of calls


def around(kept: dict[str, Any], searched: list[str], axes: Space) -> list[dict[str, Any]]:
    """Each searched number times 0.5, 2, 0.7, 1.4, as far as its axis reaches; the fields take turns."""
    points = []
    for factor in (0.5, 2.0, 0.7, 1.4):
        for name in searched:
            axis, value = axes[name], kept[name]
            if not axis.choices and value and axis.low <= value * factor <= axis.high:
                points.append({name: value * factor})
    return points


def kept_sampler(setup: Setup, label: str) -> Sampler:
    """The settings that are kept under a label, or the method's own."""
    try:
        return replace(setup, label=label).recipe.sampler
    except BadInput:
        return setup.recipe.sampler


def tuning_of(label: str, task: str, o: argparse.Namespace) -> Tuning:
    """The search of one method on one task."""
    method, fixed = MARKED.get(label, (label, {}))
    # of PASEO as a newcomer the other model's settings stand in for this one's own
    setup = Setup(o.model, task, preset=o.like if label == EQUAL else None)
    if label == "paseo-paper" and setup.task.masks:
        fixed = {**fixed, "weight": "soft"}  # finds the hole itself
    fixed = {**(STRUCTURE[task] if method == "paseo" and label != EQUAL else {}), **fixed}
    searched = {text.partition("=")[0] for text in GRIDS[label]}
    fixed = {name: value for name, value in fixed.items() if name not in searched}
    changes = CHANGES.get(label, ())
    axes = space_of(method, masks=setup.task.masks, fixed=fixed, changes=changes)
    base = replace(setup, method=method, settings=fixed).recipe.sampler
    values: dict[str, Any] = {**fixed, **{name: getattr(base, name) for name in axes if name not in searched}}
    grid = read_grid(axes, [text for text in GRIDS[label] if not text.endswith("=")])
    if o.more or o.like:
        source = replace(setup, model_name=o.like or o.model, method=method, settings=fixed)
        kept = kept_sampler(source, label)
        found = {name: getattr(kept, name) for name in sorted(searched)}
        grid = around(found, list(found), axes)
        if o.like:  # a point that names one field leaves the others as they are here, not there
            grid = [found, *(found | point for point in grid)]
        if label == EQUAL:
            grid = [{name: getattr(METHODS[method].default, name) for name in found}, *grid]
    first = ON_PHOTOS[task] if (o.model, label) == ("photos", "paseo") else TRIED.get(label, {}).get(task)
    pictures = load_pictures(o.data, o.part, 0, o.images + o.final, 128)
    return Tuning(
        setup,
        method,
        pictures[: o.images],
        o.out / "tune.db",
        o.trials,
        fixed=values,
        space_changes=changes,
        preset_name=label,
        budget=BUDGETS.get(label, OTHERS),
        batch=o.batch,
        final_pictures=pictures[o.images :],
        grid=grid if o.more or o.like or first is None else first,
    )


def compute(o: argparse.Namespace) -> None:
    """This process's share of the searches, the cheap methods first."""
    index, count = map(int, o.shard.split("/"))
    cells = [(label, task) for label in o.methods.split(",") for task in o.tasks.split(",")]
    for label, task in cells[index::count]:
        file = o.out / f"{task}-{label}.json"
        if file.is_file() and read_json(file)["trials"] >= o.trials:
            continue
        try:
            tuned = tune(
                tuning_of(label, task, o), lambda text, at=f"{task} {label}": print(at, text, flush=True)
            )
        except BadInput as error:
            print(f"{task} {label}: {error}", flush=True)
            continue
        write_json(file, tuned.as_json())
        print(f"{task} {label}: {tuned.score}", flush=True)


def earlier_trials(before: dict[str, Any], now: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What was tried before this search, without what is in it."""
    return [trial for trial in [*before.get("earlier", []), *before.get("history", [])] if trial not in now]


def collect(o: argparse.Namespace) -> None:
    """presets.json (settings and score) and search.json (every trial) of what is there, beside what was
    collected before.
    """
    presets, searches = (
        read_json(f) if f.is_file() else {} for f in (o.collect / "presets.json", o.collect / "search.json")
    )
    for task in TASKS:
        for label in GRIDS:
            file = o.out / f"{task}-{label}.json"
            if not file.is_file():
                continue
            found = read_json(file)
            presets.setdefault(task, {})[label] = {
                key: found[key] for key in ("class", "settings", "score", "source")
            }
            before = searches.get(task, {}).get(label, {})
            searches.setdefault(task, {})[label] = {
                **{key: found[key] for key in ("trials", "pruned", "images", "history")},
                **({"earlier": earlier_trials(before, found["history"])} if before else {}),
            }
    write_json(o.collect / "presets.json", presets)
    write_json(o.collect / "search.json", searches)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="faces-128")
    parser.add_argument("--data", help="folder or tar of pictures the model has not seen")
    parser.add_argument("--part", default="validation", help="which of them; all where they lie apart")
    parser.add_argument("--out", type=Path, required=True, help="folder of the searches")
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--methods", default=",".join(GRIDS))
    parser.add_argument("--trials", type=int, default=8)
    parser.add_argument("--images", type=int, default=4)
    parser.add_argument(
        "--final", type=int, default=0, help="further images on which the three best trials are compared"
    )
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--shard", default="0/1")
    parser.add_argument("--more", action="store_true", help="try what lies around the kept settings")
    parser.add_argument("--like", help="model whose kept settings are tried first, and what lies around them")
    parser.add_argument("--collect", type=Path, help="model folder to put the results into")
    o = parser.parse_args()
    collect(o) if o.collect else compute(o)


if __name__ == "__main__":
    main()
