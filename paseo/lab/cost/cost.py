"""`paseo bench cost`: what PASEO costs at full size, in seconds and bytes, against the denoiser calls it
makes anyway.

Each task runs with the paper's FFHQ settings for a few steps; all denoiser and codec calls are timed where
they happen, and what lies between two denoiser calls is the solver's. Cost per step is constant, so the
figures of a whole run of K points follow from medians over the calls and the steps:

    ratio = 1 + (K−2)·solver per step / ((2K−3)·denoiser call + encode + decode)

Memory is compared with unconditional sampling by the same denoiser. The first call of everything is
discarded. On a machine that is shared with others, `clock="cpu"` counts the process's own work instead of the
time that passed.
"""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

import torch

from paseo.base import Sampler
from paseo.degrade import task as task_named
from paseo.errors import BadInput
from paseo.hub.device import cpu_multiplies_bf16, pick_device, pick_dtype
from paseo.lab.cost.meter import Meter, MeteredCodec, MeteredPrior
from paseo.lab.cost.networks import Arch, Rig, build_rig
from paseo.lab.text import Value, columns
from paseo.metrics.cost import Cost
from paseo.noise import Noise
from paseo.operators.net import OperatorNet
from paseo.problem import pose
from paseo.samplers.paseo import PASEO
from paseo.samplers.unconditional import unconditional
from paseo.settings.presets import preset
from paseo.units import to_signed, to_unit

TASKS = ("sr4", "sr8", "blur", "inpaint", "jpeg")
GIB = 2**30
LIMITS = {
    "sd15": 1.20,
    "sd35": 1.10,
}  # what the time ratio must not exceed (inpainting with SD1.5 is only reported)
MEMORY_LIMIT = 1.05
CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}


@dataclass(frozen=True)
class CostRow:
    """One task: seconds are of one call or one step, bytes are peaks."""

    task: str
    guidance: float
    inner_steps: int  # P
    cg_budget: int | None  # C; None: solved exactly
    points: int  # K, of a whole run
    denoiser: float  # one call, guided or not
    encode: float
    decode: float
    correction: float  # one of P per step
    whole: float  # all of a run of K points, by the formula above
    ratio: float  # against its denoiser calls, one encode and one decode
    short_ratio: float  # the same as really timed, over the few steps that were run
    nfe: int  # counted, of the short run
    peak_bytes: int
    plain_peak_bytes: int  # of unconditional sampling
    part_peak_bytes: dict[str, int]  # during encode, denoiser, correction, decode; weights included

    @property
    def memory_ratio(self) -> float:
        return self.peak_bytes / self.plain_peak_bytes


@dataclass(frozen=True)
class CostReport:
    """What was measured, and where."""

    arch: str
    side: int
    device: str
    dtype: str
    threads: int
    clock: str  # "wall", or "cpu" for the process's own seconds, summed over its threads
    machine: str
    versions: dict[str, str]
    parameters: dict[str, int]
    operator_forward: float  # seconds
    rows: tuple[CostRow, ...]

    def as_json(self) -> dict[str, object]:
        rows = [asdict(row) | {"memory_ratio": row.memory_ratio} for row in self.rows]
        return asdict(self) | {
            "rows": rows,
            "limits": {"time": LIMITS.get(self.arch), "memory": MEMORY_LIMIT},
        }

    def text(self) -> str:
        size = ", ".join(f"{name} {count / 1e6:.0f}M" for name, count in self.parameters.items())
        where = f"{self.dtype} on {self.device} ({self.threads} threads, {self.clock} seconds)"
        forward = f"operator forward {self.operator_forward:.3g} s"
        head = f"{self.arch} {self.side}×{self.side}, {where}; {size}; {forward}"
        header = ("task", "CFG", "P", "C", "denoiser s", "correction s", "encode s", "decode s", "whole s")
        lines: list[list[Value]] = [
            [
                *(
                    r.task,
                    r.guidance,
                    r.inner_steps,
                    r.cg_budget,
                    r.denoiser,
                    r.correction,
                    r.encode,
                    r.decode,
                ),
                *(r.whole, r.ratio, r.peak_bytes / GIB, r.memory_ratio),
            ]
            for r in self.rows
        ]
        return head + "\n" + columns((*header, "time ratio", "peak GiB", "memory ratio"), lines)


