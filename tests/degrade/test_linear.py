"""What every linear degradation promises: linearity, a true adjoint at any size, sizes that fit, members of a
batch apart.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from paseo.base import Degradation
from paseo.degrade import Blur, CentreBox, Compose, Custom, Downsample, GaussianBlur, Mask, task

sizes = st.tuples(st.integers(1, 40), st.integers(1, 40))


def _mean_of_rows(x: Tensor) -> Tensor:
    return torch.nn.functional.avg_pool2d(x, (1, 3), stride=1, padding=(0, 1), count_include_pad=False)


LINEAR = {
    "sr4": lambda h, w: Downsample(4),
    "sr8": lambda h, w: Downsample(8),
    "sr2.5": lambda h, w: Downsample(2.5),
    "sr1": lambda h, w: Downsample(1),
    "gaussian": lambda h, w: GaussianBlur(),
    "kernel": lambda h, w: Blur(torch.rand(5, 9, generator=torch.Generator().manual_seed(0))),
    "box": lambda h, w: CentreBox(),
    "mask": lambda h, w: Mask(torch.rand(h, w, generator=torch.Generator().manual_seed(1)) < 0.5),
    "chain": lambda h, w: Compose(GaussianBlur(1.0, 9), Downsample(3), CentreBox(0.3)),
    "custom": lambda h, w: Custom(_mean_of_rows, linear=True),
    "task": lambda h, w: task("sr4"),
}


def _draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("make", LINEAR.values(), ids=LINEAR)
@given(size=sizes)
@settings(max_examples=20, deadline=None)
def test_adjoint_is_the_transpose(make, size: tuple[int, int]) -> None:
    A = make(*size)
    x = _draw(2, 3, *size)
    y = A(x)
    u = _draw(*y.shape, seed=1)
    back = A.adjoint(u, size)
    assert back.shape == x.shape
    # Two sums of n products each, accumulated in any order, differ by at most about n·eps times the sum of
    # magnitudes.

    scale = float(x.norm() * back.norm() + y.norm() * u.norm())
    assert float((y * u).sum() - (x * back).sum()) == pytest.approx(
        0, abs=64 * torch.finfo(torch.float64).eps * scale
    )


@pytest.mark.parametrize("make", LINEAR.values(), ids=LINEAR)
@given(size=sizes)
@settings(max_examples=10, deadline=None)
def test_sizes_and_lift_belong_together(make, size: tuple[int, int]) -> None:
    A = make(*size)
    y = A(_draw(1, 3, *size))
    assert tuple(y.shape[-2:]) == A.output_size(*size)
    assert tuple(A.lift(y, size).shape) == (1, 3, *size)


@pytest.mark.parametrize("make", LINEAR.values(), ids=LINEAR)
def test_linear_and_apart(make) -> None:
    A = make(21, 26)
    assert isinstance(A, Degradation)
    assert A.linear
    a, b = _draw(1, 3, 21, 26), _draw(1, 3, 21, 26, seed=1)
    torch.testing.assert_close(A(2 * a - 3 * b), 2 * A(a) - 3 * A(b), rtol=0, atol=1e-13)
    torch.testing.assert_close(A(torch.cat([a, b]))[1:], A(b), rtol=0, atol=1e-14)


@pytest.mark.parametrize("make", LINEAR.values(), ids=LINEAR)
def test_derivatives_are_the_map_itself(make) -> None:
    A = make(17, 22)
    x, v = _draw(1, 3, 17, 22), _draw(1, 3, 17, 22, seed=1)
    y, jv = torch.func.jvp(A, (x,), (v,))[:2]
    torch.testing.assert_close(jv, A(v), rtol=0, atol=1e-13)
    u = _draw(*y.shape, seed=2)
    (pulled,) = torch.func.vjp(A, x)[1](u)
    torch.testing.assert_close(pulled, A.adjoint(u, (17, 22)), rtol=0, atol=1e-13)


@pytest.mark.parametrize("make", LINEAR.values(), ids=LINEAR)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dtype_is_kept(make, dtype: torch.dtype) -> None:
    A = make(24, 24)
    x = _draw(1, 3, 24, 24).clamp(-1, 1)
    y = A(x.to(dtype))
    assert y.dtype == A.adjoint(y, (24, 24)).dtype == A.lift(y, (24, 24)).dtype == dtype
    # Rounding the input and the result, and in low precision a chain's intermediate results, each costs half
    # an eps of a value near 1.

    torch.testing.assert_close(y.double(), A(x), rtol=0, atol=4 * torch.finfo(dtype).eps)


def test_a_matrix_first_made_in_inference_mode_serves_autograd_later() -> None:
    for A in (Downsample(3.21), GaussianBlur(1.234), Compose(Downsample(3.77), GaussianBlur(2.345))):
        with torch.inference_mode():
            A(torch.zeros(1, 3, 19, 23))
        x = torch.zeros(1, 3, 19, 23, requires_grad=True)
        A(x).sum().backward()
        assert x.grad is not None
        assert x.grad.sum() > 0
