"""linearize(H, z): value, J v and Jᵀ u of anything differentiable, without a matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from paseo.linalg import linearize, power_norm

F64 = torch.float64


class Attention(nn.Module):
    """A layer whose fused kernel has no forward-mode derivative."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.MultiheadAttention(6, 2, batch_first=True, dtype=F64)

    def forward(self, z: Tensor) -> Tensor:
        tokens = z.flatten(2).mT
        return z + self.layer(tokens, tokens, tokens, need_weights=False)[0].mT.view(z.shape)


class Cube(torch.autograd.Function):
    """z³ with a hand-written backward and no forward mode."""

    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        ctx.save_for_backward(z)
        return z**3

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (z,) = ctx.saved_tensors
        return 3.0 * z**2 * grads[0]


def network(*layers: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(*layers).to(F64)


CASES: dict[str, Callable[[], Callable[[Tensor], Tensor]]] = {
    "convolutions": lambda: network(
        nn.Conv2d(6, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.SiLU(), nn.Conv2d(8, 6, 3, padding=1)
    ),
    "in-place ReLU": lambda: network(nn.Conv2d(6, 8, 3), nn.ReLU(inplace=True), nn.Conv2d(8, 4, 1)),
    "other output shape": lambda: network(
        nn.Conv2d(6, 3, 2, stride=2), nn.Tanh(), nn.Flatten(), nn.Linear(12, 5)
    ),
    "attention": Attention,
    "custom function": lambda: Cube.apply,
    "plain function": lambda: lambda z: z.sin() * z.flatten(1).sum(1).view(-1, 1, 1, 1),
}


@pytest.fixture(params=list(CASES))
def H(request: pytest.FixtureRequest) -> Callable[[Tensor], Tensor]:
    torch.manual_seed(0)
    return CASES[request.param]()


@pytest.fixture
def z() -> Tensor:
    return torch.randn(3, 6, 4, 4, dtype=F64, generator=torch.Generator().manual_seed(1))


def test_value_and_adjoint_identity(H: Callable[[Tensor], Tensor], z: Tensor) -> None:
    h, J, JT = linearize(H, z)
    torch.testing.assert_close(h, H(z).detach())
    v, u = torch.randn_like(z), torch.randn_like(h)
    left, right = (J(v) * u).flatten(1).sum(1), (v * JT(u)).flatten(1).sum(1)
    torch.testing.assert_close(left, right, rtol=1e-10, atol=1e-10)
    assert not any(t.requires_grad for t in (h, J(v), JT(u)))


def test_jvp_agrees_with_central_differences(H: Callable[[Tensor], Tensor], z: Tensor) -> None:
    """(H(z+εv) − H(z−εv))/2ε errs by O(ε²) + rounding/ε: about 1e-8 at ε = 1e-5 in float64."""
    v = torch.randn_like(z)
    with torch.no_grad():
        numeric = (H(z + 1e-5 * v) - H(z - 1e-5 * v)) / 2e-5
    torch.testing.assert_close(linearize(H, z).J(v), numeric, rtol=1e-6, atol=1e-6)


def test_products_are_linear_and_can_be_repeated(H: Callable[[Tensor], Tensor], z: Tensor) -> None:
    h, J, JT = linearize(H, z)
    a, b = torch.randn_like(z), torch.randn_like(z)
    torch.testing.assert_close(J(2.0 * a - b), 2.0 * J(a) - J(b), rtol=1e-9, atol=1e-10)
    u = torch.randn_like(h)
    assert torch.equal(JT(u), JT(u))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode], ids=lambda m: m.__name__)
def test_works_where_gradients_are_off(
    H: Callable[[Tensor], Tensor], z: Tensor, mode: Callable[[], Any]
) -> None:
    expected = linearize(H, z)
    u, v = torch.ones_like(expected.h), torch.ones_like(z)
    with mode():
        h, J, JT = linearize(H, z.clone())
        found = h.clone(), J(v.clone()), JT(u.clone())
    for a, b in zip(found, (expected.h, expected.J(v), expected.JT(u)), strict=True):
        torch.testing.assert_close(a, b)


def test_the_point_is_left_alone(z: Tensor) -> None:
    before = z.clone()
    lin = linearize(CASES["in-place ReLU"](), z)
    lin.J(torch.ones_like(z))
    lin.JT(torch.ones_like(lin.h))
    assert torch.equal(z, before)
    assert not z.requires_grad


def test_parameters_collect_no_gradients(z: Tensor) -> None:
    net = network(nn.Conv2d(6, 6, 1))
    lin = linearize(net, z)
    lin.JT(torch.ones_like(lin.h))
    assert all(p.grad is None for p in net.parameters())


def test_an_operator_that_ignores_the_latent(z: Tensor) -> None:
    lin = linearize(lambda _: torch.ones(3, 2, dtype=F64), z)
    assert torch.equal(lin.JT(torch.ones(3, 2, dtype=F64)), torch.zeros_like(z))
    assert torch.equal(lin.J(torch.ones_like(z)), torch.zeros(3, 2, dtype=F64))


def test_an_operator_may_bring_its_own() -> None:
    class Doubling:
        def __call__(self, z: Tensor) -> Tensor:
            return 2.0 * z

        def linearize(self, z: Tensor) -> tuple[Tensor, Any, Any]:
            return 2.0 * z, lambda v: 2.0 * v, lambda u: 2.0 * u

    lin = linearize(Doubling(), torch.ones(1, 2))
    assert torch.equal(lin.J(torch.ones(1, 2)), torch.full((1, 2), 2.0))


def test_errors_of_the_operator_are_its_own(z: Tensor) -> None:
    lin = linearize(lambda x: x.square(), z)
    with pytest.raises(RuntimeError):
        lin.J(torch.ones(1, 2, dtype=F64))


def test_power_norm_finds_the_largest_singular_value() -> None:
    values = torch.tensor([3.0, 1.0, 0.5], dtype=F64)
    norm = power_norm(lambda v: v * values, lambda u: u * values, torch.ones(2, 3, dtype=F64))
    torch.testing.assert_close(norm, torch.full((2,), 3.0, dtype=F64), rtol=1e-9, atol=0.0)
