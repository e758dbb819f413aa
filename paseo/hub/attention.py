"""Which attention kernel runs: a choice for machines where the default is wrong or too large (ROCm, old GPUs,
long sequences).

All networks of the Stable Diffusion family end in torch's scaled_dot_product_attention, so one context serves
them all.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Literal, get_args

import torch
import torch.nn.functional as F

from paseo.errors import BadInput, Unsupported

Backend = Literal["auto", "math", "flash", "efficient", "cudnn"]
_KERNELS = {
    "math": "MATH",
    "flash": "FLASH_ATTENTION",
    "efficient": "EFFICIENT_ATTENTION",
    "cudnn": "CUDNN_ATTENTION",
}


def attention(backend: Backend) -> Callable[[], AbstractContextManager]:
    """A context for network calls in which attention uses this kernel alone; "auto" leaves the choice to
    torch.
    """
    if backend not in get_args(Backend):
        raise BadInput(f"attention={backend!r} is not one of {', '.join(get_args(Backend))}.")
    return nullcontext if backend == "auto" else lambda: _only(backend)


@contextmanager
def _only(backend: Backend) -> Generator[None]:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    try:
        with sdpa_kernel(getattr(SDPBackend, _KERNELS[backend])):
            yield
    except RuntimeError as error:
        if "No available kernel" not in str(error):
            raise
        raise Unsupported(
            f"The attention kernel {backend!r} cannot run here (device, dtype or head size). Try 'math' or "
            "'auto'."
        ) from error


def available(device: torch.device | str, dtype: torch.dtype = torch.float32) -> list[Backend]:
    """The kernels that really run on this device, tried on a small problem."""
    q = torch.zeros(1, 2, 16, 32, device=device, dtype=dtype)
    found: list[Backend] = []
    for backend in get_args(Backend)[1:]:
        try:
            with torch.no_grad(), warnings.catch_warnings(action="ignore"), attention(backend)():
                F.scaled_dot_product_attention(q, q, q)
        except (Unsupported, RuntimeError):
            continue
        found.append(backend)
    return found


def chosen_by_torch(device: torch.device | str, dtype: torch.dtype = torch.float32) -> str:
    """The kernel that "auto" means here, by torch's own choice for a small problem."""
    from torch.nn.attention import SDPBackend

    q = torch.zeros(1, 2, 16, 32, device=device, dtype=dtype)
    ask = getattr(torch, "_fused_sdp_choice", None)  # not public, hence looked up with care
    number = None if ask is None else ask(q, q, q)
    names = {int(getattr(SDPBackend, kernel)): name for name, kernel in _KERNELS.items()}
    return "unknown" if number is None else names.get(int(number), "unknown")
