"""`paseo bench cost`: seconds and memory of PASEO at full size, against the denoiser calls it makes anyway."""

from __future__ import annotations

from typing import Annotated

import typer

from paseo.commands.shared import JsonOption, emit, say


def cost(
    arch: Annotated[str, typer.Option(help="sd15, sd35, or tiny-sd15, tiny-sd35 to try the command.")] = "sd15",
    tasks: Annotated[list[str] | None, typer.Option("--task", "-t", help="Only these tasks; may be given several times.")] = None,
    steps: Annotated[int, typer.Option(min=3, help="Time points to run; each task makes 2·steps − 3 denoiser calls.")] = 4,
    side: Annotated[int | None, typer.Option(help="Side of the image in pixels; 512 at full size.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, mps.")] = "auto",
    dtype: Annotated[str | None, typer.Option(help="Precision of the network: fp32, bf16, fp16.")] = None,
    clock: Annotated[str, typer.Option(help="wall, or cpu: the process's own seconds, for a machine that is shared.")] = "wall",
    json: JsonOption = None,
) -> None:
    """Measure full-size networks with random weights: denoiser call, correction, encode, decode, peak memory.

    \b
      paseo bench cost --arch sd15                      Stable Diffusion 1.5, 512×512, the paper's settings of five tasks
      paseo bench cost --arch sd35 --steps 3 -t sr4     Stable Diffusion 3.5 medium, one task, three denoiser calls
    """
    from paseo.bench.cost import TASKS, measure_cost

    report = measure_cost(arch, tasks=tasks or TASKS, steps=steps, side=side, dtype=dtype, device=device, clock=clock, say=say)  # ty: ignore[invalid-argument-type]
    emit(json, report.as_json(), report.text())
