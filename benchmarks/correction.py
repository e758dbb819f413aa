"""What a correction costs, in forwards of the operator network.

    python benchmarks/correction.py [--repeats 9] [--threads 2] [--clock wall|cpu] [--json FILE] [--check]

Times one forward, one J v, one Jᵀ u and one whole correction (`PASEO.correct`) for C = 1, 2, 3, 5 CG
iterations, against

    limits      a product 1.5 forwards; a correction 1.25·(2C+1) forwards
    textbook    the same correction as printed in the paper, one forward, C+1 JVPs and C+1 VJPs by torch.func

All are run in turn within every repeat, each divided by the mean of four forwards, two before and two after
it; the table gives the median of these ratios, so that a machine that is busy with other things slows both
sides alike. On a machine that is overloaded, `--threads 1 --clock cpu` counts the processor time of this
process alone. Peak memory is what torch allocates on top of what is there before, read from the profiler's
allocation record.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from paseo.files import write_json
from paseo.lab.cost.methods import allocated_peak
from paseo.linalg import cg
from paseo.noise import Noise
from paseo.operators.net import OperatorNet
from paseo.samplers import PASEO

BUDGETS = (1, 2, 3, 5)
PRODUCT_LIMIT = 1.5
CORRECTION_LIMIT = 1.25
SHAPES = (
    (1, 16, 64, 64),
    (1, 4, 64, 64),
    (1, 16, 16, 16),
    (8, 16, 16, 16),
)  # SD3, SD 1.x, the embedded model twice
ETA_Z = 0.5
Run = Callable[[], object]
Clock = Callable[[], float]
CLOCKS: dict[str, Clock] = {"wall": time.perf_counter, "cpu": time.process_time}


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    shape: tuple[int, ...]
    what: str
    milliseconds: float  # median
    forwards: float  # median ratio to a forward
    limit: float | None
    textbook: float | None  # how many times dearer the textbook form is
    peak_mib: float | None

    @property
    def ok(self) -> bool:
        return self.limit is None or self.forwards <= self.limit


def textbook(
    H: Callable[[Tensor], Tensor], z: Tensor, z_a: Tensor, y: Tensor, trust: float, eta2: float, budget: int
) -> Tensor:
    """Lines 16 to 21 of Algorithm 2 as printed: one forward, C+1 JVPs, C+1 VJPs."""
    h, pull, *_ = torch.func.vjp(H, z)

    def J(v: Tensor) -> Tensor:
        return torch.func.jvp(H, (z,), (v,))[1]

    def JT(u: Tensor) -> Tensor:
        return pull(u)[0]

    b = y - h - J(z_a - z)
    v = cg(lambda u: trust * u + eta2 * J(JT(u)), b, budget, tolerance=0.0).v
    return z_a + eta2 * JT(v)


def cases(shape: tuple[int, ...], with_textbook: bool) -> dict[str, Run]:
    """What is timed, by name; "forward" first."""
    torch.manual_seed(0)
    H = OperatorNet(shape[1]).eval().requires_grad_(False).bind(0.01)
    z, z_a, y, v = torch.randn(4, *shape).unbind()
    noise, W = Noise(list(range(shape[0]))), torch.ones(())
    _, J, JT = H.linearize(z)
    runs: dict[str, Run] = {"forward": lambda: H(z), "J v": lambda: J(v), "Jᵀ u": lambda: JT(v)}
    for C in BUDGETS:
        sampler = PASEO(cg_budget=C, cg_tolerance=0.0)
        runs[f"correction C={C}"] = lambda s=sampler: s.correct(H, z, z_a, y, ETA_Z, W, noise)
        if with_textbook:
            runs[f"textbook C={C}"] = lambda s=sampler, C=C: textbook(H, z, z_a, y, s.trust, ETA_Z**2, C)
            same = torch.allclose(
                runs[f"textbook C={C}"](), runs[f"correction C={C}"](), rtol=1e-2, atol=1e-3
            )  # ty: ignore
            assert same, "the lean correction and the textbook disagree"
    return runs


def seconds(clock: Clock, run: Run, times: int = 1) -> float:
    start = clock()
    for _ in range(times):
        run()
    return (clock() - start) / times


def measure(runs: dict[str, Run], repeats: int, clock: Clock) -> tuple[dict[str, float], dict[str, float]]:
    """Median seconds and median ratio to the neighbouring forwards, for each case."""
    forward = runs["forward"]
    times: dict[str, list[float]] = {name: [] for name in runs}
    ratios: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()  # warm-up
    for _ in range(repeats):
        before = seconds(clock, forward, 2)
        for name, run in runs.items():
            taken, after = seconds(clock, run), seconds(clock, forward, 2)
            times[name].append(taken)
            ratios[name].append(2 * taken / (before + after))
            before = after
    return tuple(
        {name: statistics.median(values) for name, values in table.items()} for table in (times, ratios)
    )  # ty: ignore


@contextmanager
def quiet_stderr() -> Generator[None]:
    """The profiler's C++ side announces itself on every start and stop."""
    saved, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(nowhere)


