"""`paseo doctor`: what is installed, what the machine offers, which weights are found."""

from __future__ import annotations

import importlib.util
import os
from typing import Any

import typer

from paseo.commands.shared import JsonOption, emit


def doctor(json: JsonOption = None) -> None:
    """Show versions, threads, memory, devices and the weights that are found; say what is wrong. Exit code 1 if something is."""
    report = examine()
    lines = [f"{key:<11}{value}" for key, value in _lines(report)]
    lines += [f"problem    {problem}" for problem in report["problems"]] or ["all well"]
    emit(json, report, "\n".join(lines))
    raise typer.Exit(1 if report["problems"] else 0)


def examine() -> dict[str, Any]:
    import torch

    from paseo.models import available, load_model
    from paseo.record import environment

    problems: list[str] = []
    if importlib.util.find_spec("torchvision") is not None:
        problems.append("torchvision is installed; beside a CPU build of torch it breaks diffusers and transformers. Uninstall it.")
    models: dict[str, list[str]] = {}
    for name in available():
        try:
            models[name] = load_model(name).tasks
        except Exception as error:  # the doctor reports, whatever it is
            problems.append(f"the model {name} does not load: {error}")
    if not models:
        problems.append("no embedded model is found; reinstall the package.")
    return {
        **environment(),
        "cores": os.cpu_count(),
        "memory_gb": _memory(),
        "devices": _devices(torch),
        "models": models,
        "lpips": _lpips(problems),
        "problems": problems,
    }


def _lines(report: dict[str, Any]) -> list[tuple[str, str]]:
    memory = report["memory_gb"]
    return [
        ("versions", ", ".join(f"{k} {v}" for k, v in report["versions"].items())),
        ("platform", report["platform"]),
        ("threads", f"{report['threads']} of {report['cores']} cores (OMP_NUM_THREADS changes it)"),
        ("memory", f"{memory['available']:.1f} of {memory['total']:.1f} GB free" if memory else "unknown"),
        ("devices", ", ".join(report["devices"])),
        ("models", "; ".join(f"{name}: {', '.join(tasks) or 'no operators'}" for name, tasks in report["models"].items()) or "none"),
        ("LPIPS", "weights found" if report["lpips"] else "no weights"),
    ]


def _memory() -> dict[str, float] | None:
    try:
        page = os.sysconf("SC_PAGE_SIZE")
        return {key: os.sysconf(name) * page / 1e9 for key, name in (("total", "SC_PHYS_PAGES"), ("available", "SC_AVPHYS_PAGES"))}
    except (AttributeError, ValueError, OSError):
        return None


def _devices(torch: Any) -> list[str]:
    found = [f"cuda:{i} {torch.cuda.get_device_name(i)}" for i in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    return found + (["mps"] if torch.backends.mps.is_available() else []) + ["cpu"]


def _lpips(problems: list[str]) -> bool:
    """Whether the distance can be computed: the weight files are there and are the published ones."""
    from paseo.errors import PaseoError
    from paseo.metrics.lpips import load_lpips

    try:
        load_lpips("alex")
    except (PaseoError, RuntimeError) as error:
        problems.append(f"LPIPS: {error}")
        return False
    return True
