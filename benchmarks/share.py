"""How much of a run is not the denoiser: time of a whole restoration over that of its own denoiser calls.

    python benchmarks/share.py                                  both embedded models, all tasks
    python benchmarks/share.py --models photos --tasks sr4,blur --runs 5 --json share.json
    python benchmarks/share.py --models faces-128 --tasks jpeg --set sketch=false     with another setting
    python benchmarks/share.py --models faces-128 --against recall=0 --pictures 4     what recall costs

Pictures of 128 px (smooth random colours), one unless stated, one thread, CPU time of one process, the least
of some runs: a ratio inside one run hardly depends on what else the machine does. Encoding, decoding,
operator, solver, recall and rechecks are all in it. `over` is the time over that of the same runs with the
settings of --against, the two by turns.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from paseo.base import Prior, Sampler
from paseo.degrade import task, tasks
from paseo.files import write_json
from paseo.images import to_signed, to_unit
from paseo.models import available, load_model
from paseo.recipe import Request, resolve
from paseo.recipe.load import load_operator_of
from paseo.schedule import Schedule
from paseo.settings.parse import with_settings
from paseo.street import restore

SIDE = 128


class Timed:
    """A prior that counts its calls and their CPU seconds."""

    def __init__(self, prior: Prior) -> None:
        self.prior, self.seconds, self.calls = prior, 0.0, 0

    @property
    def schedule(self) -> Schedule:
        return self.prior.schedule

    def x0(self, x: Tensor, t: float) -> Tensor:
        start = time.process_time()
        found = self.prior.x0(x, t)
        self.seconds, self.calls = self.seconds + time.process_time() - start, self.calls + 1
        return found


@dataclass(frozen=True)
class Run:
    """Times of one restoration."""

    whole: float
    denoiser: float
    calls: int


def measure(
    model_name: str,
    task_name: str,
    runs: int,
    changes: Sequence[str] = (),
    against: Sequence[str] = (),
    pictures: int = 1,
) -> dict[str, object]:
    """The run with the smallest ratio, of some."""
    model, known = load_model(model_name, device="cpu"), task(task_name)
    recipe = resolve(Request(model=model_name, task=task_name))
    H = load_operator_of(recipe, model).operator
    sampler = with_settings(recipe.sampler, changes)
    other = with_settings(sampler, against)
    coarse = torch.rand(pictures, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    x = torch.nn.functional.interpolate(coarse, SIDE, mode="bicubic").clamp(0, 1)
    y = to_unit(known.degradation(to_signed(x))).clamp(0, 1)

    def run(sampler: Sampler, seed: int) -> Run:
        prior, start = Timed(model.prior), time.process_time()
        restore(
            y,
            operator=H,
            prior=prior,
            codec=model.codec,
            seeds=[seed + i for i in range(pictures)],
            degradation=known.degradation,
            sampler=sampler,
            sigma_y=known.sigma_y,
        )
        return Run(time.process_time() - start, prior.seconds, prior.calls)

    found, others = [], []
    for seed in range(runs + 1):  # the first one warms up
        found.append(run(sampler, seed))
        if against:
            others.append(run(other, seed))
    best = min(found[1:], key=lambda run: run.whole / run.denoiser)
    name = recipe.operator.name or task_name
    row = {"model": model_name, "task": task_name, "operator": name, "calls": best.calls}
    row |= {"seconds": best.whole, "denoiser": best.denoiser, "ratio": best.whole / best.denoiser}
    if against:
        row["over"] = min(run.whole for run in found[1:]) / min(run.whole for run in others[1:])
    return row


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", type=lambda s: s.split(","), default=available())
    parser.add_argument("--tasks", type=lambda s: s.split(","), default=[t.name for t in tasks()])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a sampler's setting"
    )
    parser.add_argument(
        "--against", action="append", default=[], metavar="NAME=VALUE", help="compared with this setting"
    )
    parser.add_argument("--pictures", type=int, default=1, help="restored together")
    parser.add_argument("--json", type=Path)
    o = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for model in o.models:
        for name in o.tasks:
            rows.append(measure(model, name, o.runs, o.set, o.against, o.pictures))
            print(
                "  ".join(f"{k} {v:.2f}" if isinstance(v, float) else f"{k} {v}" for k, v in rows[-1].items())
            )
    if o.json is not None:
        write_json(o.json, {"rows": rows})


if __name__ == "__main__":
    main()
