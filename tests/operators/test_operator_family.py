"""An operator for a family of degradations: its derivative, what it starts as, its price and its config."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from paseo.base import Condition
from paseo.errors import BadInput
from paseo.linalg.jacobian import autograd_linearize
from paseo.operators.config import OperatorConfig
from paseo.operators.family import ErrorAt, Family
from paseo.operators.net import OperatorNet
from paseo.operators.store import adopt, load_operator, save_operator

ROUNDING = 1e-12
NAMES = ("width", "octaves", "jpeg")


def make_net(channels: int = 4, *, local: bool = False, shaken: bool = True, **family: object) -> OperatorNet:
    torch.manual_seed(0)
    spec = Family(NAMES, {"octaves": (0.0, 3.0)}, local=local, **family)  # ty: ignore[invalid-argument-type]
    net = OperatorNet(OperatorConfig(channels, family=spec)).double()
    if shaken:
        with torch.no_grad():
            for p in net.parameters():
                p.add_(0.2 * torch.randn_like(p))
    return net


def latent(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def mask(h: int, w: int, batch: int = 1) -> Tensor:
    return (torch.rand(batch, 16, h, w, generator=torch.Generator().manual_seed(3)) > 0.5).double()


def distance(a: Tensor, b: Tensor) -> float:
    return ((a - b).norm() / b.norm()).item()


@pytest.mark.parametrize("local", [False, True])
@pytest.mark.parametrize("seen", [None, mask(6, 5)])
def test_the_fast_linearisation_is_the_derivative(local: bool, seen: Tensor | None) -> None:
    H = make_net(local=local).bind(0.01, Condition({"octaves": 1.5, "jpeg": 1.0}, seen))
    z, v, u = (latent(3, 4, 6, 5, seed=k) for k in range(3))
    h, J, JT = H.linearize(z)
    h_ad, J_ad, JT_ad = autograd_linearize(H, z)
    assert distance(h, h_ad) < ROUNDING
    assert distance(J(v), J_ad(v)) < ROUNDING
    assert distance(JT(u), JT_ad(u)) < ROUNDING
    assert (u * J(v)).sum().item() == pytest.approx((JT(u) * v).sum().item(), rel=1e-10)


def test_each_sample_of_a_batch_has_its_own_parameters() -> None:
    net, z, seen = make_net(), latent(3, 4, 6, 5), mask(6, 5, 3)
    c = latent(3, 3, seed=5)
    together = net(z, torch.tensor([0.0, 0.02, 0.1]), c, seen)
    for i, s in enumerate((0.0, 0.02, 0.1)):
        alone = net(z[i : i + 1], s, c[i : i + 1], seen[i : i + 1])
        assert distance(together[i : i + 1], alone) < 1e-6  # the noise levels were float32


@pytest.mark.parametrize("changed", ["c", "seen", "s"])
def test_everything_it_is_told_matters(changed: str) -> None:
    net, z = make_net(), latent(1, 4, 6, 5)
    told = {"s": torch.tensor([0.02]), "c": torch.zeros(1, 3), "seen": torch.ones(1, 16, 6, 5)}
    other = told | {changed: told[changed] * 0.5 + 0.2}
    assert distance(net(z, **told), net(z, **other)) > 1e-3


def test_without_a_mask_all_is_seen() -> None:
    net, z, c = make_net(), latent(2, 4, 6, 5), latent(1, 3)
    assert torch.equal(net(z, 0.02, c), net(z, 0.02, c, torch.ones(1, 16, 6, 5)))


def test_it_begins_as_the_dedicated_operator_it_takes_over() -> None:
    torch.manual_seed(4)
    dedicated = OperatorNet(4).double()
    net = adopt(make_net(shaken=False), dedicated.state_dict())
    z, c = latent(2, 4, 6, 5), latent(2, 3)
    assert distance(net(z, 0.02, c), dedicated(z, 0.02)) < ROUNDING


def test_what_is_hidden_has_no_say() -> None:
    seen = torch.ones(1, 16, 6, 5)
    seen[..., 2:4, 1:4] = 0
    _, J, JT = make_net().bind(0.01, Condition({"jpeg": 1.0}, seen)).linearize(latent(1, 4, 6, 5))
    inside = torch.zeros(1, 4, 6, 5, dtype=torch.float64)
    inside[..., 2:4, 1:4] = 1
    assert not J(inside).any()
    assert not (JT(latent(1, 4, 6, 5, seed=2)) * inside).any()


def test_with_a_reach_hidden_cells_beside_seen_ones_count_and_deeper_ones_do_not() -> None:
    seen = torch.ones(1, 16, 7, 7)
    seen[..., 1:6, 1:6] = 0
    deep, rim = (torch.zeros(1, 4, 7, 7, dtype=torch.float64) for _ in range(2))
    deep[..., 2:5, 2:5] = 1
    rim[..., 1:6, 1:6] = 1
    rim -= deep
    H = make_net(reach=1).bind(0.01, Condition({"jpeg": 1.0}, seen))
    z, v = latent(1, 4, 7, 7), latent(1, 4, 7, 7, seed=2)
    h, J, JT = H.linearize(z)
    assert not J(deep).any()
    assert J(rim).any()
    assert not (JT(v) * deep).any()
    h_ad, J_ad, JT_ad = autograd_linearize(H, z)
    for fast, exact in ((h, h_ad), (J(v), J_ad(v)), (JT(v), JT_ad(v))):
        assert distance(fast, exact) < ROUNDING


def test_a_reach_that_makes_no_sense_is_refused() -> None:
    for bad in (-1, 9, 1.5, True):
        with pytest.raises(BadInput, match="reach"):
            Family(NAMES, {}, reach=bad)  # ty: ignore[invalid-argument-type]


def test_a_local_operator_gives_in_a_window_what_it_gives_in_the_whole() -> None:
    net, z, c = make_net(local=True), latent(1, 4, 60, 50), latent(1, 3)
    halo = 17  # stem, seven blocks of two, head
    whole, window = net(z, 0.02, c), net(z[:, :, 10:50, 5:45], 0.02, c)
    inner = window[:, :, halo:-halo, halo:-halo]
    assert distance(inner, whole[:, :, 10 + halo : 50 - halo, 5 + halo : 45 - halo]) < ROUNDING


@pytest.mark.parametrize("kind", ["group", "cell"])
def test_a_product_costs_what_it_costs_a_dedicated_operator(kind: str) -> None:
    z = torch.randn(1, 16, 16, 16)
    family = make_net(16, local=kind == "cell").float().bind(0.01, Condition({"jpeg": 1.0}))
    counts = []
    for H in (OperatorNet(16).bind(0.01), family):
        _, J, JT = H.linearize(z)
        with FlopCounterMode(display=False) as counter:
            J(z)
            JT(z)
        counts.append(counter.get_total_flops())
    assert counts[1] < 1.02 * counts[0]


def test_it_is_stored_with_its_family_and_read_back(tmp_path) -> None:
    errors = (ErrorAt("jpeg:10", {"jpeg": 1.0}, (0.4, 0.2, 0.3, 0.1)),)
    net = make_net(local=True, errors=errors).float()
    save_operator(net, tmp_path)
    again = load_operator(tmp_path)
    assert again.spec == net.spec
    z, c = latent(1, 4, 6, 5).float(), latent(1, 3).float()
    assert torch.equal(again(z, 0.02, c), net(z, 0.02, c))


def test_a_dedicated_config_has_no_family() -> None:
    assert "family" not in OperatorConfig(4).to_dict()


def test_errors_between_those_measured_lie_between_them() -> None:
    family = Family(
        NAMES,
        {"octaves": (0.0, 3.0)},
        errors=(ErrorAt("sr:2", {"octaves": 1.0}, (0.1,)), ErrorAt("sr:8", {"octaves": 3.0}, (0.4,))),
    )
    assert family.residual_at({"octaves": 1.0})[0] == pytest.approx(0.1, rel=0.01)
    assert family.residual_at({"octaves": 3.0})[0] == pytest.approx(0.4, rel=0.01)
    assert family.residual_at({"octaves": 2.0})[0] == pytest.approx(math.sqrt(0.04), rel=0.01)
    assert make_net().bind(0.01, Condition({})).residual is None


def test_errors_of_masks_and_noise_do_not_count_for_other_damage() -> None:
    """They have no numbers, and would lie next to every mild degradation."""
    mild, masks = ErrorAt("sr:2", {"octaves": 1.0}, (0.1,)), ErrorAt("inpaint", {}, (0.9,))
    family = Family(NAMES, {"octaves": (0.0, 3.0)}, errors=(mild, masks))
    assert family.residual_at({"octaves": 0.1}) == pytest.approx((0.1,))
    assert family.residual_at({"octaves": 0.0})[0] == pytest.approx(0.9, rel=0.01)
    assert Family(NAMES, {}, errors=(masks,)).residual_at({"octaves": 1.0}) == pytest.approx((0.9,))


def test_bad_conditions_are_refused() -> None:
    net = make_net()
    with pytest.raises(BadInput, match="family of degradations"):
        net.bind(0.01)
    with pytest.raises(BadInput, match="does not know the parameter motion"):
        net.bind(0.01, Condition({"motion": 1.0}))
    with pytest.warns(UserWarning, match=r"octaves=5 \(trained on 0 … 3\)"):
        net.bind(0.01, Condition({"octaves": 5.0}))
    with pytest.raises(BadInput, match=r"\(B, 3\)"):
        net(latent(1, 4, 6, 5), 0.02)
    with pytest.raises(BadInput, match="seen shares"):
        net(latent(1, 4, 6, 5), 0.02, torch.zeros(1, 3), torch.ones(1, 16, 3, 3))
    with pytest.raises(BadInput, match="not understood"):
        OperatorConfig.from_dict({"channels": 4, "family": {"parameters": ["a"], "colour": 3}})
