"""The doctor's probe of attention: what a network's own call takes, not what a toy problem would."""

from __future__ import annotations

import torch

from paseo.hub.attention import used_by
from paseo.models import load_model
from paseo.priors.local_net import LocalUNet
from paseo.priors.net import FUSED_FROM, Attention


def test_the_faces_prior_takes_the_fused_kernel_on_large_canvases() -> None:
    """The other one holds all pairs of cells: 48 GB for 1024×768 pixels."""
    net = load_model("faces-128").prior
    assert used_by(lambda: net.x0(torch.zeros(1, 16, 16, 16), 0.5)) == "math"
    assert used_by(lambda: net.x0(torch.zeros(1, 16, 72, 72), 0.5)) == "flash"


def test_both_kernels_give_the_same_attention() -> None:
    torch.manual_seed(0)
    layer = Attention(32).requires_grad_(False)
    torch.nn.init.normal_(layer.out.weight)
    x = torch.randn(1, 32, 36, 36)
    assert x.shape[-1] * x.shape[-2] > FUSED_FROM
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        reference = layer(x)
    torch.testing.assert_close(layer(x), reference, rtol=1e-4, atol=1e-5)


def test_a_network_without_attention_is_seen_as_such() -> None:
    net = LocalUNet(4, (8, 8), 1)
    assert used_by(lambda: net(torch.zeros(1, 4, 8, 8), torch.zeros(1))) == "none"
