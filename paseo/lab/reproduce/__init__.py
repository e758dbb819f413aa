"""One file per table or figure of the paper, each measured again here and set beside the published figures.

    result = paseo.lab.reproduce.run("tractable", json="tractable.json", out="figures")
    print(result.table())

An experiment is a module with a frozen dataclass `Options` (its settings, `Options.quick()` for a run of
seconds) and a function `run(options)` that returns a `Result`. The modules are imported when they are asked
for.
"""

from __future__ import annotations

import json as jsonlib
import os
import sys
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, get_type_hints

from paseo.errors import BadInput
from paseo.files import write_json
from paseo.setting import values_of
from paseo.settings.parse import parse


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper."""

    what: str
    label: str  # where it stands in the paper
    needs: str = "an embedded model; more faces with --set data=FOLDER"

    def to_json(self, name: str) -> dict[str, str]:
        return {
            "name": name,
            "label": self.label,
            "what": self.what,
            "command": command(name),
            "needs": self.needs,
        }


NOTHING = "nothing"
EXPERIMENTS: dict[str, Experiment] = {
    "tractable": Experiment(
        "one perturbed solve against a known Gaussian posterior", "tab:tractable", NOTHING
    ),
    "lincheck": Experiment(
        "the full sampler with an exact mask and an exact blur against a known posterior",
        "tab:lincheck",
        NOTHING,
    ),
    "bands": Experiment("energy per frequency band and the blur's gain in it", "tab:lincheck-bands", NOTHING),
    "posterior": Experiment(
        "every method's mean and spread against the closed-form posterior", "(not in the paper)", NOTHING
    ),
    "recall": Experiment(
        "calibration with recall and without it: mask, blur, matrix", "(not in the paper)", NOTHING
    ),
    "recall-guided": Experiment(
        "recall with classifier-free guidance, two exact denoisers mixed", "(not in the paper)", NOTHING
    ),
    "main": Experiment("five tasks, every method, all published columns", "tab:ffhq-models-full"),
    "coco": Experiment(
        "the COCO methods with the two published tables", "tab:coco-models-arc, tab:coco-models-arc-full"
    ),
    "anchors": Experiment("five anchors at the same settings", "tab:anchor-ablation"),
    "ofat": Experiment(
        "one solver setting at a time: P, C, ρ, r, λ, perturbations", "tab:ofat-rv, tab:ofat-sd35"
    ),
    "one-iteration": Experiment(
        "C = 1 against the kept budget: LPIPS, time, speed-up, memory", "tab:cg-cost-quality"
    ),
    "steps": Experiment("14, 28, 56 and 112 steps against quality and time", "tab:pareto"),
    "cg": Experiment("residuals of the truncated CG solves over the steps", "tab:cg, fig:cg"),
    "draws": Experiment(
        "eight draws per image: variation, hole and visible part, worst draw", "tab:draws, fig:draws"
    ),
    "inpaint": Experiment(
        "anchor × weighting, whole image and hole, and where the differences lie",
        "tab:inpaint-variants, tab:kid-spatial",
    ),
    "jacobian": Experiment("the learned operator against decode, degrade, encode", "tab:jacobian"),
    "affine": Experiment(
        "the best affine operator against the network",
        "sec:operator-training-details",
        "a folder of training images",
    ),
    "observations": Experiment(
        "distance of the observations from the data",
        "sec:metric-protocol",
        "images; Inception weights for KID",
    ),
    "high-nfe": Experiment(
        "SILO, ReSample, PSLD, GML-DPS and LDPS at a thousand calls", "tab:nfe-scaling, tab:sd35-1000step"
    ),
    "flow-dps": Experiment("FlowDPS and PASEO at 27 calls", "tab:flowdps-27nfe-coco200"),
    "ding": Experiment("DING on E(y) and on E(x), inside and outside the hole", "sec:competitors-ding"),
    "lincheck-faces": Experiment(
        "lincheck with the embedded model's prior and truths drawn from it", "tab:lincheck"
    ),
    "lincheck-pictures": Experiment(
        "random holes, and one draw per CG budget, decoded", "fig:lincheck-inpaint, fig:lincheck-blur"
    ),
}


def command(name: str) -> str:
    """How an experiment is run."""
    return f"paseo reproduce {name}"


def listing() -> list[dict[str, str]]:
    """Label, command and needs of every experiment."""
    return [experiment.to_json(name) for name, experiment in EXPERIMENTS.items()]


class Result(Protocol):
    """What an experiment returns."""

    def rows(self) -> list[dict[str, Any]]: ...
    def table(self) -> str: ...
    def plots(self, out: Path) -> list[Path]: ...
    def notes(self) -> dict[str, Any]:
        """What else belongs into the JSON document: conditions, findings."""
        ...


def options(name: str) -> dict[str, tuple[type, Any]]:
    """The settings of an experiment: field → (type, default)."""
    kind = _module(name).Options
    hints = get_type_hints(kind)
    return {name: (hints[name], default) for name, default in values_of(kind()).items()}


def run(
    name: str,
    out: str | Path | None = None,
    json: str | Path | None = None,
    quick: bool = False,
    **settings: int | float | str,
) -> Result:
    """Run an experiment; figures go to the folder `out`, rows to the file `json` ("-" is stdout)."""
    module = _module(name)
    base = module.Options.quick() if quick else module.Options()
    chosen = replace(base, **{key: _typed(name, key, value) for key, value in settings.items()})
    _check_targets(out, json)  # before the work, not after it
    result: Result = module.run(chosen)
    if out is not None:
        result.plots(Path(out))
    if json is not None:
        document = {"experiment": name, "options": asdict(chosen), **result.notes(), "rows": result.rows()}
        if str(json) == "-":
            sys.stdout.write(jsonlib.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
        else:
            write_json(Path(json), document)
    return result


def _check_targets(out: str | Path | None, json: str | Path | None) -> None:
    if out is not None and Path(out).exists() and not Path(out).is_dir():
        raise BadInput(f"{out} is a file; figures need a folder.")
    if json is not None and str(json) != "-" and Path(json).is_dir():
        raise BadInput(f"{json} is a folder; --json needs the name of a file.")
    for path in (Path(p).absolute() for p in (out, json) if p is not None and str(p) != "-"):
        nearest = next(p for p in (path, *path.parents) if p.exists() and (p.is_dir() or p != path))
        if not nearest.is_dir() or not os.access(nearest, os.W_OK):
            raise BadInput(f"Cannot write {path}: {nearest} is no folder that may be written.")


def _module(name: str) -> Any:
    if name not in EXPERIMENTS:
        raise BadInput(f"There is no experiment {name!r}. There are: {', '.join(EXPERIMENTS)}.")
    return import_module(f"paseo.lab.reproduce.{name.replace('-', '_')}")


def _typed(name: str, key: str, value: int | float | str) -> Any:
    known = options(name)
    if key not in known:
        raise BadInput(f"{name} has no setting {key!r}. It has: {', '.join(known)}.")
    return parse(value, known[key][0], key) if isinstance(value, str) else value
