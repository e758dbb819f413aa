"""Beyond the paper: other ways to train an operator and to use it, measured on the embedded model
(docs/beyond.md).

    paseo train operator --model faces-128 --data FACES --task jpeg --jacobian 1 --start START --minutes 8 -o
    runs/jacobian PYTHONPATH=benchmarks paseo train operator … --task beyond:dithered --name jpeg -o
    runs/dithered python benchmarks/beyond.py operators runs/plain/operator runs/jacobian/operator … --task
    jpeg --data FACES python benchmarks/beyond.py solver --task jpeg --data FACES

`operators` compares operators: error of the value, agreement of secants with those of E∘A∘D, and LPIPS of
PASEO over a grid of r with equal and with residual weights. `solver` compares ways to stop the solve and to
choose r with one operator.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from paseo.base import Sampler
from paseo.degrade import JPEG
from paseo.degrade.jpeg_twin import SoftJPEG
from paseo.files import write_json
from paseo.images import to_signed, to_unit
from paseo.lab.bench.pictures import Truth, load_pictures, stack
from paseo.lab.bench.setup import Setup
from paseo.linalg.cg import Map, Solve, dot
from paseo.samplers import PASEO
from paseo.samplers.correction import Parts, WithParts

QUALITIES = (6, 16)
SECANTS = (0.03, 0.1, 0.3)  # standard deviations of the directions, in units of the latents
METRICS = ("lpips", "psnr", "consistency")


def random_quality(x: Tensor) -> Tensor:
    """JPEG of a quality drawn for each batch of images in [0,1]: the operator learns a mean over codecs."""
    quality = int(torch.randint(QUALITIES[0], QUALITIES[1] + 1, ()))
    return to_unit(JPEG(quality)(to_signed(x)))


class Dithered(SoftJPEG):
    """Rounding to a neighbour with the probability of its nearness: linear in the mean."""

    def _round(self, u: Tensor) -> Tensor:
        return (u + torch.rand_like(u) - 0.5).round()


def dithered(x: Tensor) -> Tensor:
    """JPEG with dithered quantisation, of images in [0,1]."""
    return to_unit(Dithered(10)(to_signed(x)))


def quality_of(setup: Setup, sampler: Sampler, pictures: Sequence[Truth], batch: int) -> dict[str, float]:
    """Means over the pictures."""
    parts = [setup.scores(sampler, pictures[i : i + batch], METRICS) for i in range(0, len(pictures), batch)]
    return {name: round(torch.cat([part[name] for part in parts]).mean().item(), 4) for name in METRICS}


@torch.no_grad()
def accuracy_of(setup: Setup, pictures: Sequence[Truth]) -> dict[str, float]:
    """RMS error of H against E∘A∘D, and the cosine between their secants along random directions."""
    codec, degradation, H = setup.model.codec, setup.task.degradation, setup.operator.bind(setup.sigma)
    z = codec.encode(to_signed(stack(pictures)))

    def chain(z: Tensor) -> Tensor:
        x = codec.decode(z)
        return codec.encode(degradation.lift(degradation(x), (x.shape[-2], x.shape[-1])))

    rows = {"value_rms": (H(z) - chain(z)).square().mean().sqrt().item()}
    for delta in SECANTS:
        v = delta * torch.randn(z.shape, generator=torch.Generator().manual_seed(0))
        learned, true = ((f(z + v) - f(z - v)).flatten(1) for f in (H, chain))
        rows[f"cosine_{delta}"] = F.cosine_similarity(learned, true).mean().item()
        rows[f"length_{delta}"] = (learned.norm(dim=1) / true.norm(dim=1)).mean().item()
    return {name: round(value, 4) for name, value in rows.items()}


def operators(o: argparse.Namespace, pictures: Sequence[Truth]) -> Iterator[dict[str, Any]]:
    """Every operator over the grid of r, with equal and with residual weights."""
    for folder in o.folders:
        setup = Setup("faces-128", o.task, operator_path=str(folder))
        base = _base(o)
        accuracy = accuracy_of(setup, pictures)
        for weight in ("ones", "residual"):
            for r in o.noise:
                sampler = replace(base, operator_noise=r, weight=weight)
                yield {
                    "operator": folder.parent.name,
                    "weight": weight,
                    "r": r,
                    **quality_of(setup, sampler, pictures, o.batch),
                    **accuracy,
                }


def solver(o: argparse.Namespace, pictures: Sequence[Truth]) -> Iterator[dict[str, Any]]:
    """The kept settings; r from the operator's own error; CG stopped by the discrepancy principle."""
    setup, base = Setup("faces-128", o.task), _base(o)
    yield {"variant": "kept", **quality_of(setup, base, pictures, o.batch)}
    own = float(torch.tensor(setup.operator.spec.residual).square().mean().sqrt())
    yield {
        "variant": "r = own error",
        "r": own,
        **quality_of(setup, replace(base, operator_noise=own), pictures, o.batch),
    }
    damped = replace(base, damping=own**2)
    yield {"variant": "λ = own error²", "λ": own**2, **quality_of(setup, damped, pictures, o.batch)}
    for budget in (1, 3, 8):
        yield {
            "variant": f"C = {budget}",
            **quality_of(setup, replace(base, cg_budget=budget), pictures, o.batch),
        }
    for factor in (1.0, 2.0, 4.0):
        for budget in (3, 8):
            stopped = Parts(solver=partial(discrepancy, factor=factor, budget=budget))
            row = quality_of(setup, WithParts(base, stopped), pictures, o.batch)
            yield {"variant": f"misfit ≤ {factor:g}·r, C ≤ {budget}", **row}


