"""`paseo doctor`: what is installed, what the machine offers, which weights are found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from paseo.apps.console import JsonOption, emit

if TYPE_CHECKING:
    from paseo.hub.doctor import Check
    from paseo.models import Model

LARGE = 576  # pixels: the smallest square at which the faces prior takes the fused kernel


def doctor(
    model: Annotated[
        str | None,
        typer.Argument(help="Also look at this model: a folder or a name on the Hugging Face hub."),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, mps.")] = "auto",
    dtype: Annotated[str | None, typer.Option(help="Precision of the network: fp32, bf16, fp16.")] = None,
    tune: Annotated[
        bool, typer.Option("--tune", help="Measure which precision and layout is fastest on this machine.")
    ] = False,
    json: JsonOption = None,
) -> None:
    """Show versions, devices, memory and the weights that are found; say what is wrong and the way out.

    \b
      paseo doctor
      paseo doctor --tune
      paseo doctor stabilityai/stable-diffusion-3.5-medium --device cpu

    The exit code is 1 if something is wrong.
    """
    from paseo.hub.doctor import diagnose
    from paseo.models import available
    from paseo.record import environment

    outside = model if model is not None and model not in available() else None
    checks = [*diagnose(outside, device=device, dtype=dtype), *_threads(), *_embedded(), *_lpips()]
    checks += [*_tuned(device)] if tune else []
    faults = sum(c.status == "fault" for c in checks)
    summary = f"{faults} fault{'s' if faults > 1 else ''}" if faults else "all well"
    emit(
        json,
        {**environment(), "checks": [c.as_json() for c in checks], "faults": faults},
        "\n".join([*map(str, checks), summary]),
    )
    raise typer.Exit(1 if faults else 0)


def _threads() -> Iterator[Check]:
    import os

    import torch

    from paseo.hub.doctor import Check

    yield Check(
        "threads",
        "ok",
        f"{torch.get_num_threads()} for {os.cpu_count()} cores (the variable OMP_NUM_THREADS changes it)",
    )


def _embedded() -> Iterator[Check]:
    """Every embedded model with every operator, loaded and so checked."""
    from paseo.hub.doctor import Check
    from paseo.models import available, load_model

    again = "Reinstall the package."
    if not available():
        yield Check("embedded", "fault", "no embedded model is found", again)
    for name in available():
        try:
            model = load_model(name)
            for task in model.tasks:
                model.operator(task)
        except Exception as error:  # whatever it is, the doctor reports it
            yield Check("embedded", "fault", f"{name} does not load: {error}", again)
        else:
            yield Check("embedded", "ok", f"{name} with operators for {', '.join(model.tasks) or 'no task'}")
            yield _attention(model)


def _tuned(device: str) -> Iterator[Check]:
    """Times of every embedded model in every precision and layout."""
    from paseo.apps.tuning import advice, tune
    from paseo.hub.doctor import Check
    from paseo.models import available

    for name in available():
        ways = tune(name, device)
        times = ", ".join(f"{way.options} {1000 * way.seconds:.0f} ms" for way in ways)
        yield Check("tuned", "ok", f"{name}: {times}. {advice(ways)}")


def _attention(model: Model) -> Check:
    """Which attention kernel the prior's own calls take, at its own size and at a large one."""
    import torch

    from paseo.hub.attention import used_by
    from paseo.hub.doctor import Check

    def kernel(pixels: int) -> str:
        x = torch.zeros(1, model.latent_channels, pixels // model.codec.factor, pixels // model.codec.factor)
        return used_by(lambda: model.prior.x0(x, 0.5))

    small, large = kernel(model.size), kernel(LARGE)
    detail = f"{model.name} uses {small} at {model.size} pixels, {large} at {LARGE}"
    if large == "math":
        return Check("attention", "note", detail, "Large pictures will need much memory: crop or scale them.")
    return Check("attention", "ok", detail)


def _lpips() -> Iterator[Check]:
    from paseo.errors import PaseoError
    from paseo.hub.doctor import Check
    from paseo.metrics.lpips import load_lpips

    try:
        load_lpips("alex")
    except PaseoError as error:
        yield Check("LPIPS", "note", str(error))
    else:
        yield Check("LPIPS", "ok", "weights found")
