"""Parameters of the degradation that are found: recovery, how far they may be off, and what is said."""

from __future__ import annotations

import math
from statistics import fmean, median

import pytest
import torch
from torch import Tensor

from paseo.base import Condition, Counted, Knob, Problem, Step
from paseo.degrade import Downsample, GaussianBlur, task
from paseo.degrade.family import PARAMETERS, SUBCELLS, condition_of
from paseo.errors import BadInput
from paseo.linalg import linearize
from paseo.noise import Noise
from paseo.operators.config import OperatorConfig
from paseo.operators.exact import LatentBlur, Map
from paseo.operators.family import Family
from paseo.operators.knobs import blurred, enlarged
from paseo.operators.net import OperatorNet
from paseo.priors import MixturePrior
from paseo.priors.gaussian import GaussianPrior
from paseo.samplers import PASEO
from paseo.samplers.blind import Separate, find
from paseo.samplers.spectrum import estimate

SIDE = 48
NOISE = 0.05
WIDTH = Knob(1.0, 0.1, 5.0, float, blurred)
OCTAVES = Knob(0.0, 0.0, 3.0, lambda v: math.pow(2, v), enlarged)


class Blur:
    """A latent blur whose width can be turned."""

    def __init__(self, std: float) -> None:
        self.std, self.exact = std, LatentBlur.gaussian((SIDE, SIDE), std)

    def __call__(self, z: Tensor) -> Tensor:
        return self.exact(z)

    def linearize(self, z: Tensor) -> tuple[Tensor, Map, Map]:
        return self.exact.linearize(z)

    def knobs(self) -> dict[str, Knob]:
        return {"sigma": Knob(self.std, 0.4, 4.0, float, blurred)}

    def turned(self, values: dict[str, float]) -> Blur:
        return Blur(values["sigma"])


def pictures(count: int = 6) -> Tensor:
    """A few sharp pictures, the only ones that the prior knows."""
    return GaussianPrior.natural((2, SIDE, SIDE)).sample(Noise(list(range(100, 100 + count))))


def prior() -> MixturePrior:
    return MixturePrior.isotropic(pictures(), 0.02)


def blurred_pictures(truths: list[float], start: float) -> Problem:
    """One measurement per width; the same width twice is two draws of one measurement."""
    y = torch.cat([Blur(truth)(pictures()[:1]) + NOISE * Noise([7]).like(pictures()[:1]) for truth in truths])
    return Problem(y, y, NOISE, Blur(start))


@pytest.mark.parametrize("truth", [0.8, 1.7, 2.8])
def test_the_width_of_a_blur_is_found(truth: float) -> None:
    shown: list[Step] = []
    sampler = PASEO(steps=12, operator_noise=NOISE, cg_budget=3, blind=("sigma",))
    z = sampler(prior(), blurred_pictures([truth] * 2, 1.0), Noise([0, 1]), shown.append)
    found = shown[-1].found
    assert found["sigma"] == pytest.approx([truth] * 2, rel=0.15)
    assert found["sigma"][0] == found["sigma"][1]  # draws of one measurement
    assert all(0.005 < std / truth < 0.3 for std in found["sigma_std"])
    told = PASEO(steps=12, operator_noise=NOISE, cg_budget=3)
    known = told(prior(), blurred_pictures([truth] * 2, truth), Noise([0, 1]))
    assert (z - known).square().mean().sqrt() < 0.1


def test_a_sample_alone_finds_what_it_finds_in_company() -> None:
    sampler = PASEO(steps=6, operator_noise=NOISE, blind=("sigma",))
    shown: list[Step] = []
    both = sampler(prior(), blurred_pictures([2.8, 1.7], 1.0), Noise([3, 4]), shown.append)
    alone = sampler(prior(), blurred_pictures([1.7], 1.0), Noise([4]), shown.append)
    assert torch.allclose(both[1:], alone, atol=1e-4)
    assert shown[-1].found["sigma"][0] == pytest.approx(shown[0].found["sigma"][1], rel=1e-6)
    assert shown[0].found["sigma"][0] > 1.2 * shown[0].found["sigma"][1]


def test_finding_costs_no_call_of_the_denoiser() -> None:
    sampler, counted = PASEO(steps=4, operator_noise=NOISE, blind=("sigma",)), Counted(prior())
    sampler(counted, blurred_pictures([1.7], 1.0), Noise([0]))
    assert counted.nfe == sampler.nfe == 5


