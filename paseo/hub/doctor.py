"""Why does it not run? Checks of the machine and of one model, each with its finding and the way out.

for check in diagnose("stabilityai/stable-diffusion-3.5-medium"):
    print(check)
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

import torch

from paseo.errors import PaseoError
from paseo.files import is_folder
from paseo.hub.attention import available, chosen_by_torch
from paseo.hub.device import pick_device, pick_dtype
from paseo.hub.family import FAMILIES, SDXL, ModelFamily, family_of
from paseo.hub.folder import components, faults, parameter_bytes, read_index, resolve
from paseo.memory import memory

Status = Literal["ok", "note", "fault"]
GIB = 2**30
_WORKING = {
    "sd": 1.0,
    "sdxl": 2.5,
    "sd3": 1.5,
}  # GiB, a rough allowance for activations at 512×512 (SDXL: 1024)


@dataclass(frozen=True)
class Check:
    """One finding."""

    name: str
    status: Status
    detail: str
    way_out: str = ""

    def __str__(self) -> str:
        mark = {"ok": "ok   ", "note": "note ", "fault": "FAULT"}[self.status]
        return f"{mark} {self.name}: {self.detail}" + (f"\n      → {self.way_out}" if self.way_out else "")

    def as_json(self) -> dict[str, str]:
        return {key: str(value) for key, value in asdict(self).items()}


def diagnose(
    model: str | Path | None = None, *, device: str = "auto", dtype: str | None = None
) -> list[Check]:
    """Everything worth knowing about this machine and, if given, about a diffusers model; never raises."""
    checks = [*_machine(device, dtype)]
    if model is not None:
        checks += _model(model, device, dtype)
    return checks


def _machine(device: str, dtype: str | None) -> Iterator[Check]:
    versions = ", ".join(
        f"{name} {_version(name)}" for name in ("torch", "diffusers", "transformers", "accelerate")
    )
    yield Check("versions", "ok", f"Python {platform.python_version()}, {versions}")
    if (vision := _version("torchvision")) != "absent":
        yield Check(
            "torchvision",
            "note",
            f"{vision} is installed. It is not needed, and one that does not match torch breaks diffusers.",
        )
    try:
        place = pick_device(device)
    except PaseoError as error:
        yield Check("device", "fault", str(error))
        return
    name = (
        torch.cuda.get_device_name(place)
        if place.type == "cuda"
        else platform.processor() or platform.machine()
    )
    yield Check(
        "device", "ok", f"{place} ({name}), network in {str(pick_dtype(dtype, place)).removeprefix('torch.')}"
    )
    free, total = memory(place)
    yield Check("memory", "ok", f"{free / GIB:.1f} of {total / GIB:.1f} GiB free on {place}")
    kernels, chosen = (
        available(place, pick_dtype(dtype, place)),
        chosen_by_torch(place, pick_dtype(dtype, place)),
    )
    yield Check(
        "attention",
        "ok" if kernels else "fault",
        f"in use: {chosen}; kernels that run here: {', '.join(kernels) or 'none'}",
    )
    offline = [
        name
        for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
        if os.environ.get(name, "0").upper() not in ("", "0", "NO", "FALSE")
    ]
    if offline:
        yield Check(
            "hub", "note", f"{' and '.join(offline)} set: models come from folders and the cache only."
        )


def _model(model: str | Path, device: str, dtype: str | None) -> Iterator[Check]:
    try:
        folder = resolve(model)
        index = read_index(folder)
        found = faults(folder)
    except PaseoError as error:
        yield Check("model", "fault", str(error))
        return
    yield Check("model", "ok", f"{model} is at {folder}")
    for fault in found:
        again = "Copy the folder again." if is_folder(model) else f"Download it again: `hf download {model}`."
        yield Check("files", "fault", fault, again)
    try:
        family = family_of({k: v[1] for k, v in components(index).items()}, str(model))
        place = pick_device(device)
    except PaseoError as error:
        yield Check("family", "fault", str(error))
        return
    yield Check("family", "ok", f"{family.name}, {index.get('_class_name', 'unnamed pipeline')}")
    if not found:
        yield _fit(folder, family, index, place, dtype)


def _fit(
    folder: Path, family: ModelFamily, index: dict[str, object], place: torch.device, dtype: str | None
) -> Check:
    """Does it fit? The text encoders and the denoiser are never in memory together."""
    element = torch.empty(0, dtype=pick_dtype(dtype, place)).element_size()
    text = sum(
        parameter_bytes(folder / name, element)
        for name in components(index)
        if name in family.text and "encoder" in name
    )
    network = parameter_bytes(folder / family.network, element)
    vae = parameter_bytes(folder / "vae", 4)
    needed = max(text, network) + vae + int(_WORKING[family.name] * GIB)
    free, _ = memory(place)
    side = 1024 if family is SDXL else 512
    parts = f"denoiser {network / GIB:.1f}, text encoders {text / GIB:.1f}, autoencoder {vae / GIB:.1f}"
    detail = f"about {needed / GIB:.1f} GiB at {side}×{side} ({parts})"
    if needed <= free:
        return Check("fits", "ok", f"{detail}, {free / GIB:.1f} free")
    hints = ["use dtype bf16"] if element == 4 else []
    hints += ["leave T5 out (t5=False)"] if family is FAMILIES["sd3"] and text > network else []
    hints += ["turn CPU offload on"] if place.type != "cpu" else []
    return Check(
        "fits",
        "fault",
        f"{detail}, only {free / GIB:.1f} free",
        f"{'; '.join([*hints, 'or take a smaller model'])}.".capitalize(),
    )


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "absent"
