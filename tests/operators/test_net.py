"""The operator network is the one that was published: its size, its formula, its noise embedding and its
position map.
"""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from paseo.errors import BadInput
from paseo.operators.config import OperatorConfig
from paseo.operators.embedding import noise_embedding, position_map
from paseo.operators.net import OperatorNet


def make_net(channels: int = 4, seed: int = 0) -> OperatorNet:
    """A float64 network in which every parameter matters, also those that start at 0 or 1."""
    torch.manual_seed(seed)
    net = OperatorNet(channels).double()
    with torch.no_grad():
        for p in net.parameters():
            p.add_(0.2 * torch.randn_like(p))
    return net


@pytest.mark.parametrize(("channels", "count"), [(4, 1_185_690), (16, 1_196_322)])
def test_parameter_count(channels: int, count: int) -> None:
    assert sum(p.numel() for p in OperatorNet(channels).parameters()) == count


def block(w: dict[str, Tensor], name: str, x: Tensor, e: Tensor) -> Tensor:
    """One residual block, from the description."""

    def conv(x: Tensor, part: str) -> Tensor:
        weight = w[f"{name}.{part}.weight"]
        return F.conv2d(x, weight, w[f"{name}.{part}.bias"], padding=weight.shape[-1] // 2)

    def norm(x: Tensor, part: str) -> Tensor:
        grouped = x.reshape(x.shape[0], 8, -1)
        centred = grouped - grouped.mean(-1, keepdim=True)
        whitened = (centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()).view_as(x)
        return whitened * w[f"{name}.{part}.weight"][:, None, None] + w[f"{name}.{part}.bias"][:, None, None]

    h = norm(conv(x, "conv1"), "norm1")
    h = h * torch.sigmoid(h) + (w[f"{name}.noise.weight"] @ e + w[f"{name}.noise.bias"])[:, None, None]
    h = norm(conv(h, "conv2"), "norm2") + (conv(x, "skip") if f"{name}.skip.weight" in w else x)
    return h * torch.sigmoid(h)


def test_forward_is_the_published_formula() -> None:
    net, z, s = make_net(), torch.randn(2, 4, 6, 9, dtype=torch.float64), 0.03
    w = dict(net.state_dict())
    e = noise_embedding(s, z)[0]
    p = F.interpolate(position_map().double(), size=(6, 9), mode="bilinear", align_corners=False).expand(
        2, -1, -1, -1
    )
    k0 = F.conv2d(torch.cat([z, p], 1), w["stem.weight"], w["stem.bias"], padding=1)
    k1 = block(w, "down.0", k0, e)
    h = block(w, "down.2", block(w, "down.1", k1, e), e)
    h = block(w, "up.0", block(w, "middle", h, e), e)
    h = block(w, "up.1", torch.cat([h, k1], 1), e)
    h = block(w, "up.2", torch.cat([h, k0], 1), e)
    q = F.conv2d(h, w["head.weight"], w["head.bias"], padding=1)
    c = F.silu(F.conv2d(z, w["colour.weight"], w["colour.bias"]))
    g = torch.sigmoid(w["gate.weight"] @ e + w["gate.bias"])
    torch.testing.assert_close(net(z, s), (1 - g) * q + g * c + w["skip_scale"] * z, rtol=1e-10, atol=1e-10)


def test_noise_embedding() -> None:
    e = noise_embedding(torch.tensor([0.02, 0.04], dtype=torch.float64), torch.zeros((), dtype=torch.float64))
    assert e.shape == (2, 128)
    for i in (0, 1, 31, 63):
        a = 0.2 * 10000 ** (-i / 63)
        assert e[0, 2 * i].item() == pytest.approx(math.sin(a), abs=1e-14)
        assert e[0, 2 * i + 1].item() == pytest.approx(math.cos(a), abs=1e-14)


def test_position_map() -> None:
    p = position_map()
    assert p.shape == (1, 8, 64, 64)
    assert p.dtype == torch.float32
    for y, x in ((0, 0), (5, 40), (63, 63)):
        r, c = y / 63, x / 63
        want = [f(k * t) for t in (r, c) for k in (1, 10000) for f in (math.sin, math.cos)]
        torch.testing.assert_close(p[0, :, y, x], torch.tensor(want), rtol=0, atol=1e-6)


def test_position_is_seen_and_keeps_the_latents_size() -> None:
    net = make_net()
    flat = torch.ones(1, 4, 64, 64, dtype=torch.float64)
    assert torch.equal(net.positions(flat).float(), net.position)
    assert net.positions(flat[..., :16, :24]).shape == (1, 8, 16, 24)
    inside = net(flat[..., :20, :20], 0.02)[..., 9:11, 9:11]  # same neighbourhoods, other places
    assert inside.std() > 1e-3


def test_each_sample_has_its_own_noise_level() -> None:
    net, z = make_net(), torch.randn(2, 4, 6, 6, dtype=torch.float64)
    both = net(z, torch.tensor([0.0, 0.04], dtype=torch.float64))
    alone = torch.cat([net(z[:1], 0.0), net(z[1:], 0.04)])
    torch.testing.assert_close(both, alone, rtol=1e-12, atol=1e-12)
    assert (both[0] - net(z[:1], 0.04)[0]).abs().max() > 1e-6


def test_bind_takes_the_noise_level_in_unit_range() -> None:
    net, z = make_net(), torch.randn(1, 4, 6, 6, dtype=torch.float64)
    assert torch.equal(net.bind(0.01)(z), net(z, 0.02))


@pytest.mark.parametrize("sigma_y", [-0.01, math.nan, math.inf])
def test_bind_refuses_what_is_no_noise_level(sigma_y: float) -> None:
    with pytest.raises(BadInput, match="sigma_y"):
        OperatorNet(4).bind(sigma_y)


def test_bind_warns_outside_the_trained_range() -> None:
    signed = OperatorNet(OperatorConfig(4, noise_range=(0.0, 0.04), noise_unit="signed"))
    signed.bind(0.02)
    with pytest.warns(UserWarning, match="outside 0 … 0.02"):
        signed.bind(0.05)


@pytest.mark.parametrize("shape", [(1, 16, 8, 8), (4, 8, 8)])
def test_a_latent_of_another_model_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(BadInput, match="another model"):
        OperatorNet(4)(torch.zeros(shape), 0.02)


def test_noise_levels_must_fit_the_batch() -> None:
    with pytest.raises(BadInput, match="2 noise levels"):
        OperatorNet(4)(torch.zeros(3, 4, 8, 8), torch.zeros(2))


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"channels": 0},
        {"channels": "4"},
        {"channels": 4, "noise_range": [0.1, 0.0]},
        {"channels": 4, "noise_range": "wide"},
        {"channels": 4, "noise_unit": "pixels"},
        {"channels": 4, "width": 48},
        {"channels": 4, "training": [1]},
    ],
)
def test_a_bad_config_is_refused(values: dict[str, object]) -> None:
    with pytest.raises(BadInput):
        OperatorConfig.from_dict(values)


def test_the_network_does_without_diffusers() -> None:
    code = "import paseo.operators.net, paseo.operators.store, sys; assert 'diffusers' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
