"""The pictures of the check with exact operators: random holes with three draws and their spread, and one
draw per CG budget on the circular blur (the paper's two figures, there on SD3.5).

Decoded faces of the embedded model. Needs `--out` for the files `lincheck-holes.png` and `lincheck-blur.png`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from paseo.images import save_png, to_signed
from paseo.lab.reproduce.lincheck_faces import ANCHORS, Options, decoded, exact_problem, rules
from paseo.lab.reproduce.lincheck_findings import SOLVES
from paseo.lab.reproduce.result import Report
from paseo.lab.reproduce.truths import load_truths
from paseo.lab.text import Value
from paseo.metrics import lpips
from paseo.models import Model, load_model
from paseo.noise import Noise
from paseo.samplers.paseo import PASEO
from paseo.sheet import contact_sheet

__all__ = ["Options", "run"]

SHOWN, FACES = 3, 3
HEADER = ("picture", "rule", "C", "LPIPS")


def run(o: Options) -> Report:
    model = load_model(o.model)
    sampler = PASEO(steps=o.steps, operator_noise=o.r, eta="square")
    faces = load_truths(o.model, o.data, o.part, min(o.images, FACES))
    with torch.no_grad():
        latents = [model.codec.encode(to_signed(p.tensor[None])) for p in faces]
        holes = [_holes(o, model, sampler, z, o.seed + i) for i, z in enumerate(latents)]
        rows, lines = _budgets(o, model, sampler, latents[0])

    def draw(out: Path) -> list[Path]:
        head = ["truth", "measurement", *(f"PASEO {k + 1}" for k in range(SHOWN)), "DING", "std"]
        budgets = ["truth", *(f"C = {c}" if c != "exact" else "exact" for c in SOLVES)]
        return [
            save_png(
                out / "lincheck-holes.png", contact_sheet(holes, columns=head, rows=[p.name for p in faces])
            ),
            save_png(out / "lincheck-blur.png", contact_sheet(rows, columns=budgets, rows=["arc", "fresh"])),
        ]

    return Report("One draw per budget on the exact blur", HEADER, lines, charts=draw)


def _holes(o: Options, model: Model, sampler: PASEO, z: Tensor, seed: int) -> list[Tensor]:
    """Truth, measurement, three draws, one of DING, and the standard deviation over all draws."""
    problem = exact_problem("mask", z, o, 1000 * seed)
    methods = {rule: method for rule, _, method in rules(sampler, "mask", o)}
    seeds = Noise(range(1000 * seed + 3, 1000 * seed + 3 + o.draws))
    drawn = decoded(model, methods["arc"](model.prior, problem, seeds))
    alone = replace(problem, y=problem.y[:1], y_z=problem.y_z[:1], observed=_first(problem.observed))
    ding = decoded(model, methods["ding"](model.prior, alone, Noise(1000 * seed + 3)))
    spread = drawn.std(0).mean(0, keepdim=True).expand(3, -1, -1)
    shown = [decoded(model, z)[0], decoded(model, problem.y_z[:1])[0], *drawn[:SHOWN], ding[0]]
    missing = [drawn[0]] * (SHOWN - len(drawn[:SHOWN]))
    return [*shown, *missing, (4 * spread).clamp(0, 1)]


def _first(observed: Tensor | None) -> Tensor | None:
    return None if observed is None else observed[:1]


def _budgets(
    o: Options, model: Model, sampler: PASEO, z: Tensor
) -> tuple[list[list[Tensor]], list[list[Value]]]:
    """One draw for each budget, arc above fresh, and its LPIPS."""
    problem = exact_problem("blur", z, replace(o, draws=2), 1000 * o.seed)
    one = replace(problem, y=problem.y[:1], y_z=problem.y_z[:1])
    truth = decoded(model, z)
    first = {"arc": truth[0], "fresh": decoded(model, one.y_z)[0]}
    rows: dict[str, list[Tensor]] = {anchor: [first[anchor]] for anchor in ANCHORS if anchor in first}
    lines: list[list[Value]] = []
    for anchor, c, method in rules(sampler, "blur", o):
        if anchor in rows:
            image = decoded(model, method(model.prior, one, Noise(1000 * o.seed + 3)))
            rows[anchor].append(image[0])
            lines.append(["blur", anchor, c, lpips(image, truth).item()])
    return [rows["arc"], rows["fresh"]], lines
