"""The Inception network of FID and KID, for those who have its weights: (B,2048) pool features.

Szegedy et al., "Rethinking the Inception Architecture", CVPR 2016, in the variant of the 2015 TensorFlow
graph that FID is defined on: average pools that do not count their padding, and a max pool in the last block.
The weights are not part of the project. The file is the one FID tools use
(`pt_inception-2015-12-05-6726825d.pth`, or the same as safetensors), with the layers' usual names; a .pth is
opened for tensors alone. It passes the checks of all weights (`paseo.weights`): the SHA-256, where the file's
name ends with its beginning as the published one does, names, shapes, finite values.
"""

from __future__ import annotations

import hashlib
import io
import re
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from paseo.errors import MissingWeights
from paseo.weights import check_finite, check_shapes, damaged, read_weights

SIDE = 299
_NAMED_SUM = re.compile(r"-([0-9a-f]{8,64})\.(pth|safetensors)$")  # as torch's hub names its files


class Conv(nn.Module):
    """Convolution, batch norm, ReLU."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int | tuple[int, int] = 1,
        stride: int = 1,
        padding: int | tuple[int, int] = 0,
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False)
        self.bn = nn.BatchNorm2d(outputs, eps=0.001)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.bn(self.conv(x)))


def _average(x: Tensor) -> Tensor:
    return F.avg_pool2d(x, 3, 1, 1, count_include_pad=False)


class MixedA(nn.Module):
    def __init__(self, c: int, pool: int) -> None:
        super().__init__()
        self.branch1x1 = Conv(c, 64)
        self.branch5x5_1, self.branch5x5_2 = Conv(c, 48), Conv(48, 64, 5, padding=2)
        self.branch3x3dbl_1, self.branch3x3dbl_2, self.branch3x3dbl_3 = (
            Conv(c, 64),
            Conv(64, 96, 3, padding=1),
            Conv(96, 96, 3, padding=1),
        )
        self.branch_pool = Conv(c, pool)

    def forward(self, x: Tensor) -> Tensor:
        double = self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x)))
        return torch.cat(
            [self.branch1x1(x), self.branch5x5_2(self.branch5x5_1(x)), double, self.branch_pool(_average(x))],
            1,
        )


class MixedB(nn.Module):
    def __init__(self, c: int) -> None:
        super().__init__()
        self.branch3x3 = Conv(c, 384, 3, 2)
        self.branch3x3dbl_1, self.branch3x3dbl_2, self.branch3x3dbl_3 = (
            Conv(c, 64),
            Conv(64, 96, 3, padding=1),
            Conv(96, 96, 3, 2),
        )

    def forward(self, x: Tensor) -> Tensor:
        double = self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x)))
        return torch.cat([self.branch3x3(x), double, F.max_pool2d(x, 3, 2)], 1)


class MixedC(nn.Module):
    def __init__(self, c: int, width: int) -> None:
        super().__init__()
        row: dict[str, Any] = {"kernel": (1, 7), "padding": (0, 3)}
        column: dict[str, Any] = {"kernel": (7, 1), "padding": (3, 0)}
        self.branch1x1 = Conv(c, 192)
        self.branch7x7_1, self.branch7x7_2, self.branch7x7_3 = (
            Conv(c, width),
            Conv(width, width, **row),
            Conv(width, 192, **column),
        )
        self.branch7x7dbl_1, self.branch7x7dbl_2 = Conv(c, width), Conv(width, width, **column)
        self.branch7x7dbl_3, self.branch7x7dbl_4 = Conv(width, width, **row), Conv(width, width, **column)
        self.branch7x7dbl_5, self.branch_pool = Conv(width, 192, **row), Conv(c, 192)

    def forward(self, x: Tensor) -> Tensor:
        single = self.branch7x7_3(self.branch7x7_2(self.branch7x7_1(x)))
        double = self.branch7x7dbl_3(self.branch7x7dbl_2(self.branch7x7dbl_1(x)))
        double = self.branch7x7dbl_5(self.branch7x7dbl_4(double))
        return torch.cat([self.branch1x1(x), single, double, self.branch_pool(_average(x))], 1)


class MixedD(nn.Module):
    def __init__(self, c: int) -> None:
        super().__init__()
        self.branch3x3_1, self.branch3x3_2 = Conv(c, 192), Conv(192, 320, 3, 2)
        self.branch7x7x3_1, self.branch7x7x3_2 = Conv(c, 192), Conv(192, 192, (1, 7), padding=(0, 3))
        self.branch7x7x3_3, self.branch7x7x3_4 = Conv(192, 192, (7, 1), padding=(3, 0)), Conv(192, 192, 3, 2)

    def forward(self, x: Tensor) -> Tensor:
        long = self.branch7x7x3_4(self.branch7x7x3_3(self.branch7x7x3_2(self.branch7x7x3_1(x))))
        return torch.cat([self.branch3x3_2(self.branch3x3_1(x)), long, F.max_pool2d(x, 3, 2)], 1)


class MixedE(nn.Module):
    def __init__(self, c: int, last: bool) -> None:
        super().__init__()
        self.last = last  # pools by maximum
        row: dict[str, Any] = {"kernel": (1, 3), "padding": (0, 1)}
        column: dict[str, Any] = {"kernel": (3, 1), "padding": (1, 0)}
        self.branch1x1, self.branch_pool = Conv(c, 320), Conv(c, 192)
        self.branch3x3_1, self.branch3x3_2a, self.branch3x3_2b = (
            Conv(c, 384),
            Conv(384, 384, **row),
            Conv(384, 384, **column),
        )
        self.branch3x3dbl_1, self.branch3x3dbl_2 = Conv(c, 448), Conv(448, 384, 3, padding=1)
        self.branch3x3dbl_3a, self.branch3x3dbl_3b = Conv(384, 384, **row), Conv(384, 384, **column)

    def forward(self, x: Tensor) -> Tensor:
        single, double = self.branch3x3_1(x), self.branch3x3dbl_2(self.branch3x3dbl_1(x))
        pooled = F.max_pool2d(x, 3, 1, 1) if self.last else _average(x)
        wide = [
            self.branch3x3_2a(single),
            self.branch3x3_2b(single),
            self.branch3x3dbl_3a(double),
            self.branch3x3dbl_3b(double),
        ]
        return torch.cat([self.branch1x1(x), *wide, self.branch_pool(pooled)], 1)


class Inception(nn.Module):
    """Images (B,3,H,W) in [0,1] → (B,2048)."""

    sha256 = ""  # of the file with its weights

    def __init__(self) -> None:
        super().__init__()
        self.Conv2d_1a_3x3, self.Conv2d_2a_3x3 = Conv(3, 32, 3, 2), Conv(32, 32, 3)
        self.Conv2d_2b_3x3, self.Conv2d_3b_1x1, self.Conv2d_4a_3x3 = (
            Conv(32, 64, 3, padding=1),
            Conv(64, 80),
            Conv(80, 192, 3),
        )
        self.Mixed_5b, self.Mixed_5c, self.Mixed_5d = MixedA(192, 32), MixedA(256, 64), MixedA(288, 64)
        self.Mixed_6a, self.Mixed_6b, self.Mixed_6c = MixedB(288), MixedC(768, 128), MixedC(768, 160)
        self.Mixed_6d, self.Mixed_6e, self.Mixed_7a = MixedC(768, 160), MixedC(768, 192), MixedD(768)
        self.Mixed_7b, self.Mixed_7c = MixedE(1280, last=False), MixedE(2048, last=True)

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        x = F.interpolate(x, (SIDE, SIDE), mode="bilinear", align_corners=False) * 2 - 1
        x = F.max_pool2d(self.Conv2d_2b_3x3(self.Conv2d_2a_3x3(self.Conv2d_1a_3x3(x))), 3, 2)
        x = F.max_pool2d(self.Conv2d_4a_3x3(self.Conv2d_3b_1x1(x)), 3, 2)
        for mixed in (module for name, module in self.named_children() if name.startswith("Mixed_")):
            x = mixed(x)
        return x.mean(dim=(2, 3))


def load_inception(path: str | Path) -> Inception:
    """The network with the weights of a local file; classifier heads in it are ignored."""
    path = Path(path)
    if not path.is_file():
        raise MissingWeights(
            f"There is no file {path} with Inception weights. Leave `inception` out to go without KID and "
            "FID."
        )
    state, sha256 = _read(path)
    with torch.device("meta"):
        net = Inception()
    wanted = {k: v for k, v in net.state_dict().items() if not k.endswith("num_batches_tracked")}
    state = {name: value for name, value in state.items() if name in wanted}
    shapes = [{k: tuple(v.shape) for k, v in tensors.items()} for tensors in (state, wanted)]
    check_shapes(*shapes, path, "the Inception network of FID")
    check_finite(state, path)
    net = net.to_empty(device="cpu")
    net.load_state_dict({k: v.float() for k, v in state.items()}, strict=False)
    net.sha256 = sha256
    return net.eval().requires_grad_(False)


def _read(path: Path) -> tuple[dict[str, Tensor], str]:
    """All tensors of a file and its SHA-256."""
    if path.suffix == ".safetensors":
        state, sha256 = read_weights(path)
    else:
        data = path.read_bytes()
        sha256 = hashlib.sha256(data).hexdigest()
        with damaged(path):
            state = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    named = _NAMED_SUM.search(path.name)
    if named and not sha256.startswith(named[1]):
        raise MissingWeights(
            f"{path}: its SHA-256, {sha256[:12]}…, is not that of its name. Download it again."
        )
    if not isinstance(state, dict) or not all(isinstance(v, Tensor) for v in state.values()):
        raise MissingWeights(f"{path} does not hold a table of tensors.")
    return state, sha256
