"""The photos prior's network: shifts of the picture shift the velocity, and nothing is seen beyond the stated
reach.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

from paseo.errors import BadInput
from paseo.priors.embedded import EmbeddedPrior, velocity_net
from paseo.priors.local_net import LocalUNet
from paseo.priors.net import FlowUNet


def tiny(**options: object) -> LocalUNet:
    """All weights random: the zeros of the start would hide what a cell can see."""
    torch.manual_seed(0)
    net = LocalUNet(channels=4, widths=(8, 8, 12), blocks=1, **options)
    for p in net.parameters():
        if p.ndim > 1:
            torch.nn.init.normal_(p, std=1.2 / p[0].numel() ** 0.5)
    return net.double().requires_grad_(False)


def velocity(net: LocalUNet, x: Tensor) -> Tensor:
    return net(x, torch.full((len(x),), 0.4, dtype=x.dtype))


def test_no_cell_is_seen_beyond_the_receptive_field() -> None:
    net = tiny()
    side, reach = 128, net.receptive_field
    farthest = 0
    for phase in range(net.multiple):
        centre = 64 + phase
        x = torch.randn(1, 4, side, side, dtype=torch.double, requires_grad=True)
        velocity(net, x)[0, :, centre, centre].sum().backward()
        assert x.grad is not None
        rows = x.grad.abs().sum((0, 1, 3)).nonzero()[:, 0]
        farthest = max(farthest, centre - int(rows.min()), int(rows.max()) - centre)
    assert reach - net.multiple < farthest <= reach


def test_a_shift_by_the_multiple_shifts_the_velocity() -> None:
    net = tiny()
    reach, step = net.receptive_field, net.multiple
    x = torch.randn(1, 4, 96, 96, dtype=torch.double)
    whole, moved = velocity(net, x), velocity(net, x[..., step:, step:])
    margin = reach + 1
    inner = whole[..., step + margin : -margin, step + margin : -margin]
    torch.testing.assert_close(moved[..., margin:-margin, margin:-margin], inner, rtol=0, atol=1e-12)


@pytest.mark.parametrize("padding", ["zeros", "replicate"])
def test_every_multiple_of_four_works_and_the_start_is_zero(padding: str) -> None:
    net = LocalUNet(channels=4, widths=(8, 8, 12), blocks=1, padding=padding)
    for h, w in ((4, 4), (8, 20), (16, 12)):
        u = velocity(net, torch.randn(2, 4, h, w))
        assert u.shape == (2, 4, h, w)
        assert not u.any()


def test_the_default_has_8_to_20_million_parameters() -> None:
    assert 8e6 < sum(p.numel() for p in LocalUNet().parameters()) < 20e6


def test_load_chooses_the_network_by_its_kind(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    net = tiny()
    save_file(net.float().state_dict(), tmp_path / "prior.safetensors")
    (tmp_path / "config.json").write_text(json.dumps({"prior": {"net": net.config}}))
    prior = EmbeddedPrior.load(tmp_path)
    x = torch.randn(1, 4, 16, 16)
    assert isinstance(prior.net, LocalUNet)
    assert prior.multiple == 4
    torch.testing.assert_close(prior.x0(x, 0.4), x - 0.4 * velocity(net, x))
    assert isinstance(velocity_net(FlowUNet(4, (32, 32), 1).config), FlowUNet)
    with pytest.raises(BadInput, match="cubist"):
        velocity_net({"kind": "cubist"})
