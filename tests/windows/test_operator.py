"""An operator in windows: one map, its derivative, and its derivative's transpose."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from paseo.base import HasKnobs, LocalOperator
from paseo.degrade import GaussianBlur
from paseo.degrade.family import PARAMETERS, SUBCELLS, condition_of
from paseo.errors import BadInput
from paseo.linalg.jacobian import autograd_linearize
from paseo.operators.config import OperatorConfig
from paseo.operators.family import Family
from paseo.operators.net import OperatorNet
from paseo.operators.tangent import BoundOperator
from paseo.operators.windows import WindowedOperator
from paseo.windows import Area, Cover, Windows

CANVAS = (40, 56)
COVER = Cover(CANVAS, Windows(side=24, halo=2, blend=4), grain=4)


def operator() -> BoundOperator:
    torch.manual_seed(0)
    net = OperatorNet(4).double().requires_grad_(False)
    return net.bind(0.01)


def dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum()


@pytest.mark.slow
@pytest.mark.parametrize("keep", [True, False])
def test_products_are_transposes_and_the_derivative_of_the_value(keep: bool) -> None:
    H = WindowedOperator(operator(), COVER, keep)
    z, v, u = torch.randn(3, 2, 4, *CANVAS, dtype=torch.double).unbind(0)
    h, J, JT = H.linearize(z)
    torch.testing.assert_close(h, H(z))
    torch.testing.assert_close(dot(J(v), u), dot(v, JT(u)), rtol=1e-10, atol=0)
    reference = autograd_linearize(H, z)
    torch.testing.assert_close(J(v), reference.J(v), rtol=1e-7, atol=1e-9)
    torch.testing.assert_close(JT(u), reference.JT(u), rtol=1e-7, atol=1e-9)


def test_a_window_keeps_its_place_on_the_canvas() -> None:
    """The position map at a window is the canvas's, cut: a mask that was learnt stays where it is."""
    H, area = operator(), Area(16, 32, 24, 24)
    assert isinstance(H, LocalOperator)
    whole = H.net.positions(torch.empty(1, 4, *CANVAS, dtype=torch.double))
    here = H.at(area, CANVAS)
    torch.testing.assert_close(
        here.net.positions(torch.empty(1, 4, 24, 24, dtype=torch.double)), area.cut(whole)
    )
    assert here._weights() is H._weights()
    assert H.net.position.shape[-2:] == (64, 64)


def test_one_window_is_the_operator() -> None:
    H = operator()
    z = torch.randn(1, 4, *CANVAS, dtype=torch.double)
    torch.testing.assert_close(WindowedOperator(H, Cover(CANVAS, Windows(64), 4))(z), H(z))


def family_operator() -> BoundOperator:
    torch.manual_seed(0)
    family = Family(PARAMETERS, {}, SUBCELLS, local=True)
    net = OperatorNet(OperatorConfig(4, noise_range=(0.0, 0.2), family=family))
    torch.nn.init.normal_(net.encoder.shift.weight, std=0.1)
    condition = condition_of(GaussianBlur(1.0), 8, (8 * CANVAS[0], 8 * CANVAS[1]))
    return net.double().requires_grad_(False).bind(0.01, condition)


def test_a_familys_operator_is_turned_in_its_windows() -> None:
    """What it stands at after a turn is what the untiled one stands at, on the same windows."""
    H = WindowedOperator(family_operator(), COVER)
    assert isinstance(H, HasKnobs)
    assert H.knobs() == H.operator.knobs()
    turned = H.turned({"sigma": 2.5})
    assert (turned.cover, turned.keep) == (H.cover, H.keep)
    assert turned.knobs()["sigma"].value == pytest.approx(2.5)
    z = torch.randn(1, 4, *CANVAS, dtype=torch.double)
    assert not torch.allclose(turned(z), H(z), atol=1e-3)
    wide = (8, 96)  # two windows whose halo is as wide as its reach
    H = WindowedOperator(family_operator(), Cover(wide, Windows(76, halo=16, blend=4), 4))
    z = torch.randn(1, 4, *wide, dtype=torch.double)
    torch.testing.assert_close(
        H.turned({"sigma": 2.5})(z), family_operator().turned({"sigma": 2.5})(z), rtol=1e-9, atol=1e-9
    )


def test_a_dedicated_operator_has_nothing_to_turn_in_windows_either() -> None:
    H = WindowedOperator(operator(), COVER)
    assert H.knobs() == {}
    with pytest.raises(BadInput, match="no sigma to be turned"):
        H.turned({"sigma": 2.0})
