"""Does a learned operator predict the measurement, and how it changes? (the paper's "Validation of the
learned operator")

Against the chain R = E∘A∘D, at clean latents and, where given, at re-encoded reconstructions:

    value error       RMS of H(z) − R(z); compare it with r, which the solver assumes, and with z − R(z)
    direction         cosine between J v and R′(z) v for random v; 1 is best
    magnitude error   | ‖J v‖ / ‖R′(z) v‖ − 1 |
    step spread       relative change of R′(z) v for another finite-difference step; if large, distrust these
    adjoint error     |⟨u, J v⟩ − ⟨Jᵀu, v⟩| / (‖u‖ ‖J v‖): are the two products transposes of each other?
    norm              ‖J‖₂ by power iteration, the largest of the images
    condition bound   1 + η² ‖J‖² / (r² + λ) with η = 250, the widest prior of a run: the most that CG meets
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn

from paseo.base import BindsNoise, Codec, Degradation, HasNetwork, LatentOperator
from paseo.errors import BadInput
from paseo.linalg import linearize, power_norm
from paseo.operators.reference import STEPS, Reference

WIDEST_PRIOR = 250.0  # η_z at the first step of a run
TRUSTED_SPREAD = 0.1  # step spread above which the reference derivative is called unreliable


@dataclass(frozen=True)
class PointCheck:
    """The figures of one latent, or their mean (for the norm: maximum) over several."""

    value_error: float
    do_nothing_error: float
    cosine: float
    magnitude_error: float
    step_spread: float
    adjoint_error: float
    norm: float


@dataclass(frozen=True)
class CheckRow:
    """The figures of one kind of latents."""

    latents: str  # "clean" or "re-encoded"
    images: int
    mean: PointCheck
    condition_bound: float
    each: tuple[PointCheck, ...]

    @property
    def reliable(self) -> bool:
        """Whether the reference derivative is the same for all steps."""
        return self.mean.step_spread <= TRUSTED_SPREAD


@dataclass(frozen=True)
class OperatorCheck:
    """The result of `check_operator`: `print(check.table())`, `check.to_dict()` for JSON."""

    name: str
    sigma_y: float  # [0,1] units
    operator_noise: float  # r
    damping: float  # λ
    directions: int
    steps: tuple[float, ...]  # relative to the latent's RMS; the first is used
    precision: str  # of the reference chain
    seed: int
    rows: tuple[CheckRow, ...]

    def table(self) -> str:
        """The figures as text, one line per kind of latents."""
        lines = [tuple(COLUMNS), *(tuple(write(row) for write in COLUMNS.values()) for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        body = [
            "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines
        ]
        settings = (
            f"σ_y={self.sigma_y:g} ([0,1] units), r={self.operator_noise:g}, λ={self.damping:g}, "
            f"reference in {self.precision}"
        )
        notes = [] if all(row.reliable for row in self.rows) else [UNRELIABLE]
        return "\n".join([f"{self.name or 'operator'}: {settings}", *body, *notes])

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON; what is not finite becomes None."""
        return _plain(
            {**asdict(self), "rows": [{**asdict(row), "reliable": row.reliable} for row in self.rows]}
        )


COLUMNS: dict[str, Callable[[CheckRow], str]] = {
    "latents": lambda row: row.latents,
    "images": lambda row: str(row.images),
    "value RMS": lambda row: f"{row.mean.value_error:.3f}",
    "do nothing": lambda row: f"{row.mean.do_nothing_error:.3f}",
    "cosine": lambda row: f"{row.mean.cosine:.3f}",
    "magnitude": lambda row: f"{row.mean.magnitude_error:.3f}",
    "step spread": lambda row: f"{row.mean.step_spread:.0e}" + ("" if row.reliable else " (!)"),
    "adjoint": lambda row: f"{row.mean.adjoint_error:.0e}",
    "‖J‖₂": lambda row: f"{row.mean.norm:.2f}",
    "cond. bound": lambda row: f"{row.condition_bound:.0e}",
}
UNRELIABLE = (
    "(!) The reference derivative depends on the finite-difference step: cosine and magnitude say little "
    "here."
)


@torch.no_grad()
def check_operator(
    operator: LatentOperator | BindsNoise,
    codec: Codec,
    degradation: Degradation,
    images: Tensor | None = None,
    *,
    latents: Tensor | None = None,
    reconstructions: Tensor | None = None,
    sigma_y: float = 0.01,
    operator_noise: float = 0.02,
    damping: float = 0.0,
    directions: int = 4,
    steps: tuple[float, ...] | None = None,
    power_iterations: int = 20,
    seed: int = 0,
    name: str = "",
    progress: Callable[[int, int], None] | None = None,
) -> OperatorCheck:
    """Compare an operator with E∘A∘D at `images` (B,3,H,W) in [0,1], or at their `latents`; `reconstructions`
    add a second row.

    `operator` is a network with `bind(sigma_y)` or any z ↦ H(z). The paper uses eight images and four
    directions. `progress(done, total)` is called once per latent.
    """
    _check_numbers(operator_noise, damping, directions, steps, power_iterations)
    reference = Reference(codec, degradation)
    steps = steps or STEPS[reference.dtype]
    groups = {"clean": _latents(reference, images, latents)}
    if reconstructions is not None:
        groups["re-encoded"] = _latents(reference, reconstructions, None)
    H: LatentOperator = operator.bind(sigma_y) if isinstance(operator, BindsNoise) else operator
    home = _home(operator, images if images is not None else latents)
    rng = torch.Generator().manual_seed(seed)
    total, done, rows = sum(len(z) for z in groups.values()), 0, []
    for kind, group in groups.items():
        each = []
        for z in group.split(1):
            each.append(_check_point(H, reference, z, home, directions, steps, power_iterations, rng))
            done += 1
            if progress is not None:
                progress(done, total)
        rows.append(_row(kind, tuple(each), operator_noise**2 + damping))
    name = name or degradation.name
    precision = str(reference.dtype).removeprefix("torch.")
    return OperatorCheck(
        name, sigma_y, operator_noise, damping, directions, tuple(steps), precision, seed, tuple(rows)
    )


