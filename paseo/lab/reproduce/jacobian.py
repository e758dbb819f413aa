"""Does the learned operator predict the measurement and its local changes? (the paper's table of eight
images, four directions)

Value error, direction and magnitude against E∘A∘D at clean latents and at re-encoded reconstructions;
adjointness, norm and a bound on the condition number. The reconstructions are PASEO's, with the arc anchor
and the supplied mask.
"""

from __future__ import annotations

from typing import Any

import torch

from paseo.images import read
from paseo.lab.bench.aggregate import Bench
from paseo.lab.bench.cells import CellStore
from paseo.lab.bench.pictures import stack
from paseo.lab.bench.plan import pictures_of, setup_of
from paseo.lab.paper import PRIORS, under
from paseo.lab.reproduce.findings import PaperFinding, count, span
from paseo.lab.reproduce.variants import Options, Study, carry_out, reference, tasks_of, variant
from paseo.operators.check import OperatorCheck, check_operator

__all__ = ["Options", "run"]

IMAGES, DIRECTIONS = 8, 4
HEADER = (
    "task",
    "where",
    "r",
    "value",
    "re-enc.",
    "cosine",
    "re-enc. cos",
    "magnitude",
    "adjoint",
    "norm",
    "cond. bound",
)
PRINTED = ("r", "value", "value_again", "cosine", "cosine_again", "magnitude", "adjoint", "norm", "condition")


def run(o: Options) -> Study:
    from dataclasses import replace

    o = replace(o, images=min(o.images, IMAGES))
    tasks = tasks_of(o)
    bench, store = carry_out(
        o, "jacobian", [variant(o, tasks, "arc")], tasks, reference="arc", metrics=["psnr"]
    )
    checks = {task: check(o, bench, store, task) for task in tasks}
    lines: list[list[Any]] = []
    for task, c in checks.items():
        clean, again = c.rows[0], c.rows[1]
        numbers = [clean.mean.value_error, again.mean.value_error, clean.mean.cosine, again.mean.cosine]
        numbers += [
            clean.mean.magnitude_error,
            clean.mean.adjoint_error,
            clean.mean.norm,
            clean.condition_bound,
        ]
        lines.append([task, "here", c.operator_noise, *numbers])
        for prior in PRIORS:
            printed = under("jacobian", prior).get(task, {})
            lines.append([task, f"paper {prior}", *(printed.get(c) for c in PRINTED)])
    more = {"checks": {task: c.to_dict() for task, c in checks.items()}}
    return Study(
        "The learned operator against decode, degrade, encode",
        o,
        bench,
        store,
        HEADER,
        lines,
        findings(checks),
        more,
    )


def check(o: Options, bench: Bench, store: CellStore, task: str) -> OperatorCheck:
    setup, pictures = setup_of(bench.config, task), pictures_of(bench.config)
    done = {c.image_sha256: c for c in bench.cells if c.task == task and store.done(c)}
    images = torch.stack([read(store.path(done[p.sha256], ".png")).rgb for p in pictures if p.sha256 in done])
    settings = reference(o, task)
    return check_operator(
        setup.operator,
        setup.model.codec,
        setup.task.degradation,
        stack(pictures),
        reconstructions=images,
        sigma_y=setup.sigma,
        operator_noise=settings["operator_noise"],
        damping=settings["damping"],
        directions=DIRECTIONS,
        name=task,
    )


def findings(checks: dict[str, OperatorCheck]) -> list[PaperFinding]:
    clean = {task: c.rows[0].mean for task, c in checks.items()}
    above = [clean[t].value_error > c.operator_noise for t, c in checks.items()]
    adjoint = max(p.adjoint_error for p in clean.values())
    found = [
        PaperFinding(
            "The value error exceeds the noise r that the solver assumes.",
            "10 of 10 rows",
            count(above),
            all(above),
        ),
        PaperFinding(
            "Jᵀ is the transpose of J to rounding.", "3e-7 to 4e-6", f"up to {adjoint:.0e}", adjoint < 1e-4
        ),
    ]
    dense = {t: p.cosine for t, p in clean.items() if t != "jpeg"}
    if dense:
        found.append(
            PaperFinding(
                "Directions agree on the linear tasks.",
                "0.37 to 0.63 (RV), 0.87 to 0.96 (SD3.5)",
                span(list(dense.values()), 2),
                min(dense.values()) > 0.37,
            )
        )
    if "jpeg" in clean and dense:
        j = clean["jpeg"].cosine
        found.append(
            PaperFinding(
                "On JPEG the learned directions do not match the chain's.",
                "cosine 0.01 to 0.03",
                f"{j:.2f}",
                j < 0.5 * min(dense.values()),
            )
        )
        spread = clean["jpeg"].step_spread
        found.append(
            PaperFinding(
                "On JPEG the reference derivative depends on the step.",
                "unreliable",
                f"step spread {spread:.0e}",
                not checks["jpeg"].rows[0].reliable,
            )
        )
    return found
