"""The hand-written linearisation is the derivative: equal to automatic differentiation, and no dearer than it
claims.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from paseo.linalg.jacobian import autograd_linearize, linearize
from paseo.noise import Noise
from paseo.operators.config import OperatorConfig
from paseo.operators.net import OperatorNet
from paseo.operators.tangent import BoundOperator, NormTangent
from paseo.samplers import PASEO

ROUNDING = 1e-12  # float64, about twenty layers of sums over up to a thousand terms


def make_net(channels: int = 4, seed: int = 0, config: OperatorConfig | None = None) -> OperatorNet:
    """A float64 network in which every parameter matters, also those that start at 0 or 1."""
    torch.manual_seed(seed)
    net = OperatorNet(config or channels).double()
    with torch.no_grad():
        for p in net.parameters():
            p.add_(0.2 * torch.randn_like(p))
    return net


def distance(a: Tensor, b: Tensor) -> float:
    return ((a - b).norm() / b.norm()).item()


def vectors(*shape: int, count: int = 3, seed: int = 1) -> list[Tensor]:
    rng = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=rng, dtype=torch.float64) for _ in range(count)]


def assert_is_the_derivative(H: BoundOperator, z: Tensor) -> None:
    v, u = vectors(*z.shape, count=2, seed=2)
    h, J, JT = H.linearize(z)
    h_ad, J_ad, JT_ad = autograd_linearize(H, z)
    assert distance(h, h_ad) < ROUNDING
    assert distance(J(v), J_ad(v)) < ROUNDING
    assert distance(JT(u), JT_ad(u)) < ROUNDING


@pytest.mark.parametrize(
    ("channels", "batch", "size"), [(4, 1, (8, 8)), (16, 2, (5, 7)), (12, 3, (16, 16)), (1, 2, (1, 3))]
)
def test_equals_automatic_differentiation(channels: int, batch: int, size: tuple[int, int]) -> None:
    assert_is_the_derivative(make_net(channels).bind(0.01), vectors(batch, channels, *size)[0])


@pytest.mark.parametrize("size", [(8, 8), (5, 7), (1, 3)])
def test_a_pooled_network_has_its_derivative_too(size: tuple[int, int]) -> None:
    net = make_net(4, config=OperatorConfig(4, widths=(16, 24, 32), pooled=True))
    assert_is_the_derivative(net.bind(0.01), vectors(2, 4, *size)[0])


def test_pooling_costs_less_and_changes_something() -> None:
    z = vectors(1, 4, 16, 16)[0]
    flat, pooled = (make_net(4, config=OperatorConfig(4, pooled=pooled)) for pooled in (False, True))
    assert distance(pooled(z, 0.02), flat(z, 0.02)) > 1e-3
    assert flops(lambda: pooled(z, 0.02)) < 0.5 * flops(lambda: flat(z, 0.02))


def test_products_are_transposes_of_each_other() -> None:
    z, v, u = vectors(2, 4, 9, 6)
    _, J, JT = make_net().bind(0.01).linearize(z)
    forward, backward = (u * J(v)).flatten(1).sum(1), (JT(u) * v).flatten(1).sum(1)
    assert (forward - backward).abs().max() < ROUNDING * u.norm() * J(v).norm()


def test_products_are_linear_and_repeatable() -> None:
    z, v, w = vectors(1, 4, 8, 8)
    H = make_net().bind(0.01)
    _, J, JT = H.linearize(z)
    for product in (J, JT):
        first = product(v)
        H.linearize(w)  # another point does not disturb this one
        assert distance(product(2 * v - 3 * w), 2 * first - 3 * product(w)) < ROUNDING
        assert torch.equal(product(v), first)


def test_matches_finite_differences() -> None:
    z, v, _ = vectors(1, 4, 8, 8)
    H = make_net().bind(0.01)
    _, J, _ = H.linearize(z)
    step = 1e-5  # truncation ~1e-10, rounding ~1e-11
    assert distance((H(z + step * v) - H(z - step * v)) / (2 * step), J(v)) < 1e-7


def test_a_sample_alone_equals_the_same_sample_in_a_batch() -> None:
    z, v, u = vectors(3, 4, 8, 8)
    H = make_net().bind(0.01)
    together = H.linearize(z)
    for i in range(3):
        alone = H.linearize(z[i : i + 1])
        assert distance(alone[0], together[0][i : i + 1]) < ROUNDING
        assert distance(alone[1](v[i : i + 1]), together[1](v)[i : i + 1]) < ROUNDING
        assert distance(alone[2](u[i : i + 1]), together[2](u)[i : i + 1]) < ROUNDING


def test_layouts_do_not_matter_and_inputs_are_left_alone() -> None:
    z, v, u = vectors(2, 4, 8, 6)
    net = make_net()
    _, J, JT = net.bind(0.01).linearize(z)
    want = J(v), JT(u)
    strange = net.to(memory_format=torch.channels_last).bind(0.01)  # ty: ignore[no-matching-overload]
    for view in (
        lambda x: x.to(memory_format=torch.channels_last),
        lambda x: x.mT.contiguous().mT,
        lambda x: torch.stack([x, x], -1)[..., 0],
    ):
        z2, v2, u2 = view(z), view(v), view(u)
        _, J, JT = strange.linearize(z2)
        assert distance(J(v2), want[0]) < ROUNDING
        assert distance(JT(u2), want[1]) < ROUNDING
        assert torch.equal(z2, z)
        assert torch.equal(v2, v)
        assert torch.equal(u2, u)


def change_in_place(net: OperatorNet) -> None:
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
    net(torch.ones(1, 4, 4, 4, dtype=torch.float64), 0.02).square().sum().backward()
    optimiser.step()


def load_other(net: OperatorNet) -> None:
    net.load_state_dict(make_net(seed=5).state_dict())


def assign_other(net: OperatorNet) -> None:
    net.load_state_dict(make_net(seed=6).state_dict(), assign=True)


@pytest.mark.parametrize("change", [change_in_place, load_other, assign_other])
def test_new_weights_are_noticed(change: object) -> None:
    assert callable(change)
    net, z = make_net(), vectors(1, 4, 8, 8)[0]
    H = net.bind(0.01)
    before = H.linearize(z)[0]
    change(net)
    assert distance(before, H(z)) > 1e-3
    assert_is_the_derivative(H, z)


def test_works_in_every_gradient_mode() -> None:
    z, v, u = vectors(1, 4, 8, 8)
    H = make_net().bind(0.01)  # its parameters ask for gradients
    h, J, JT = H.linearize(z.requires_grad_(True))
    assert not any(x.requires_grad for x in (h, J(v), JT(u)))
    with torch.inference_mode():
        _, J2, JT2 = H.linearize(z.detach())
        assert distance(J2(v), J(v)) < ROUNDING
        assert distance(JT2(u), JT(u)) < ROUNDING


def test_the_plain_projection_equals_the_fused_one() -> None:
    a, t, _ = vectors(2, 16, 5, 4)
    norm = nn.GroupNorm(8, 16).double()
    nn.init.normal_(norm.weight)
    tangent = NormTangent(norm, a)
    with torch.no_grad():
        tangent.value()
        assert distance(tangent.project_plain(t), tangent.project(t)) < ROUNDING
        assert distance(tangent.project_plain(t * tangent.gamma), tangent.project(t, norm.weight)) < ROUNDING


def flops(run: object) -> int:
    assert callable(run)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        run()
    return counter.get_total_flops()


def test_a_product_needs_no_more_arithmetic_than_a_forward() -> None:
    H, z = OperatorNet(4).bind(0.01), torch.randn(1, 4, 16, 16)
    forward = flops(lambda: H(z))
    _, J, JT = H.linearize(z)
    assert 0.9 * forward < flops(lambda: J(z)) <= forward
    assert 0.9 * forward < flops(lambda: JT(z)) <= forward
    assert flops(lambda: H.linearize(z)) <= forward


@pytest.mark.parametrize("budget", [1, 2, 3, 5])
def test_a_correction_needs_no_more_than_its_products(budget: int) -> None:
    H, z = OperatorNet(4).bind(0.01), torch.randn(1, 4, 16, 16)
    sampler = PASEO(cg_budget=budget, cg_tolerance=0.0)
    H.linearize(z)  # transposed weights are made once
    correction = flops(
        lambda: sampler.correct(H, z, z + 0.1, torch.zeros_like(z), 0.5, torch.ones(()), Noise(0))
    )
    assert correction <= (2 * budget + 1) * flops(lambda: H(z))


def test_the_sampler_asks_the_operator_for_its_own_linearisation() -> None:
    H, z = make_net().bind(0.01), vectors(1, 4, 8, 8)[0]
    assert torch.equal(linearize(H, z).h, H.linearize(z)[0])