def measure_cost(
    arch: Arch = "sd15",
    *,
    tasks: Sequence[str] = TASKS,
    steps: int = 4,
    side: int | None = None,
    dtype: str | None = None,
    device: str = "auto",
    clock: str = "wall",
    recall: int = 0,
    say: Callable[[str], None] = lambda text: None,
) -> CostReport:
    """Build the networks and measure every task over `steps` time points (2·steps − 3 denoiser calls), with
    `recall` secants remembered.
    """
    if steps < 3:
        raise BadInput(f"steps={steps} is too few: a run needs at least 3 time points.")
    unknown = [name for name in tasks if name not in TASKS]
    if unknown:
        raise BadInput(
            f"There are no FFHQ settings for {', '.join(unknown)}; there are for {', '.join(TASKS)}."
        )
    if clock not in CLOCKS:
        raise BadInput(f"clock={clock!r} is not one of {', '.join(CLOCKS)}.")
    place = pick_device(device)
    if clock == "cpu" and place.type != "cpu":
        raise BadInput(f"clock='cpu' does not see what {place} does; use the wall clock there.")
    number = pick_dtype(dtype or _default_dtype(arch, place), place)
    say(f"Building {arch} with random weights")
    rig = build_rig(arch, dtype=number, device=place, side=side)
    operator = OperatorNet(rig.codec.channels).to(place).eval().requires_grad_(False)
    rows = []
    plain: dict[float, int] = {}
    for name in tasks:
        settings = preset(f"ffhq/{'sd35' if arch.endswith('35') else 'rv51'}", name)
        assert isinstance(settings.sampler, PASEO)
        if settings.guidance not in plain:
            say(f"Unconditional sampling, guidance {settings.guidance:g}")
            plain[settings.guidance] = unconditional_peak(rig, settings.guidance, steps)
        say(f"PASEO, {name}")
        rows.append(
            measure_task(
                rig,
                operator,
                name,
                replace(settings.sampler, recall=recall),
                settings.guidance,
                steps,
                plain[settings.guidance],
                CLOCKS[clock],
            )
        )
    return CostReport(
        arch,
        rig.side,
        str(place),
        str(number).removeprefix("torch."),
        torch.get_num_threads(),
        clock,
        platform.processor() or platform.machine(),
        {"torch": torch.__version__, "python": platform.python_version()},
        {**rig.parameters, "operator": sum(p.numel() for p in operator.parameters())},
        forward_seconds(rig, operator, CLOCKS[clock]),
        tuple(rows),
    )


@torch.no_grad()
def measure_task(
    rig: Rig,
    operator: OperatorNet,
    name: str,
    sampler: PASEO,
    guidance: float,
    steps: int,
    plain_peak: int,
    clock: Callable[[], float] = time.perf_counter,
) -> CostRow:
    """Encode, sample over a few points, decode; everything timed where it happens."""
    prior = rig.prior(guidance)
    y = torch.rand(1, 3, rig.side, rig.side, generator=torch.Generator().manual_seed(2)).to(rig.device)
    degradation = task_named(name).degradation
    measured = to_unit(degradation(to_signed(y)))

    def run(short: Sampler, meter: Meter) -> None:
        codec = MeteredCodec(rig.codec, meter)
        problem = pose(
            measured, prior=prior, codec=codec, operator=operator, degradation=degradation, sigma_y=0.01
        )
        codec.decode(short(MeteredPrior(prior, meter), problem, Noise(0)))
        meter.close()

    peaks, times = Meter(rig.device, peaks=True), Meter(rig.device, clock=clock)
    run(replace(sampler, steps=3), peaks)  # also the warm-up
    with Cost(rig.device) as cost:
        run(replace(sampler, steps=steps), times)
    denoiser, encode, decode = (
        statistics.median(times.seconds[part]) for part in ("denoiser", "encode", "decode")
    )
    # the gaps lie before encode, state, proxy, state, proxy, …, last estimate, decode: a step has the two
    # that follow its calls

    overhead = statistics.median(times.gaps[2 + 2 * k] + times.gaps[3 + 2 * k] for k in range(steps - 2))
    parts = sum(map(sum, times.seconds.values()))
    base = (2 * sampler.steps - 3) * denoiser + encode + decode
    whole = base + (sampler.steps - 2) * overhead
    return CostRow(
        name,
        guidance,
        sampler.inner_steps,
        sampler.cg_budget,
        sampler.steps,
        denoiser,
        encode,
        decode,
        overhead / sampler.inner_steps,
        whole,
        whole / base,
        1 + sum(times.gaps) / parts,
        len(times.seconds["denoiser"]),
        cost.peak_bytes,
        plain_peak,
        dict(peaks.peaks or {}),
    )


@torch.no_grad()
def unconditional_peak(rig: Rig, guidance: float, steps: int) -> int:
    """Peak bytes of plain sampling with the same denoiser and decoder, nothing observed."""
    prior = rig.prior(guidance)

    def run(points: int) -> None:
        rig.codec.decode(unconditional(prior, (1, *rig.latent), Noise(3), points, device=rig.device))

    run(3)  # warm-up
    with Cost(rig.device) as cost:
        run(steps)
    return cost.peak_bytes


@torch.no_grad()
def forward_seconds(
    rig: Rig, operator: OperatorNet, clock: Callable[[], float] = time.perf_counter, repeats: int = 5
) -> float:
    """One plain pass through the operator network."""
    z = torch.randn(1, *rig.latent, generator=torch.Generator().manual_seed(4)).to(rig.device)
    meter = Meter(rig.device, clock=clock)
    for _ in range(repeats + 1):
        with meter("forward"):
            operator(z, 0.02)
    return statistics.median(meter.seconds["forward"][1:])


def _default_dtype(arch: str, device: torch.device) -> str | None:
    """SD3.5 in float32 takes 10 GB: on a CPU that multiplies bfloat16 it runs in that."""
    if device.type != "cpu" or not arch.endswith("35"):
        return None
    return "bf16" if cpu_multiplies_bf16() else None
