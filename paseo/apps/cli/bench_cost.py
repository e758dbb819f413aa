"""`paseo bench cost`: seconds and memory of PASEO at full size, beside its denoiser calls."""

from __future__ import annotations

from typing import Annotated

import typer

from paseo.apps.console import JsonOption, emit, say


def cost(
    arch: Annotated[
        str,
        typer.Option(help="sd15, sd35; tiny-sd15, tiny-sd35 to try the command; embedded, with --methods."),
    ] = "sd15",
    tasks: Annotated[
        list[str] | None, typer.Option("--task", "-t", help="Only these tasks; may be given several times.")
    ] = None,
    methods: Annotated[
        str | None, typer.Option(help="Compare methods on inpainting instead: names with commas, or all.")
    ] = None,
    steps: Annotated[
        int,
        typer.Option(min=1, help="Time points to run, 2·steps − 3 denoiser calls; with --methods, steps."),
    ] = 4,
    side: Annotated[int | None, typer.Option(help="Side of the image in pixels; 512 at full size.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, mps.")] = "auto",
    dtype: Annotated[str | None, typer.Option(help="Precision of the network: fp32, bf16, fp16.")] = None,
    clock: Annotated[
        str, typer.Option(help="wall, or cpu: the process's own seconds, for a machine that is shared.")
    ] = "wall",
    recall: Annotated[
        int, typer.Option(min=0, help="PASEO's `recall`; with --methods, a row more beside the one without.")
    ] = 0,
    json: JsonOption = None,
) -> None:
    """Measure full-size networks with random weights: denoiser call, correction, encode, decode, peak memory.

    \b
      paseo bench cost --arch sd15                     Stable Diffusion 1.5, 512×512, five tasks
      paseo bench cost --arch sd35 --steps 3 -t sr4    Stable Diffusion 3.5 medium, one task, three calls
      paseo bench cost --arch embedded --methods all   every method on the embedded model's networks, per step
      paseo bench cost --arch embedded --methods paseo --recall 4 --steps 26   what remembering costs

    With --methods, two memories are shown: the peak of what is allocated, and what autograd keeps for the
    backward pass.
    """
    if methods is not None:
        from paseo.lab.cost.rigs import cost_of_methods
        from paseo.samplers import METHODS

        names = (
            list(METHODS)
            if methods == "all"
            else [name.strip() for name in methods.split(",") if name.strip()]
        )
        found = cost_of_methods(
            arch, names=names, steps=steps, side=side, dtype=dtype, device=device, recall=recall, say=say
        )
        emit(json, {"arch": arch, **found.as_json()}, f"{arch}, {found.text()}")
        return
    from paseo.lab.cost.cost import TASKS, measure_cost

    report = measure_cost(
        arch,  # ty: ignore[invalid-argument-type]  (checked there)
        tasks=tasks or TASKS,
        steps=steps,
        side=side,
        dtype=dtype,
        device=device,
        clock=clock,
        recall=recall,
        say=say,
    )
    emit(json, report.as_json(), report.text())