def photographs(side: int = 128) -> Tensor:
    """(4,3,side,side) in [-1,1]: real ones, sharp to the pixel."""
    from PIL import Image
    from skimage import data

    from paseo.images import to_tensor

    found = [Image.fromarray(a) for a in (data.astronaut(), data.coffee(), data.chelsea(), data.rocket())]
    small = [im.resize((im.width // 2, im.height // 2), Image.Resampling.LANCZOS) for im in found]
    crops = [im.crop((c, 10, c + side, 10 + side)) for im, c in zip(small, (20, 60, 60, 100), strict=True)]
    return torch.stack([to_tensor(im) for im in crops]) * 2 - 1


def seen(name: str, x: Tensor, sigma_y: float) -> Tensor:
    """A measurement with noise, brought back to the picture's size and to 8 bit."""
    A = task(name).degradation
    y = A(x) + 2 * sigma_y * torch.randn(A(x).shape, generator=torch.Generator().manual_seed(0))
    return ((A.lift(y, (x.shape[-2], x.shape[-1])) / 2 + 0.5).clamp(0, 1) * 255).round() / 255 * 2 - 1


@pytest.mark.parametrize("sigma", [1.0, 2.0, 4.0])
def test_photographs_show_the_width_of_their_blur(sigma: float) -> None:
    """Their own softness adds a little; another noise level is told than theirs."""
    found = [estimate(seen(f"blur:{sigma}", x[None], 0.004)[0], 2 * 0.01, WIDTH) for x in photographs()]
    assert fmean(one.value for one in found) == pytest.approx(sigma, rel=0.12)
    assert all(abs(one.value / sigma - 1) < 0.2 for one in found)
    assert all(0.01 < one.std / sigma < 0.2 for one in found)


@pytest.mark.parametrize("factor", [2.0, 3.0, 4.0])
def test_enlarged_photographs_show_their_factor(factor: float) -> None:
    found = [estimate(seen(f"sr:{factor}", x[None], 0.003)[0], 2 * 0.01, OCTAVES) for x in photographs()]
    assert median(OCTAVES.read(one.value) for one in found) == pytest.approx(factor, rel=0.08)


def test_sharp_photographs_show_no_blur() -> None:
    for x in photographs():
        assert estimate(x, 2 * 0.01, WIDTH).value < 0.7


def test_a_picture_of_a_few_pixels_shows_nothing() -> None:
    found = estimate(torch.zeros(3, 3, 3), 0.02, WIDTH)
    assert (found.value, found.std) == (1.0, pytest.approx(4.9 / math.sqrt(12)))
    assert math.isfinite(estimate(torch.zeros(3, 64, 64), 0.02, WIDTH).value)  # a flat one


def test_a_large_picture_is_read_as_its_parts_are() -> None:
    x = photographs()[:1].repeat(1, 1, 2, 3)
    assert estimate(seen("blur:2", x, 0.01)[0], 0.02, WIDTH).value == pytest.approx(2, rel=0.15)


def test_each_sample_with_its_own_operator() -> None:
    z, v = torch.randn(2, 2, SIDE, SIDE), torch.randn(2, 2, SIDE, SIDE)
    one, other = Blur(0.7), Blur(2.0)
    h, J, JT = linearize(Separate((one, other)), z)
    assert torch.equal(h, torch.cat([one(z[:1]), other(z[1:])]))
    assert torch.allclose((J(v) * z).sum(), (v * JT(z)).sum(), rtol=1e-4)


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


def test_what_was_found_is_what_the_operator_stands_at() -> None:
    y = seen("blur:2", photographs()[:2], 0.01)
    bound = family_operator().bind(0.01, condition_of(GaussianBlur(1.0), 8, (128, 128)))
    problem, found = find(("sigma",), Problem(y, torch.zeros(2, 4, 16, 16), 0.02, bound))
    assert isinstance(problem.operator, Separate)
    stands = [H.knobs()["sigma"].value for H in problem.operator.operators if isinstance(H, type(bound))]
    assert stands == pytest.approx(found["sigma"])
    assert len(found["sigma_std"]) == 2


def test_what_cannot_be_turned_is_said() -> None:
    problem = blurred_pictures([1.0], 1.0)
    with pytest.raises(BadInput, match="factor can be turned; it has sigma"):
        PASEO(blind=("factor",))(prior(), problem, Noise([0]))
    plain = Problem(problem.y, problem.y_z, NOISE, lambda z: z)
    assert "family" in str(PASEO(blind=("sigma",)).unsupported(plain))
    dedicated = OperatorNet(4).bind(0.01)
    assert dedicated.knobs() == {}
    assert Condition({}).seen is None


@pytest.mark.parametrize("name", ["blur:2,jpeg:60", "blur:2,sr:2", "motion:9@0", "inpaint"])
def test_what_other_damage_hides_is_said(name: str) -> None:
    bound = family_operator().bind(0.01, condition_of(task(name).degradation, 8, (64, 64)))
    problem = Problem(torch.zeros(1, 3, 64, 64), torch.zeros(1, 4, 8, 8), 0.02, bound)
    assert "name the number" in str(PASEO(blind=("sigma",)).unsupported(problem))
    if name == "blur:2,sr:2":
        alone = family_operator().bind(0.01, condition_of(Downsample(1), 8, (64, 64)))
        assert alone.knobs()["factor"].transfer is enlarged