def discrepancy(
    J: Map,
    JT: Map,
    W: Tensor,
    b: Tensor,
    *,
    eta2: float,
    trust: float,
    report: bool,
    factor: float,
    budget: int,
) -> Solve:
    """CG that also stops when the linearised misfit is within factor·r per entry (Morozov)."""
    v, r, p, g = torch.zeros_like(b), b, b, torch.zeros_like(JT(W * b))
    rr, target = dot(b, b), factor**2 * trust * b[0].numel()
    used = torch.zeros_like(rr)
    live = torch.ones_like(rr, dtype=torch.bool)
    for _ in range(budget):
        q = JT(W * p)
        a = torch.where(live, rr / (trust * dot(p, p) + eta2 * dot(q, q)), 0.0)
        v, g, used = v + a * p, g + a * q, used + live
        r = r - a * (trust * p + eta2 * (W * J(q)))
        rr, old = torch.where(live, dot(r, r), rr), rr
        p = r + rr / old * p
        misfit = r + trust * v  # b − η² W J JᵀW v, what the measurement still misses
        live = live & (dot(misfit, misfit) > target)
        if not live.any():
            break
    return Solve(g, used.flatten().long(), None)


def _base(o: argparse.Namespace) -> PASEO:
    sampler = Setup("faces-128", o.task).recipe.sampler
    return replace(
        sampler,
        **{name: type(getattr(sampler, name))(value) for name, value in (pair.split("=") for pair in o.set)},
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["operators", "solver"])
    parser.add_argument("folders", nargs="*", type=Path, help="operators to compare")
    parser.add_argument("--task", default="jpeg")
    parser.add_argument("--data", required=True, help="folder of faces; its validation part is taken")
    parser.add_argument("--images", type=int, default=16)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--noise", type=float, nargs="+", default=[0.1, 0.2, 0.4, 0.8], help="values of r")
    parser.add_argument(
        "--set", nargs="*", default=[], metavar="FIELD=VALUE", help="changes of the kept settings"
    )
    parser.add_argument("--json", type=Path, help="write the rows here")
    o = parser.parse_args()
    pictures = load_pictures(o.data, "validation", 0, o.images, 128)
    rows = []
    for row in (operators if o.what == "operators" else solver)(o, pictures):
        print("  ".join(f"{k} {v}" for k, v in row.items()), flush=True)
        rows.append(row)
    if o.json:
        write_json(o.json, rows)


if __name__ == "__main__":
    main()
