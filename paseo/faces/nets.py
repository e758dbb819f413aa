"""The three small networks of MTCNN (Zhang et al., "Joint Face Detection and Alignment using Multitask
Cascaded Convolutional Networks", 2016), with the names of the published weights.

P-Net slides over the picture, R-Net looks at 24×24 crops, O-Net at 48×48. Each tells how likely a face is and
how far the box should move; O-Net also tells five landmarks. Inputs are RGB in [-1,1].
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn


def _pool(x: Tensor, window: int) -> Tensor:
    return F.max_pool2d(x, window, 2, ceil_mode=True)


def _flat(x: Tensor) -> Tensor:
    """Columns first, as the weights were trained with."""
    return x.permute(0, 3, 2, 1).flatten(1)


class PNet(nn.Module):
    """(B,3,H,W) → score (B,h,w) and moves of the box (B,4,h,w), one cell for every second pixel."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.prelu1 = nn.Conv2d(3, 10, 3), nn.PReLU(10)
        self.conv2, self.prelu2 = nn.Conv2d(10, 16, 3), nn.PReLU(16)
        self.conv3, self.prelu3 = nn.Conv2d(16, 32, 3), nn.PReLU(32)
        self.conv4_1, self.conv4_2 = nn.Conv2d(32, 2, 1), nn.Conv2d(32, 4, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = _pool(self.prelu1(self.conv1(x)), 2)
        x = self.prelu2(self.conv2(x))
        x = self.prelu3(self.conv3(x))
        return self.conv4_1(x).softmax(1)[:, 1], self.conv4_2(x)


class RNet(nn.Module):
    """(N,3,24,24) → score (N,) and moves (N,4)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.prelu1 = nn.Conv2d(3, 28, 3), nn.PReLU(28)
        self.conv2, self.prelu2 = nn.Conv2d(28, 48, 3), nn.PReLU(48)
        self.conv3, self.prelu3 = nn.Conv2d(48, 64, 2), nn.PReLU(64)
        self.dense4, self.prelu4 = nn.Linear(576, 128), nn.PReLU(128)
        self.dense5_1, self.dense5_2 = nn.Linear(128, 2), nn.Linear(128, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = _pool(self.prelu1(self.conv1(x)), 3)
        x = _pool(self.prelu2(self.conv2(x)), 3)
        x = self.prelu4(self.dense4(_flat(self.prelu3(self.conv3(x)))))
        return self.dense5_1(x).softmax(1)[:, 1], self.dense5_2(x)


class ONet(nn.Module):
    """(N,3,48,48) → score (N,), moves (N,4) and landmarks (N,5,2) as fractions of the box."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.prelu1 = nn.Conv2d(3, 32, 3), nn.PReLU(32)
        self.conv2, self.prelu2 = nn.Conv2d(32, 64, 3), nn.PReLU(64)
        self.conv3, self.prelu3 = nn.Conv2d(64, 64, 3), nn.PReLU(64)
        self.conv4, self.prelu4 = nn.Conv2d(64, 128, 2), nn.PReLU(128)
        self.dense5, self.prelu5 = nn.Linear(1152, 256), nn.PReLU(256)
        self.dense6_1, self.dense6_2 = nn.Linear(256, 2), nn.Linear(256, 4)
        self.dense6_3 = nn.Linear(256, 10)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = _pool(self.prelu1(self.conv1(x)), 3)
        x = _pool(self.prelu2(self.conv2(x)), 3)
        x = _pool(self.prelu3(self.conv3(x)), 2)
        x = self.prelu5(self.dense5(_flat(self.prelu4(self.conv4(x)))))
        points = self.dense6_3(x).unflatten(1, (2, 5)).mT  # x₁ … x₅, y₁ … y₅
        return self.dense6_1(x).softmax(1)[:, 1], self.dense6_2(x), points
