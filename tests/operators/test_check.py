"""The operator check measures what it says: known errors in, the same numbers out."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from paseo.errors import BadInput
from paseo.operators.check import check_operator
from paseo.operators.net import OperatorNet
from paseo.operators.reference import Reference, in_float64


class Patches(nn.Module):
    """A codec that is exact: 2×2 patches become 12 channels, turned by a fixed rotation."""

    factor = 2

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.turn = nn.Parameter(torch.linalg.qr(torch.randn(12, 12)).Q)

    def encode(self, x: Tensor) -> Tensor:
        return torch.einsum("ij,bjhw->bihw", self.turn, F.pixel_unshuffle(x, 2))

    def decode(self, z: Tensor) -> Tensor:
        return F.pixel_shuffle(torch.einsum("ji,bjhw->bihw", self.turn, z), 2)


class Degrade:
    """Any function of pixels that keeps the size."""

    name, linear = "toy", False

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        self.function = function

    def __call__(self, x: Tensor) -> Tensor:
        return self.function(x)

    def lift(self, y: Tensor, size: tuple[int, int] | None = None) -> Tensor:
        assert size in (None, tuple(y.shape[-2:]))
        return y

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        return height, width


def dim(x: Tensor) -> Tensor:
    return 0.5 * x + 0.1 * x.flip(-1)  # singular values 0.6 and 0.4


def images(count: int = 2) -> Tensor:
    return torch.rand(count, 3, 8, 8, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


def chain(
    function: Callable[[Tensor], Tensor], factor: float = 1.0, offset: float = 0.0
) -> Callable[[Tensor], Tensor]:
    """E∘A∘D in float64, scaled and shifted by known amounts."""
    codec = Patches().double()
    return lambda z: factor * codec.encode(function(codec.decode(z))) + offset


def test_the_chain_itself_passes() -> None:
    check = check_operator(
        chain(dim), Patches(), Degrade(dim), images(), operator_noise=0.1, power_iterations=60
    )
    row = check.rows[0]
    assert (check.precision, row.latents, row.images, row.reliable) == ("float64", "clean", 2, True)
    assert row.mean.value_error < 1e-12
    assert row.mean.cosine == pytest.approx(1, abs=1e-9)
    assert row.mean.magnitude_error < 1e-9
    assert row.mean.step_spread < 1e-9
    assert row.mean.adjoint_error < 1e-14
    assert row.mean.norm == pytest.approx(0.6, rel=1e-6)
    assert row.condition_bound == pytest.approx(1 + (250 * 0.6 / 0.1) ** 2, rel=1e-5)


def test_known_errors_are_reported() -> None:
    row = check_operator(chain(dim, factor=1.25, offset=0.5), Patches(), Degrade(dim), images()).rows[0]
    assert row.mean.cosine == pytest.approx(1, abs=1e-9)
    assert row.mean.magnitude_error == pytest.approx(0.25, abs=1e-9)
    truth = chain(dim)(chain(lambda x: x)(Patches().double().encode(2 * images() - 1)))
    want = (0.25 * truth + 0.5).square().flatten(1).mean(1).sqrt().mean().item()
    assert row.mean.value_error == pytest.approx(want, rel=1e-6)


def test_the_wrong_direction_is_seen() -> None:
    row = check_operator(chain(lambda x: x.flip(-2)), Patches(), Degrade(dim), images(), directions=8).rows[0]
    assert abs(row.mean.cosine) < 5 / math.sqrt(
        16 * 192
    )  # of independent vectors: std 1/√n, here n = 192, sixteen of them
    assert row.mean.do_nothing_error > 0.1


def test_a_curved_chain_in_the_step_spread() -> None:
    codec, bend = Patches(), Degrade(lambda x: torch.tanh(2 * x))
    row = check_operator(chain(lambda x: torch.tanh(2 * x)), codec, bend, images()).rows[0]
    assert 1e-7 < row.mean.step_spread < 1e-2  # the truncation error ε² of the largest step
    assert row.mean.cosine == pytest.approx(1, abs=1e-6)


def test_a_rounding_degradation_is_called_unreliable() -> None:
    row = check_operator(chain(dim), Patches(), Degrade(lambda x: (32 * x).round() / 32), images()).rows[0]
    assert not row.reliable
    assert row.mean.step_spread > 0.3


def test_table_and_json() -> None:
    check = check_operator(
        chain(dim),
        Patches(),
        Degrade(lambda x: torch.zeros_like(x)),
        images(),
        reconstructions=images(3),
        name="zero",
    )
    table = check.table()
    assert [line.split()[0] for line in table.splitlines()[2:4]] == ["clean", "re-encoded"]
    values = json.loads(json.dumps(check.to_dict(), allow_nan=False))
    assert values["rows"][0]["mean"]["magnitude_error"] is None  # over a derivative that is zero
    assert values["rows"][1]["images"] == 3
    assert values["rows"][0]["mean"]["cosine"] == 0
    assert len(values["rows"][1]["each"]) == 3


def test_the_network_is_bound_and_its_adjoint_error_is_rounding() -> None:
    seen: list[tuple[int, int]] = []
    codec, net, z = Patches(), OperatorNet(12), torch.randn(2, 12, 4, 4)
    check = check_operator(
        net, codec, Degrade(dim), latents=z, sigma_y=0.02, progress=lambda i, n: seen.append((i, n))
    )
    mean = check.rows[0].mean
    assert seen == [(1, 2), (2, 2)]
    assert mean.adjoint_error < 1e-6
    want = (net.bind(0.02)(z) - chain(dim)(z.double())).square().flatten(1).mean(1).sqrt().mean().item()
    assert mean.value_error == pytest.approx(want, rel=1e-5)
    assert mean.norm == pytest.approx(
        _largest_singular_value(net, z), rel=0.05
    )  # power iteration comes from below


def _largest_singular_value(net: OperatorNet, z: Tensor) -> float:
    jacobians = [
        torch.autograd.functional.jacobian(net.bind(0.02), x).reshape(x.numel(), -1) for x in z.split(1)
    ]
    return max(torch.linalg.matrix_norm(J, 2).item() for J in jacobians)


def test_the_same_seed_gives_the_same_numbers() -> None:
    first, again, other = (
        check_operator(chain(dim), Patches(), Degrade(torch.tanh), images(), seed=s).to_dict()
        for s in (1, 1, 2)
    )
    assert first == again
    assert first["rows"] != other["rows"]


def test_a_codec_that_cannot_be_copied_runs_in_float32() -> None:
    class Stubborn(Patches):
        def __deepcopy__(self, memo: object) -> Stubborn:
            raise TypeError("no copies")

    assert in_float64(Stubborn()) is None
    operator = Patches()
    check = check_operator(
        lambda z: operator.encode(dim(operator.decode(z))), Stubborn(), Degrade(dim), images().float()
    )
    assert check.precision == "float32"
    assert check.rows[0].mean.cosine > 0.9999


def test_the_codec_itself_stays_as_it_is() -> None:
    codec = Patches()
    Reference(codec, Degrade(dim))
    assert codec.turn.dtype == torch.float32


@pytest.mark.parametrize(
    "options",
    [
        {"images": None},
        {"latents": torch.zeros(1, 12, 4, 4)},
        {"images": 2 * images() - 1},
        {"images": images()[0]},
        {"images": images() * torch.nan},
        {"operator_noise": 0.0},
        {"directions": 0},
        {"steps": (1e-3,)},
    ],
)
def test_bad_input_is_refused(options: dict[str, object]) -> None:
    given: dict[str, object] = {"images": images(), **options}
    with pytest.raises(BadInput):
        check_operator(chain(dim), Patches(), Degrade(dim), **given)  # ty: ignore[invalid-argument-type]