def peak_bytes(run: Run) -> int:
    """Most bytes allocated by torch at once during `run`, on top of those before it."""
    run()
    with quiet_stderr():
        return allocated_peak(run)


def benchmark(shape: tuple[int, ...], repeats: int, with_textbook: bool, clock: Clock) -> list[Row]:
    with torch.no_grad():
        runs = cases(shape, with_textbook)
        times, ratios = measure(runs, repeats, clock)
        rows = []
        for name, run in runs.items():
            C = int(name.split("=")[1]) if "=" in name else 0
            limit = (
                CORRECTION_LIMIT * (2 * C + 1)
                if name.startswith("correction")
                else PRODUCT_LIMIT
                if name[0] == "J"
                else None
            )
            factor = (
                ratios[f"textbook C={C}"] / ratios[name]
                if name.startswith("correction") and with_textbook
                else None
            )
            rows.append(
                Row(shape, name, 1e3 * times[name], ratios[name], limit, factor, peak_bytes(run) / 2**20)
            )
    return rows


def show(rows: list[Row]) -> None:
    print(f"{'':18}{'ms':>9}{'forwards':>10}{'limit':>8}{'':4}{'textbook is':>12}{'peak MiB':>10}")
    for row in rows:
        limit = "" if row.limit is None else f"{row.limit:.2f}"
        verdict = "" if row.limit is None else " ok" if row.ok else " NO"
        factor = "" if row.textbook is None else f"{row.textbook:.2f}×"
        print(
            f"{row.what:18}{row.milliseconds:9.2f}{row.forwards:10.2f}{limit:>8}{verdict:4}{factor:>12}{row.peak_mib:10.1f}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument(
        "--shape",
        action="append",
        metavar="B,C,H,W",
        help="a latent shape; repeatable; default: the paper's and the embedded model's",
    )
    parser.add_argument(
        "--no-textbook", action="store_true", help="skip the textbook form, which takes most of the time"
    )
    parser.add_argument("--clock", choices=sorted(CLOCKS), default="wall")
    parser.add_argument(
        "--json", metavar="FILE", help="also write the rows here; - prints them instead of the table"
    )
    parser.add_argument("--check", action="store_true", help="exit with 1 if a limit is exceeded")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    shapes = [tuple(int(n) for n in text.split(",")) for text in options.shape or []] or list(SHAPES)
    quiet, rows = options.json == "-", []
    for shape in shapes:
        repeats = options.repeats * (1 if math.prod(shape[2:]) > 1024 else 4)  # short runs are noisier
        here = benchmark(shape, repeats, not options.no_textbook, CLOCKS[options.clock])
        rows += here
        if not quiet:
            how = f"{options.threads} threads, {repeats} repeats, {options.clock} time"
            print(f"\nlatent {'×'.join(map(str, shape[1:]))}, batch {shape[0]}, {how}")
            show(here)
    conditions = {
        "torch": torch.__version__,
        "machine": platform.machine(),
        "threads": options.threads,
        "repeats": options.repeats,
        "clock": options.clock,
    }
    result = {"conditions": conditions, "rows": [asdict(row) | {"ok": row.ok} for row in rows]}
    if quiet:
        print(json.dumps(result, indent=2, ensure_ascii=False))
    elif options.json:
        write_json(options.json, result)
    return int(options.check and not all(row.ok for row in rows))


if __name__ == "__main__":
    sys.exit(main())
