"""A degradation that is known by before/after pictures only."""

from __future__ import annotations

import pytest
import torch

from paseo.base import Degradation
from paseo.degrade import KnownByExample
from paseo.degrade.resize import resize
from paseo.errors import BadInput, Unsupported


def test_it_can_be_lifted_and_nothing_else() -> None:
    same, half = KnownByExample("scanner"), KnownByExample("camera", 2)
    assert isinstance(same, Degradation)
    y = torch.rand(2, 3, 10, 14, generator=torch.Generator().manual_seed(0))
    assert same.lift(y) is y
    assert torch.equal(half.lift(y), resize(y, (20, 28)))
    assert half.lift(y, (19, 27)).shape[-2:] == (19, 27)
    assert half.output_size(19, 27) == (10, 14)
    assert half.params == {"factor": 2}
    assert not half.linear
    with pytest.raises(Unsupported, match="camera is known by example only"):
        half(y)


@pytest.mark.parametrize("factor", [0, -1, 1.5])
def test_the_factor_is_a_whole_number(factor: float) -> None:
    with pytest.raises(BadInput, match="whole number"):
        KnownByExample("camera", factor)  # type: ignore[arg-type]
