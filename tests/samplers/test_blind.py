"""Parameters of the degradation that are found: recovery, the spread over draws, and what is said."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from paseo.base import Condition, Counted, Knob, Problem, Step
from paseo.degrade import GaussianBlur
from paseo.degrade.family import PARAMETERS, SUBCELLS, condition_of
from paseo.errors import BadInput
from paseo.linalg import linearize
from paseo.noise import Noise
from paseo.operators.config import OperatorConfig
from paseo.operators.exact import LatentBlur, Map
from paseo.operators.family import Family
from paseo.operators.net import OperatorNet
from paseo.priors import MixturePrior
from paseo.priors.gaussian import GaussianPrior
from paseo.samplers import PASEO
from paseo.samplers.blind import GRID, Separate, parabola, runs_for

SIDE = 24
NOISE = 0.05


class Blur:
    """A latent blur whose width can be turned."""

    def __init__(self, std: float) -> None:
        self.std, self.exact = std, LatentBlur.gaussian((SIDE, SIDE), std)

    def __call__(self, z: Tensor) -> Tensor:
        return self.exact(z)

    def linearize(self, z: Tensor) -> tuple[Tensor, Map, Map]:
        return self.exact.linearize(z)

    def knobs(self) -> dict[str, Knob]:
        return {"sigma": Knob(self.std, 0.4, 4.0)}

    def turned(self, values: dict[str, float]) -> Blur:
        return Blur(values["sigma"])


def pictures(count: int = 6) -> Tensor:
    """A few sharp pictures, the only ones that the prior knows."""
    return GaussianPrior.natural((2, SIDE, SIDE)).sample(Noise(list(range(100, 100 + count))))


def prior() -> MixturePrior:
    return MixturePrior.isotropic(pictures(), 0.02)


def blurred(truth: float, start: float, rows: int) -> Problem:
    y = Blur(truth)(pictures()[:1]).expand(rows, -1, -1, -1)
    y = y + NOISE * Noise([7]).like(y[:1])  # one measurement, several draws
    return Problem(y, y, NOISE, Blur(start))


@pytest.mark.parametrize("truth", [0.8, 1.7, 2.8])
def test_the_width_of_a_blur_is_found(truth: float) -> None:
    shown: list[Step] = []
    sampler = PASEO(steps=12, operator_noise=NOISE, cg_budget=3, blind=("sigma",))
    problem = blurred(truth, 1.0, 2)
    z = sampler(prior(), problem, Noise([0, 1]), shown.append)
    found = shown[-1].found["sigma"]
    assert found == pytest.approx([truth] * 2, rel=0.1)
    told = PASEO(steps=12, operator_noise=NOISE, cg_budget=3)
    known = told(prior(), blurred(truth, truth, 2), Noise([0, 1]))
    assert (z - known).square().mean().sqrt() < 0.1


def test_a_sample_alone_finds_what_it_finds_in_company() -> None:
    sampler = PASEO(steps=6, operator_noise=NOISE, blind=("sigma",))
    shown: list[Step] = []
    both = sampler(prior(), blurred(1.7, 1.0, 2), Noise([3, 4]), shown.append)
    alone = sampler(prior(), blurred(1.7, 1.0, 1), Noise([4]), shown.append)
    assert torch.allclose(both[1:], alone, atol=1e-4)
    assert shown[-1].found["sigma"][0] == pytest.approx(shown[0].found["sigma"][1], rel=1e-3)


def test_the_calls_are_counted() -> None:
    sampler, counted = PASEO(steps=4, operator_noise=NOISE, blind=("sigma",)), Counted(prior())
    sampler(counted, blurred(1.7, 1.0, 1), Noise([0]))
    assert counted.nfe == sampler.nfe > runs_for(("sigma",)) * GRID


def test_each_sample_with_its_own_operator() -> None:
    z, v = torch.randn(2, 2, SIDE, SIDE), torch.randn(2, 2, SIDE, SIDE)
    one, other = Blur(0.7), Blur(2.0)
    h, J, JT = linearize(Separate((one, other)), z)
    assert torch.equal(h, torch.cat([one(z[:1]), other(z[1:])]))
    assert torch.allclose((J(v) * z).sum(), (v * JT(z)).sum(), rtol=1e-4)


def test_the_least_point_of_a_parabola() -> None:
    values = torch.tensor([[1.0], [2.0], [3.0], [4.0]])
    assert parabola(values, (values - 2.3).square(), 1.0).item() == pytest.approx(2.3, abs=1e-5)
    assert parabola(values, values, 1.0).item() == 1.0  # at the end of the range


def family_operator() -> OperatorNet:
    torch.manual_seed(0)
    config = OperatorConfig(4, noise_range=(0.0, 0.2), family=Family(PARAMETERS, {}, SUBCELLS))
    net = OperatorNet(config)
    torch.nn.init.normal_(net.encoder.shift.weight, std=0.1)
    return net


def test_a_familys_operator_is_turned() -> None:
    net = family_operator()
    bound = net.bind(0.01, condition_of(GaussianBlur(1.0), 8, (64, 64)))
    turned = bound.turned({"sigma": 2.0})
    other = net.bind(0.01, condition_of(GaussianBlur(2.0), 8, (64, 64)))
    z = torch.randn(1, 4, 8, 8)
    assert torch.allclose(turned(z), other(z), atol=1e-4)  # the kernel's own moments are cut off a little
    assert torch.allclose(turned.linearize(z)[0], turned(z), atol=1e-4)
    assert not torch.allclose(turned(z), bound(z), atol=1e-3)
    assert bound.knobs()["sigma"].value == pytest.approx(1.0, rel=1e-3)


def test_what_cannot_be_turned_is_said() -> None:
    problem = blurred(1.0, 1.0, 1)
    with pytest.raises(BadInput, match="factor can be turned; it has sigma"):
        PASEO(blind=("factor",))(prior(), problem, Noise([0]))
    plain = Problem(problem.y, problem.y_z, NOISE, lambda z: z)
    assert "family" in str(PASEO(blind=("sigma",)).unsupported(plain))
    dedicated = OperatorNet(4).bind(0.01)
    assert dedicated.knobs() == {}
    assert Condition({}).seen is None
