"""Where and in which precision a network runs: "auto" takes an accelerator and half precision if there is
one.
"""

from __future__ import annotations

import torch

from paseo.errors import BadInput

DTYPES = {
    "float32": torch.float32,
    "fp32": torch.float32,
    "bfloat16": torch.bfloat16,
    "bf16": torch.bfloat16,
    "float16": torch.float16,
    "fp16": torch.float16,
}


def pick_device(device: str | torch.device = "auto") -> torch.device:
    """CUDA or ROCm, then Apple's MPS, then the CPU; a device that is asked for must be there."""
    cuda, mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    if str(device) == "auto":
        found = [name for name, there in (("cuda", cuda), ("mps", mps)) if there]
        return torch.device(found[0] if found else "cpu")
    try:
        chosen = torch.device(device)
    except RuntimeError:
        raise BadInput(f"device={device!r} is not known: auto, cpu, cuda, cuda:1, mps.") from None
    if (chosen.type == "cuda" and not cuda) or (chosen.type == "mps" and not mps):
        raise BadInput(f"device={device} is not available on this machine. Use device='auto' or 'cpu'.")
    return chosen


def cpu_multiplies_bf16() -> bool:
    """avx512_bf16 or AMX: elsewhere bfloat16 on the CPU is emulated and slower than float32."""
    probes = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")  # not public, hence looked up with care
    return any(bool(getattr(torch.cpu, name, bool)()) for name in probes)


def pick_dtype(dtype: str | torch.dtype | None, device: torch.device) -> torch.dtype:
    """bfloat16 on accelerators that have it, else float16 there, float32 on the CPU; or as asked."""
    if isinstance(dtype, torch.dtype):
        return dtype
    if dtype is not None and dtype != "auto":
        if dtype not in DTYPES:
            raise BadInput(f"dtype={dtype!r} is not one of auto, {', '.join(DTYPES)}.")
        return DTYPES[dtype]
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16
    return torch.float16 if device.type == "mps" else torch.float32
