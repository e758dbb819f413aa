"""How far may an operator be trusted that was trained through a tiny codec and is used with the real one?

    python benchmarks/trust.py operator --codec weights/taesd3 --operator runs/taesd3/operator --data PHOTOS
    python benchmarks/trust.py operator … --sizes 256,512 --images 64 --levels 0,0.05,0.1 --json trust.json
    python benchmarks/trust.py restore --data FACES --levels 0,0.02,0.05,0.1

`operator` compares values and directions with E∘A∘D of the codec it was trained through, on held-out
pictures (`measured`: with noise of σ = 0.01, as it will be used), and then with that of a perturbed codec,
which stands for another autoencoder of the same latent space: its weights are moved at random until its
encodings differ by a given share of their standard deviation. `noisy` is the error where such a difference
is added to both encodings as independent noise.

`restore` asks what that costs: the embedded model restores with its own operators, while pictures go through
a perturbed codec. How large the difference between a tiny codec and its teacher is could not be measured
here; read the levels as an axis.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import torch
from torch import Tensor, nn

from paseo.base import BindsDegradation, BindsNoise, Codec, LatentOperator
from paseo.degrade import Task, task, tasks
from paseo.files import write_json
from paseo.hub.autoencoder import open_codec
from paseo.images import to_signed, to_unit
from paseo.lab.bench.pictures import load_pictures, stack
from paseo.metrics import lpips, psnr
from paseo.models import load_model
from paseo.operators.check import check_operator
from paseo.operators.store import load_operator
from paseo.problem import Padded, bound
from paseo.recipe import Request, resolve
from paseo.recipe.load import load_operator_of
from paseo.seeds import of_image
from paseo.street import restore

SIGMA = 0.01  # of the measurement, on [0,1] images
PART = 2  # pictures at a time: what fits the cache is faster


@torch.no_grad()
def perturbed(codec: Codec, level: float, x: Tensor) -> Codec:
    """The codec with weights w + ε |w| n, ε such that the encodings of x (in [-1,1]) move by `level` of their
    standard deviation.
    """
    if not level:
        return codec
    assert isinstance(codec, nn.Module)
    clean = codec.encode(x)
    low, high = 0.0, 1.0
    moved = codec
    for _ in range(12):
        middle = (low + high) / 2
        moved = copy.deepcopy(codec)
        moved.__dict__.pop("hash", None)  # kept from the codec it was copied from
        rng = torch.Generator().manual_seed(0)
        for weight in moved.parameters():
            weight.add_(middle * weight.abs() * torch.randn(weight.shape, generator=rng))
        found = moved.encode(x)
        off = (
            (found - clean).square().mean().sqrt() / clean.std()
            if bool(found.isfinite().all())
            else level + 1
        )
        low, high = (middle, high) if off < level else (low, middle)
    return moved


def told(
    H: LatentOperator | BindsNoise, known: Task, codec: Codec, size: int, sigma: float
) -> LatentOperator:
    """The operator of a family for one degradation, any other for its own, at a noise level."""
    if isinstance(H, BindsDegradation) and H.serves_family:
        return bound(H, sigma, known.degradation, Padded(codec, (size, size)))
    return H.bind(sigma) if isinstance(H, BindsNoise) else H


def rms(off: Tensor) -> list[float]:
    """One figure per picture."""
    return off.flatten(1).square().mean(1).sqrt().tolist()


class Encoded(NamedTuple):
    """Some pictures in [-1,1], their latents, and what the codec makes of those."""

    x: Tensor
    z: Tensor
    back: Tensor


@torch.no_grad()
def encoded(codec: Codec, x: Tensor) -> list[Encoded]:
    latents = ((part, codec.encode(part)) for part in to_signed(x).split(PART))
    return [Encoded(part, z, codec.decode(z)) for part, z in latents]


@torch.no_grad()
def values(
    H: LatentOperator, H_noisy: LatentOperator, codec: Codec, known: Task, parts: list[Encoded], level: float
) -> dict[str, float]:
    """Means over the pictures of ‖H(z) − E∘A∘D(z)‖, of the same without any operator, of the same with noise
    of σ = 0.01 in the measurement (and H told so), and, at a level, of ‖H(z + n) − (E(y) + n′)‖ with both
    noises of `level` standard deviations of the latents; all per element.
    """
    rng = torch.Generator().manual_seed(1)
    names = ("value", "nothing", "measured", *(("noisy",) if level else ()))
    found: dict[str, list[float]] = {name: [] for name in names}
    for x, z, back in parts:
        truth = codec.encode(measured(known, back))
        found["value"] += rms(H(z) - truth)
        found["nothing"] += rms(z - truth)
        found["measured"] += rms(H_noisy(z) - codec.encode(measured(known, back, SIGMA)))
        if level:
            n, m = (level * z.std() * torch.randn(z.shape, generator=rng) for _ in range(2))
            found["noisy"] += rms(H(z + n) - codec.encode(measured(known, x)) - m)
    return {name: fmean(each) for name, each in found.items()}


def measured(known: Task, x: Tensor, sigma: float = 0.0) -> Tensor:
    """A(x) at full size, with noise of σ on [0,1] images."""
    y = known.degradation(x)
    if sigma:
        y = y + 2 * sigma * torch.randn(y.shape, generator=torch.Generator().manual_seed(0))
    return known.degradation.lift(y, (x.shape[2], x.shape[3]))


def operator_rows(o: argparse.Namespace) -> Iterator[dict[str, object]]:
    codec, net = open_codec(o.codec), load_operator(o.operator)
    codec.to(memory_format=torch.channels_last)  # ty: ignore[no-matching-overload]  (not in torch's stub)
    chosen = [task(name) for name in o.tasks]
    for size in o.sizes:
        x = stack(load_pictures(o.data, o.part, count=o.images, size=size))
        for level in o.levels:
            other = perturbed(codec, level, to_signed(x[:4]))
            parts = encoded(other, x)
            for known in chosen:
                H, H_noisy = (told(net, known, other, size, sigma) for sigma in (0.0, SIGMA))
                row: dict[str, object] = {"task": known.name, "size": size, "level": level}
                row |= values(H, H_noisy, other, known, parts, level)
                if level == 0 and o.differentiated:
                    few = x[: o.differentiated]
                    check = check_operator(
                        H, other, known.degradation, few, directions=o.directions, power_iterations=1
                    )
                    row |= {"cosine": check.rows[0].mean.cosine, "reliable": check.rows[0].reliable}
                yield row


@torch.no_grad()
def restore_rows(o: argparse.Namespace) -> Iterator[dict[str, object]]:
    model = load_model(o.model)
    pictures = load_pictures(o.data, o.part, count=o.images, size=model.size)
    x = stack(pictures)
    for level in o.levels:
        codec = perturbed(model.codec, level, to_signed(x[:4]))
        for name in o.tasks:
            known, recipe = task(name), resolve(Request(model=o.model, task=name))
            rng = torch.Generator().manual_seed(of_image(0, pictures[0].sha256, "measurement"))
            y = known.degradation(to_signed(x))
            y = to_unit(y + 2 * known.sigma_y * torch.randn(y.shape, generator=rng))
            run = partial(
                restore, degradation=known.degradation, sampler=recipe.sampler, sigma_y=known.sigma_y
            )
            H = load_operator_of(recipe, model).operator
            done = run(y, operator=H, prior=model.prior, codec=codec, seeds=list(range(len(x))))
            scores = {
                "lpips": lpips(done.images, x).mean().item(),
                "psnr": psnr(done.images, x).mean().item(),
            }
            yield {"task": name, "level": level, **scores}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("study", choices=("operator", "restore"))
    parser.add_argument("--codec", type=Path, help="the tiny codec, such as weights/taesd3")
    parser.add_argument("--operator", type=Path, help="folder of the operator")
    parser.add_argument("--model", default="faces-128", help="of `restore`")
    parser.add_argument("--data", required=True)
    parser.add_argument("--part", default="test", choices=("all", "train", "validation", "test"))
    parser.add_argument("--images", type=int, default=8)
    parser.add_argument(
        "--differentiated",
        type=int,
        default=8,
        help="of them: pictures whose directions are compared, slow; 0: none",
    )
    parser.add_argument("--directions", type=int, default=1)
    parser.add_argument("--sizes", type=lambda s: [int(v) for v in s.split(",")], default=[256])
    parser.add_argument("--levels", type=lambda s: [float(v) for v in s.split(",")], default=[0.0, 0.05, 0.1])
    parser.add_argument("--tasks", type=lambda s: s.split(","), default=[t.name for t in tasks()])
    parser.add_argument("--json", type=Path)
    o = parser.parse_args()
    if o.study == "operator" and (o.codec is None or o.operator is None):
        parser.error("operator needs --codec and --operator")
    found = []
    for row in operator_rows(o) if o.study == "operator" else restore_rows(o):
        found.append(row)
        print(
            "  ".join(f"{k} {v:.3f}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()),
            flush=True,
        )
    if o.json is not None:
        write_json(
            o.json,
            {
                "study": o.study,
                "images": o.images,
                "differentiated": o.differentiated,
                "directions": o.directions,
                "rows": found,
            },
        )


if __name__ == "__main__":
    main()