def _check_point(
    H: LatentOperator,
    reference: Reference,
    z: Tensor,
    home: Tensor,
    directions: int,
    steps: tuple[float, ...],
    iterations: int,
    rng: torch.Generator,
) -> PointCheck:
    """All figures at one latent z (1,c,h,w), given in float64."""
    truth = reference(z)
    h, J, JT = linearize(H, z.to(home))
    if h.shape != truth.shape:
        raise BadInput(
            f"The operator gives {tuple(h.shape)}, the codec's encodings are {tuple(truth.shape)}. Is it "
            "of another model?"
        )
    cosines, magnitudes, spreads, adjoints = [], [], [], []
    for _ in range(directions):
        v, u = _rms(z) * _normal(z, rng), _normal(z, rng)  # so that steps are relative to the latent
        first, *others = (reference.derivative(z, v, step) for step in steps)
        Jv, JTu = _double(J(v.to(home))), _double(JT(u.to(home)))
        cosines.append(_ratio((Jv * first).sum().item(), (Jv.norm() * first.norm()).item(), empty=0.0))
        magnitudes.append(abs(_ratio(Jv.norm().item(), first.norm().item(), empty=1.0) - 1))
        spreads.append(max(_ratio((other - first).norm().item(), first.norm().item()) for other in others))
        adjoints.append(_ratio(abs(((u * Jv).sum() - (JTu * v).sum()).item()), (u.norm() * Jv.norm()).item()))
    norm = power_norm(J, JT, _normal(z, rng).to(home), iterations).item()
    return PointCheck(
        value_error=_rms(_double(h) - truth),
        do_nothing_error=_rms(z - truth),
        cosine=fmean(cosines),
        magnitude_error=fmean(magnitudes),
        step_spread=fmean(spreads),
        adjoint_error=fmean(adjoints),
        norm=norm,
    )


def _row(kind: str, each: tuple[PointCheck, ...], trust: float) -> CheckRow:
    columns = [asdict(p) for p in each]
    values = {name: fmean(p[name] for p in columns) for name in columns[0]}
    values["norm"] = max(p.norm for p in each)
    return CheckRow(
        kind, len(each), PointCheck(**values), 1 + WIDEST_PRIOR**2 * values["norm"] ** 2 / trust, each
    )


def _latents(reference: Reference, images: Tensor | None, latents: Tensor | None) -> Tensor:
    """(B,c,h,w) in float64, from exactly one of the two."""
    if (images is None) == (latents is None):
        raise BadInput("Give either images in [0,1] or latents to check an operator at.")
    given = images if images is not None else latents
    assert given is not None
    if given.ndim != 4 or not len(given) or not torch.isfinite(given).all():
        raise BadInput(
            "An operator is checked at a batch (B, channels, height, width) of finite values, got "
            f"{tuple(given.shape)}."
        )
    if images is None:
        return _double(given)
    if images.min() < -1e-3 or images.max() > 1 + 1e-3:
        raise BadInput(
            f"Images are expected in [0,1], got values from {images.min():.3g} to {images.max():.3g}."
        )
    return torch.cat([reference.encode(2 * _double(x) - 1) for x in images.split(1)])


def _check_numbers(
    r: float, damping: float, directions: int, steps: tuple[float, ...] | None, iterations: int
) -> None:
    if not (r >= 0 and damping >= 0 and 0 < r * r + damping < math.inf):
        raise BadInput(
            f"operator_noise={r} and damping={damping} give no r² + λ > 0; use the values of the preset."
        )
    if directions < 1 or iterations < 1:
        raise BadInput(
            f"directions={directions} and power_iterations={iterations} must be at least 1 (the paper uses "
            "4; 20 is a good number)."
        )
    if steps is not None and (len(steps) < 2 or not all(0 < s < math.inf for s in steps)):
        raise BadInput(
            f"steps={steps} must be two or more positive finite-difference steps, the first is the one "
            "that is used."
        )


def _home(operator: object, given: Tensor | None) -> Tensor:
    """A tensor of the device and dtype in which an operator computes: its parameters', else those of what was
    given.
    """
    if isinstance(operator, HasNetwork) and not isinstance(operator, nn.Module):
        operator = operator.net
    parameter = next(operator.parameters(), None) if isinstance(operator, nn.Module) else None
    found = given if parameter is None else parameter
    return torch.empty(0) if found is None else found.new_empty(0)


def _double(x: Tensor) -> Tensor:
    return x.cpu().to(torch.float64)  # in this order: not every device has float64


def _normal(like: Tensor, rng: torch.Generator) -> Tensor:
    return torch.randn(like.shape, generator=rng, dtype=torch.float64)


def _rms(x: Tensor) -> float:
    return x.square().mean().sqrt().item()


def _ratio(a: float, b: float, empty: float = 0.0) -> float:
    """a/b; 0/0 is `empty`, and anything else over 0 infinite."""
    if b > 0:
        return a / b
    return empty if a == 0 else math.inf


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
