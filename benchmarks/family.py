"""What must hold over the family: every degradation of the list, restored and as it was measured.

    python benchmarks/family.py --data photos-256/test.tar --count 4 --out out/family
    python benchmarks/family.py --model faces-128 --operator runs/family --data FACES --out out/faces

JPEG, blur, motion and down-sampling through the model's operator for the family (or `--operator`), and ten
masks from thin scratches to half the picture, all as the doors restore them. Beside it stand the measurement
itself, brought to the picture's size, and the operator that was trained for that very degradation, where the
model has one. A row is met if

    LPIPS   is lower than the measurement's where that is above 0.05, and never higher by more than 0.005
    PSNR    of a JPEG of quality 35 or more is at most 1 dB below the measurement's
    LPIPS   is at most 3 % above that of the dedicated operator

Every row is kept when it is done; a second call goes on where the first one ended.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor
from tqdm import tqdm

import paseo
from paseo.degrade import Mask
from paseo.files import read_json, write_json, write_text
from paseo.lab.bench.pictures import Truth, load_pictures, stack
from paseo.lab.bench.scores import eight_bit
from paseo.lab.bench.setup import Setup
from paseo.metrics import lpips, psnr
from paseo.models import stored_operator
from paseo.recipe.family import FAMILY, serving

NAMES = (
    *(f"jpeg:{quality}" for quality in (5, 10, 20, 35, 50, 75)),
    *(f"blur:{width}" for width in ("0.7", "1", "2", "3", "4.5", "4x1@30")),
    "motion:15@45",
    *(f"sr:{factor}" for factor in (2, 3, 4, 6, 8)),
    "inpaint",
)
VISIBLE, SLACK, DECIBEL, LIKE = 0.05, 0.005, 1.0, 1.03


@dataclass(frozen=True)
class Row:
    """Means over the pictures of one degradation."""

    name: str
    measured_lpips: float
    measured_psnr: float
    lpips: float
    psnr: float
    dedicated_lpips: float | None  # None: the model has no operator for it alone
    cpu_seconds: float  # per picture

    @property
    def missed(self) -> list[str]:
        """What does not hold, in words."""
        found = []
        if self.measured_lpips > VISIBLE and self.lpips >= self.measured_lpips:
            found.append("not better than the measurement")
        elif self.lpips > self.measured_lpips + SLACK:
            found.append(f"LPIPS {self.lpips - self.measured_lpips:.4f} above the measurement")
        kind, _, number = self.name.partition(":")
        if kind == "jpeg" and int(number) >= 35 and self.psnr < self.measured_psnr - DECIBEL:
            found.append(f"PSNR {self.measured_psnr - self.psnr:.1f} dB below the measurement")
        if self.dedicated_lpips is not None and self.lpips > LIKE * self.dedicated_lpips:
            found.append(f"LPIPS {100 * (self.lpips / self.dedicated_lpips - 1):.0f} % above the dedicated")
        return found

    def line(self) -> str:
        """As a row of a Markdown table."""
        own = "–" if self.dedicated_lpips is None else f"{self.dedicated_lpips:.4f}"
        held = f"missed: {', '.join(self.missed)}" if self.missed else "met"
        numbers = [f"{self.measured_lpips:.4f}", f"{self.lpips:.4f}", own]
        numbers += [f"{self.measured_psnr:.2f}", f"{self.psnr:.2f}", held]
        return f"| `{self.name}` | {' | '.join(numbers)} |"


HEADER = (
    "| | LPIPS, measured | restored | dedicated | PSNR, measured | restored | must hold |\n"
    "|---|---:|---:|---:|---:|---:|---|"
)


# ----------------------------------------------------------------------------------------------- masks


def scratches(count: int, width: int) -> Callable[[int], Tensor]:
    """Straight lines across the picture, `width` pixels wide."""

    def hole(side: int) -> Tensor:
        rng = torch.Generator().manual_seed(count)
        y, x = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
        covered = torch.zeros(side, side, dtype=torch.bool)
        for turn, place in torch.rand(count, 2, generator=rng).tolist():
            angle = math.pi * turn
            along = (x - side / 2) * math.cos(angle) + (y - side / 2) * math.sin(angle)
            covered |= (along - side * (place - 0.5) * 0.8).abs() <= width / 2
        return covered

    return hole


def spots(share: float, radius: float) -> Callable[[int], Tensor]:
    """Discs of a radius (as a share of the side) until that share of the picture is covered."""

    def hole(side: int) -> Tensor:
        rng = torch.Generator().manual_seed(round(1000 * share))
        y, x = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
        covered = torch.zeros(side, side, dtype=torch.bool)
        while covered.double().mean() < share:
            row, column = (side * torch.rand(2, generator=rng)).tolist()
            covered |= (y - row).square() + (x - column).square() <= (radius * side) ** 2
        return covered

    return hole


def area(top: float, bottom: float, left: float, right: float) -> Callable[[int], Tensor]:
    """A rectangle, in shares of the side."""

    def hole(side: int) -> Tensor:
        covered = torch.zeros(side, side, dtype=torch.bool)
        covered[round(top * side) : round(bottom * side), round(left * side) : round(right * side)] = True
        return covered

    return hole


MASKS: dict[str, Callable[[int], Tensor]] = {  # the hole of a square picture
    "mask: 3 scratches of 1 px": scratches(3, 1),
    "mask: 8 scratches of 1 px": scratches(8, 1),
    "mask: 4 scratches of 3 px": scratches(4, 3),
    "mask: 6 scratches of 5 px": scratches(6, 5),
    "mask: small spots, 5 %": spots(0.05, 0.02),
    "mask: spots, 15 %": spots(0.15, 0.05),
    "mask: large spots, 30 %": spots(0.30, 0.12),
    "mask: a corner": area(0, 0.3, 0.7, 1),
    "mask: a band": area(0.4, 0.6, 0, 1),
    "mask: half the picture": area(0, 1, 0.5, 1),
}


# ------------------------------------------------------------------------------------------------ rows


def own_operator(model: str, setup: Setup) -> bool:
    """Whether the model has an operator for that degradation alone."""
    name = setup.recipe.operator.name  # "": the task's own, or none
    return not name.startswith(FAMILY) and stored_operator(model, name or setup.task.name) is not None


@dataclass(frozen=True)
class Bench:
    """A model, its operator for the family, and held-out pictures."""

    model: str
    operator: str | None  # a folder; None is the model's own
    pictures: list[Truth]
    only: tuple[str, ...] = ("",)  # rows whose names start so

    def rows(self, out: Path) -> Iterator[Row]:
        """All rows; those that lie in `out` are not computed again."""
        kept = out / "rows.json"
        known: dict[str, Row] = {}
        if kept.is_file():
            known = {entry["name"]: Row(**entry) for entry in read_json(kept)["rows"]}
        names = [name for name in (*NAMES, *MASKS) if name.startswith(self.only)]
        for name in tqdm(names, "degradations", disable=None):
            if name not in known:
                known[name] = self.masked(name) if name in MASKS else self.named(name)
                write_json(kept, {"rows": [asdict(row) for row in known.values()]})
            yield known[name]

    def named(self, name: str) -> Row:
        """A degradation by its name."""
        own = Setup(self.model, name)
        folder = self.operator or str(stored_operator(self.model, serving(self.model, own.task)) or "")
        family = Setup(self.model, name, operator_path=folder or None)
        dedicated = own if folder and own_operator(self.model, own) else None
        x, y = stack(self.pictures), family.measure(self.pictures)
        lifted = family.task.lift(2 * y - 1, self.pictures[0].size) / 2 + 0.5
        begin = time.process_time()
        images = family.draw(family.recipe.sampler, self.pictures).images
        seconds = (time.process_time() - begin) / len(x)
        other = None
        if dedicated is not None:
            other = dedicated.draw(dedicated.recipe.sampler, self.pictures).images
        return row(name, x, lifted, images, other, seconds)

    def masked(self, name: str) -> Row:
        """A mask, with the seen pixels copied as every door does."""
        x = stack(self.pictures)
        hole = MASKS[name](x.shape[-1]).to(torch.float32)
        y = x * Mask.from_hole(hole).observed + 0.5 * hole  # a grey hole
        begin = time.process_time()
        seeds = [p.seed("sample", 0) for p in self.pictures]
        images = [
            paseo.restore(one, model=self.model, operator=self.operator, mask=hole[None], seed=seed).images
            for one, seed in zip(y, seeds, strict=True)
        ]
        seconds = (time.process_time() - begin) / len(x)
        return row(name, x, y, torch.cat(images), None, seconds)


def row(name: str, x: Tensor, y: Tensor, images: Tensor, other: Tensor | None, seconds: float) -> Row:
    """The means of all pictures, each as a file would hold it."""

    def mean(metric: Callable[[Tensor, Tensor], Tensor], found: Tensor) -> float:
        return round(metric(eight_bit(found), x).mean().item(), 5)

    dedicated = None if other is None else mean(lpips, other)
    return Row(
        name,
        mean(lpips, y),
        mean(psnr, y),
        mean(lpips, images),
        mean(psnr, images),
        dedicated,
        round(seconds, 2),
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="photos")
    parser.add_argument("--operator", help="folder of a family's operator, instead of the model's own")
    parser.add_argument("--data", required=True, help="folder or tar of sharp pictures")
    parser.add_argument("--part", default="all", choices=("all", "validation", "test"))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=4)
    parser.add_argument("--size", type=int, default=128, help="centre squares are brought to this side")
    parser.add_argument("--only", default="", help="rows whose names start so, such as jpeg,sr:3,mask")
    parser.add_argument("--out", type=Path, required=True)
    o = parser.parse_args()
    torch.set_num_threads(1)
    o.out.mkdir(parents=True, exist_ok=True)
    pictures = load_pictures(o.data, o.part, o.first, o.count, o.size)
    rows = list(Bench(o.model, o.operator, pictures, tuple(o.only.split(","))).rows(o.out))
    missed = [found.name for found in rows if found.missed]
    table = "\n".join([HEADER, *(found.line() for found in rows)])
    end = f"{len(rows) - len(missed)} of {len(rows)} rows are met; {len(pictures)} pictures of {o.size} px."
    print(f"{table}\n\n{end}")
    write_text(o.out / "table.md", f"{table}\n\n{end}\n")


if __name__ == "__main__":
    main()
