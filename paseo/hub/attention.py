"""Which attention kernel runs: a choice for machines where the default is wrong or too large (ROCm, old GPUs,
long sequences).

All networks of the Stable Diffusion family end in torch's scaled_dot_product_attention, so one context serves
them all.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

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
        with sdpa_kernel(SDPBackend.__members__[_KERNELS[backend]]):
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


def used_by(call: Callable[[], object]) -> str:
    """The kernel that a network's call really takes, by the operations torch runs; "none" without attention.

    The choice depends on sizes, layout and dtype, so nothing but the call itself can tell.
    """
    with torch.no_grad(), _Operations() as seen:
        call()
    fused = [name for name in seen.names if "scaled_dot_product" in name]
    for kernel in ("flash", "efficient", "cudnn"):
        if any(kernel in name for name in fused):
            return kernel
    return "math" if any("softmax" in name for name in seen.names) else "none"


class _Operations(TorchDispatchMode):
    """Names of the operations that run."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.names.add(str(func))
        return func(*args, **(kwargs or {}))


def chosen_by_torch(device: torch.device | str, dtype: torch.dtype = torch.float32) -> str:
    """The kernel that "auto" means here for diffusers' networks: tried on a small problem in their layout."""
    q = torch.zeros(1, 16, 2, 32, device=device, dtype=dtype).transpose(1, 2)
    return used_by(lambda: F.scaled_dot_product_attention(q, q, q))
