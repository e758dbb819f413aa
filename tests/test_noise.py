"""One generator per sample."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from paseo.noise import Noise


def test_a_sample_alone_equals_the_same_sample_in_company() -> None:
    many = Noise([3, 4, 5])
    draws = [many.normal((3, 2, 4)) for _ in range(3)]
    alone = Noise(4)
    for draw in draws:
        assert torch.equal(draw[1:2], alone.normal((1, 2, 4)))


def test_the_same_seed_gives_the_same_numbers_and_seed_0_is_a_seed() -> None:
    assert torch.equal(Noise(0).normal((1, 9)), Noise(0).normal((1, 9)))
    assert not torch.equal(Noise(0).normal((1, 9)), Noise(1).normal((1, 9)))
    assert Noise([0, 7]).seeds == [0, 7]


def test_numpy_integers_are_seeds() -> None:
    assert torch.equal(Noise(np.int64(5)).normal((1, 4)), Noise(5).normal((1, 4)))
    assert Noise(np.arange(3)).seeds == [0, 1, 2]


def test_like_takes_dtype_and_values_from_float32() -> None:
    x = torch.zeros(2, 5, dtype=torch.float64)
    assert Noise([1, 2]).like(x).dtype == torch.float64
    assert torch.equal(Noise([1, 2]).like(x).float(), Noise([1, 2]).normal((2, 5)))


def test_a_generator_may_be_given() -> None:
    generator = torch.Generator().manual_seed(11)
    assert torch.equal(Noise([generator]).normal((1, 3)), Noise(11).normal((1, 3)))


def test_signs_are_fair() -> None:
    signs = Noise(0).signs(torch.zeros(1, 40_000))
    assert set(signs.unique().tolist()) == {-1.0, 1.0}
    assert abs(signs.mean().item()) < 4 / 200  # four standard errors


def test_normal_moments() -> None:
    z = Noise(range(4)).normal((4, 25_000)).double()
    n = z.numel()
    assert abs(z.mean().item()) < 4 / n**0.5
    assert abs(z.var().item() - 1) < 4 * (2 / n) ** 0.5


def test_what_cannot_be_used() -> None:
    with pytest.raises(ValueError, match="at least one seed"):
        Noise([])
    with pytest.raises(ValueError, match="got -1"):
        Noise(-1)
    with pytest.raises(ValueError, match="A batch of 3 needs as many seeds, got 2"):
        Noise([0, 1]).normal((3, 2))


def test_float32_whatever_the_default_is() -> None:
    usual = torch.get_default_dtype()
    expected = Noise([3, 4]).normal((2, 5))
    torch.set_default_dtype(torch.float64)
    try:
        found = Noise([3, 4]).normal((2, 5))
        signs = Noise([3, 4]).signs(torch.zeros(2, 5, dtype=torch.float32))
    finally:
        torch.set_default_dtype(usual)
    assert found.dtype == signs.dtype == torch.float32
    assert torch.equal(found, expected)
