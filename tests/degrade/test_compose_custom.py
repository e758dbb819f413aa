"""Chains of degradations and users' own functions."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from paseo.base import Degradation
from paseo.degrade import JPEG, CentreBox, Compose, Custom, Downsample, GaussianBlur, load_function, task
from paseo.errors import BadInput, Unsupported
from paseo.trust import vouch


def fog(x: Tensor) -> Tensor:
    return 0.6 * x + 0.4


def halve(x: Tensor) -> Tensor:
    return F.avg_pool2d(x, 2)


class Physics:
    """The shape of a deepinv physics: `A`, and `A_adjoint` where it is linear."""

    def __init__(self) -> None:
        self.adjoint_calls = 0

    def A(self, x: Tensor) -> Tensor:
        return halve(x)

    def A_adjoint(self, y: Tensor) -> Tensor:
        self.adjoint_calls += 1
        return F.interpolate(y, scale_factor=2, mode="nearest") / 4


def test_a_chain_applies_from_first_to_last() -> None:
    x = torch.rand(1, 3, 37, 30, dtype=torch.float64) * 2 - 1
    chain = Compose(GaussianBlur(1.0), Downsample(4), JPEG(30))
    assert isinstance(chain, Degradation)
    assert chain.name == "blur+sr4+jpeg"
    assert torch.equal(chain(x), JPEG(30)(Downsample(4)(GaussianBlur(1.0)(x))))
    assert chain.output_size(37, 30) == (10, 8)
    assert torch.equal(chain.lift(chain(x), (37, 30)), Downsample(4).lift(chain(x), (37, 30)))
    assert tuple(chain.lift(chain(x)).shape[-2:]) == (40, 32)
    assert chain.params["parts"][1] == {"name": "sr4", "factor": 4}


def test_a_chain_knows_sizes_in_between() -> None:
    x = torch.rand(1, 3, 35, 35, dtype=torch.float64)
    chain = Compose(Downsample(2), Downsample(2), CentreBox())  # 35 → 18 → 9
    y = chain(x)
    assert chain.output_size(35, 35) == (9, 9)
    assert chain.lift(y, (35, 35)).shape == x.shape
    assert tuple(chain.lift(y).shape[-2:]) == (36, 36)
    with pytest.raises(BadInput, match="40×40"):
        chain.lift(y, (40, 40))


def test_a_chain_with_jpeg_has_no_adjoint() -> None:
    chain = Compose(GaussianBlur(), JPEG())
    assert not chain.linear
    with pytest.raises(Unsupported, match="jpeg is not linear"):
        chain.adjoint(torch.zeros(1, 3, 8, 8))


def test_chains_refuse_what_is_no_degradation() -> None:
    with pytest.raises(BadInput, match="at least one"):
        Compose()
    with pytest.raises(BadInput, match="Custom"):
        Compose(halve)  # ty: ignore[invalid-argument-type]


def test_a_function_sees_unit_images_and_gives_signed_ones() -> None:
    x = torch.rand(2, 3, 8, 8) * 2 - 1
    A = Custom(fog)
    assert isinstance(A, Degradation)
    torch.testing.assert_close(A(x), fog((x + 1) / 2) * 2 - 1)
    torch.testing.assert_close(Custom(fog, range="signed")(x), fog(x))
    assert A.name == "fog"
    assert not A.linear
    assert torch.equal(A.lift(x), x)


def test_lift_finds_the_factor_by_trying() -> None:
    A = Custom(halve)
    y = torch.zeros(1, 3, 17, 20)
    assert A.output_size(35, 40) == (17, 20)
    assert tuple(A.lift(y).shape[-2:]) == (34, 40)
    assert tuple(A.lift(y, (35, 40)).shape[-2:]) == (35, 40)


def test_a_function_of_one_size_only_asks_for_the_size() -> None:
    def fixed(x: Tensor) -> Tensor:
        return x.reshape(1, 3, 6, 6)

    with pytest.raises(Unsupported, match="Give `size`"):
        Custom(fixed).lift(torch.zeros(1, 3, 6, 6))
    assert tuple(Custom(fixed).lift(torch.zeros(1, 3, 6, 6), (6, 6)).shape) == (1, 3, 6, 6)


def test_an_object_with_A_by_its_shape_alone() -> None:
    physics = Physics()
    A = Custom(physics, linear=True)
    x, u = torch.rand(1, 3, 8, 8, dtype=torch.float64), torch.rand(1, 3, 4, 4, dtype=torch.float64)
    torch.testing.assert_close((A(x) * u).sum(), (x * A.adjoint(u)).sum())
    assert physics.adjoint_calls == 1
    assert A.name == "Physics"


def test_an_adjoint_is_for_functions_that_are_linear_on_signed_images() -> None:
    y = torch.zeros(1, 3, 8, 8)
    with pytest.raises(Unsupported, match="not declared linear"):
        Custom(fog).adjoint(y)
    with pytest.raises(Unsupported, match="adds a constant"):
        Custom(fog, linear=True).adjoint(y)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x[0], "shape"),
        (lambda x: x[:, :1], "shape"),
        (lambda x: x.numpy(), "ndarray"),
        (lambda x: (x * 255).to(torch.uint8), "uint8"),
        (lambda x: x * 255, "values from"),
        (lambda x: x / 0 * 0, "NaN"),
        (lambda x: x[:1], "one measurement per image, got 1 for 2"),
        (lambda x: x.to("meta"), "meta"),
    ],
)
def test_what_a_function_returns_is_checked(function, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        Custom(function)(torch.ones(2, 3, 8, 8))


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(BadInput, match="function or an object"):
        Custom(3)
    with pytest.raises(BadInput, match="unit"):
        Custom(fog, range="255")  # ty: ignore[invalid-argument-type]


def test_functions_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "weather_for_tests.py").write_text("def fog(x):\n    return 0.6 * x + 0.4\n")
    (tmp_path / "broken_for_tests.py").write_text("1 / 0\n")
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    x = torch.rand(1, 3, 8, 8)
    for spec in ("weather_for_tests:fog", "weather_for_tests.py:fog", f"{tmp_path}/weather_for_tests.py:fog"):
        A = Custom.load(spec)
        assert A.params["function"] == spec
        torch.testing.assert_close(A(x), Custom(fog)(x))
    assert sys.path == path
    made = task("weather_for_tests:fog")
    assert made.name == "weather_for_tests:fog"
    torch.testing.assert_close(made(x), Custom(fog)(x))
    for spec, message in {
        "weather_for_tests:rain": "It has: fog",
        "no_such_module_here:fog": "cannot be imported",
        "broken_for_tests:fog": "ZeroDivisionError",
        "broken_for_tests.py:fog": "ZeroDivisionError",
        "missing.py:fog": "does not exist",
        "fog": "module:function",
        "a/b:fog": "not the name of a module",
        "weather_for_tests:": "module:function",
    }.items():
        with pytest.raises(BadInput, match=message):
            load_function(vouch(spec))
