"""How much memory a restoration takes, and the windows that keep it within what there is.

Float32 bytes per latent cell and image, measured as peak resident memory on latents of 64² and 128² cells:

    denoiser   20.9 maps of its first width     7.8 KiB for (96, 192, 256); activations are freed on the way
    codec      7 maps of its finest level       13.8 KiB for 32 channels at half the picture's resolution
    operator   18.4 KiB linearised, kept while a correction is solved
    canvas     8 KiB: the sampler's latents and the pictures in float32

The three networks never run at the same time, so the largest counts. A part that does not state its
`cell_bytes` (diffusers models) is not estimated, and is put into windows only if they are asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch

from paseo.base import Codec, LatentOperator, LocalOperator, Prior, Problem, Sees, Sized
from paseo.codecs.windows import WindowedCodec
from paseo.errors import BadInput, OutOfMemory
from paseo.operators.windows import WindowedOperator
from paseo.priors.windows import WindowedPrior
from paseo.windows import Cover, Windows

KIB, GIB = 2**10, 2**30
CANVAS_BYTES = 8 * KIB  # per cell and image, whatever is cut into windows
OPERATOR_BYTES = 19 * KIB  # per cell and image, while an operator is linearised
SHARE = 0.5  # of the free memory is planned with: others use the machine too
SIDES = range(128, 63, -16)  # sides of windows that are tried, in cells: a larger one repeats less

Choice = Windows | Literal["auto", "off"]


def read_choice(text: str) -> Choice:
    """auto, off, SIDE or SIDE,HALO,BLEND (latent cells), as typed."""
    if text == "auto" or text == "off":
        return text
    numbers = text.split(",")
    if len(numbers) not in (1, 3) or not all(number.isdecimal() for number in numbers):
        raise BadInput(
            f"windows={text!r}: expected auto, off, or SIDE or SIDE,HALO,BLEND in latent cells, such as 96 "
            "or 96,8,8."
        )
    return Windows(*map(int, numbers))


@dataclass(frozen=True, eq=False)
class Tiling:
    """What a restoration's parts are wrapped with; without windows nothing is."""

    cover: Cover | None = None
    keep: bool = True  # the linearisations of all windows fit

    @property
    def windows(self) -> Windows | None:
        return self.cover.windows if self.cover else None

    def prior(self, prior: Prior) -> Prior:
        return WindowedPrior(prior, self.cover) if self.cover and not _sees_all(prior) else prior

    def codec(self, codec: Codec) -> Codec:
        return WindowedCodec(codec, self.cover) if self.cover else codec

    def problem(self, problem: Problem) -> Problem:
        """With its operator in windows, if it is one that can be cut."""
        if self.cover is None or not isinstance(problem.operator, LocalOperator):
            return problem
        return replace(problem, operator=WindowedOperator(problem.operator, self.cover, self.keep))


def tiling(
    prior: Prior,
    codec: Codec,
    operator: LatentOperator | object,
    canvas: tuple[int, int],
    images: int = 1,
    *,
    choice: Choice = "auto",
    grain: int = 1,
    free: int | None = None,
    device: torch.device | str = "cpu",
) -> Tiling:
    """The decision for a latent canvas of (h, w) cells: no windows where the whole fits, else the largest
    that do.

    `free` is the memory at hand in bytes, asked from the machine (of the device that computes) unless given.
    """
    if choice == "off":
        return Tiling()
    free = free_memory(device) if free is None else free
    peak = _peak(prior, codec, operator)
    if isinstance(choice, Windows):
        cover = Cover(canvas, choice, grain)
        return Tiling(cover, _keeps(cover, images, operator, free)) if len(cover.areas) > 1 else Tiling()
    if peak is None:
        return Tiling()
    cells = canvas[0] * canvas[1] * images
    budget = int(SHARE * free)
    if cells * (CANVAS_BYTES + peak) <= budget:
        return Tiling()
    room = budget - cells * CANVAS_BYTES - (cells * _bytes(prior) if _sees_all(prior) else 0)
    for side in SIDES:
        if side * side * images * peak <= room:
            cover = Cover(canvas, Windows(side), grain)
            return Tiling(cover, _keeps(cover, images, operator, free))
    raise OutOfMemory(_too_large(canvas, codec.factor, images, cells, peak, budget, _sees_all(prior)))


def rows_that_fit(
    prior: Prior, codec: Codec, cells: int, device: torch.device, free: int | None = None
) -> int:
    """How many images of so many latent cells can be computed at the same time; 1 where it is not known."""
    peak = _peak(prior, codec)
    if peak is None:
        return 1
    peak = max(peak, OPERATOR_BYTES)
    budget = SHARE * (free_memory(device) if free is None else free)
    return max(1, int(budget // (cells * (CANVAS_BYTES + peak))))


def _too_large(
    canvas: tuple[int, int], factor: int, images: int, cells: int, peak: int, budget: int, sees_all: bool
) -> str:
    """What does not fit, and what really needs less."""
    needed = cells * CANVAS_BYTES + SIDES[-1] ** 2 * images * peak
    ways = ["crop the picture or take a smaller factor"]
    if images > 1:
        ways.append("give fewer seeds or images at a time")
    if sees_all:
        needed = cells * (CANVAS_BYTES + peak)
        ways.append("use a model that works in windows, such as photos")
    return (
        f"A picture of {canvas[0] * factor}×{canvas[1] * factor} needs about {needed / GIB:.1f} GiB "
        f"for {images} "
        f"image{'s' if images > 1 else ''}, and {budget / GIB:.1f} GiB are planned with (half of what "
        "is free). "
        f"Close other programs, {', or '.join(ways)}."
    )


def _keeps(cover: Cover, images: int, operator: object, free: int) -> bool:
    """Do the linearisations of all windows fit?"""
    if not isinstance(operator, Sized):
        return True
    cells = len(cover.areas) * cover.sides[0] * cover.sides[1] * images
    return cells * operator.cell_bytes <= SHARE * free / 2


def _peak(*parts: object) -> int | None:
    """Bytes per cell of the largest part, None if one does not tell."""
    known = [p.cell_bytes for p in parts if isinstance(p, Sized)]
    return max(known) if isinstance(parts[0], Sized) and isinstance(parts[1], Sized) else None


def _bytes(part: object) -> int:
    return part.cell_bytes if isinstance(part, Sized) else 0


def _sees_all(prior: Prior) -> bool:
    """Does the network look at the whole picture, so that a window would show it something else?"""
    return isinstance(prior, Sees) and prior.receptive_field is None


def free_memory(device: torch.device | str = "cpu") -> int:
    """Free bytes of the accelerator, or of main memory."""
    return memory(torch.device(device))[0]


def memory(device: torch.device) -> tuple[int, int]:
    """(free, total) bytes of the accelerator, or of main memory."""
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        return int(free), int(total)
    import psutil  # comes with accelerate

    main = psutil.virtual_memory()
    limit = _container_limit() or int(main.total)
    used = int(psutil.Process().memory_info().rss) if limit < main.total else 0
    return min(int(main.available), limit - used), min(int(main.total), limit)


def _container_limit() -> int | None:
    """The memory a container may use, where it is less than the machine's."""
    try:
        text = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
