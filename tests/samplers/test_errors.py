"""Every misuse is an error of our own type that names the value and the way out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from paseo.base import Problem, Step
from paseo.errors import BadInput, NotFinite, PaseoError
from paseo.noise import Noise
from paseo.operators.exact import LatentMask
from paseo.priors import GaussianPrior
from paseo.samplers import PASEO
from paseo.schedule import VE, Flow, Point

SHAPE = (2, 4, 4)


def problem(**changes: Any) -> Problem:
    y = torch.zeros(2, *SHAPE)
    return replace(
        Problem(y=y, y_z=y, sigma_y=0.01, operator=nn.Conv2d(2, 2, 1).requires_grad_(False)), **changes
    )


def run(
    sampler: PASEO,
    task: Problem,
    prior: Any = None,
    noise: Noise | None = None,
    watch: Any = lambda step: None,
) -> Tensor:
    return sampler(prior or GaussianPrior.white(SHAPE), task, noise or Noise([0, 1]), watch)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps": 2}, r"steps=2 cannot be used: expected a whole number in \[3, 10000\]"),
        ({"steps": 28.0}, r"steps=28\.0"),
        ({"cg_budget": True}, "cg_budget=True"),
        ({"operator_noise": float("inf")}, "operator_noise=inf"),
        ({"damping": float("nan")}, "damping=nan"),
        ({"inner_steps": 0}, r"inner_steps=0 .* expected a whole number in \[1, 1000\] \(P, lin"),
        ({"cg_budget": 0}, r"cg_budget=0 cannot be used: expected .*, or none \(C, CG iterations"),
        ({"cg_budget": -3}, "cg_budget=-3"),
        ({"relaxation": 0.0}, r"relaxation=0\.0 cannot be used: expected a number in \(0, 1\] \(ρ, fraction"),
        ({"relaxation": 1.01}, r"relaxation=1\.01"),
        ({"relaxation": float("nan")}, "relaxation=nan"),
        ({"damping": -1e-3}, "damping=-0.001"),
        ({"operator_noise": -0.1}, "operator_noise=-0.1"),
        ({"operator_noise": 0.0, "damping": 0.0}, "r = 0 with λ = 0 leaves the solve singular"),
        ({"cg_tolerance": -1.0}, "cg_tolerance=-1.0"),
        ({"anchor": "arch"}, "anchor='arch' is not one of arc, fresh, denoiser, linear, noisy"),
        ({"weight": "hard"}, "weight='hard' is not one of ones, soft, fixed, mask"),
        ({"start": "zero"}, "start='zero' is not one of proxy, mean"),
        ({"eta": "ddim"}, "eta='ddim' is not one of ddpm, square, sqrt"),
    ],
)
def test_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        PASEO(**settings)


def test_r_of_zero_is_fine_with_damping() -> None:
    assert torch.isfinite(run(PASEO(steps=5, operator_noise=0.0, damping=0.01), problem())).all()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_measurement_that_is_not_finite(value: float) -> None:
    y = torch.zeros(2, *SHAPE)
    y[1, 0, 2, 2] = value
    with pytest.raises(BadInput, match=r"NaN or infinite values\. Check the input image"):
        run(PASEO(steps=5), problem(y_z=y))


def test_a_measurement_of_another_shape() -> None:
    with pytest.raises(BadInput, match=r"to \(2, 2, 4, 4\), but the encoded measurement is \(2, 2, 5, 4\)"):
        run(PASEO(steps=5), problem(y_z=torch.zeros(2, 2, 5, 4), latent_shape=(2, *SHAPE)))


@pytest.mark.parametrize("y", [torch.zeros(2, *SHAPE, dtype=torch.long), torch.zeros(2)])
def test_a_measurement_that_is_no_batch_of_floats(y: Tensor) -> None:
    with pytest.raises(BadInput, match=r"expected a batch \(B, …\) of floats"):
        run(PASEO(steps=5), problem(y_z=y))


def test_an_operator_with_another_output() -> None:
    with pytest.raises(
        BadInput, match=r"to \(2, 3, 4, 4\), but .* \(2, 2, 4, 4\)\. Is it an operator of another model"
    ):
        run(PASEO(steps=5), problem(operator=nn.Conv2d(2, 3, 1)))


def test_a_prior_for_another_latent() -> None:
    with pytest.raises(BadInput, match=r"latents of shape \(3, 4, 4\)"):
        run(PASEO(steps=5), problem(), GaussianPrior.white((3, 4, 4)))


@pytest.mark.parametrize("seeds", [[0], [0, 1, 2]])
def test_seeds_and_batch(seeds: list[int]) -> None:
    with pytest.raises(BadInput, match=f"2 latents, 2 measurements and {len(seeds)} seeds"):
        run(PASEO(steps=5), problem(), noise=Noise(seeds))


def test_latents_and_measurements() -> None:
    with pytest.raises(BadInput, match="3 latents, 2 measurements"):
        run(PASEO(steps=5), problem(latent_shape=(3, *SHAPE)))


def test_mask_weights() -> None:
    with pytest.raises(BadInput, match="weight='mask' needs the observed latent cells"):
        run(PASEO(steps=5, weight="mask"), problem())
    with pytest.raises(BadInput, match=r"weights \(3, 3\) do not fit a measurement"):
        run(PASEO(steps=5, weight="mask"), problem(observed=torch.ones(3, 3)))
    with pytest.raises(BadInput, match="finite entries from 0"):
        run(PASEO(steps=5, weight="mask"), problem(observed=torch.full((4, 4), float("nan"))))


def test_residual_weights_need_an_operator_that_knows_its_errors() -> None:
    with pytest.raises(BadInput, match="weight='residual' needs an operator"):
        run(PASEO(steps=5, weight="residual"), problem())


def test_fixed_weights_need_a_measurement_that_is_a_latent() -> None:
    with pytest.raises(BadInput, match="weight='fixed' expands the operator"):
        run(PASEO(steps=5, weight="fixed"), problem(y_z=torch.zeros(2, 5), latent_shape=(2, *SHAPE)))


def test_exact_solves() -> None:
    with pytest.raises(BadInput, match="needs an operator with an exact solve"):
        run(PASEO(steps=5, cg_budget=None), problem())
    with pytest.raises(BadInput, match="solves without weights"):
        run(PASEO(steps=5, cg_budget=None, weight="soft"), problem(operator=LatentMask.nothing()))


def test_unsupported_gives_the_reason_without_running() -> None:
    assert PASEO().unsupported(problem()) is None
    assert "Try weight='soft'" in (PASEO(weight="mask").unsupported(problem()) or "")


def test_eta_above_sigma_and_bridges_without_width() -> None:
    @dataclass(frozen=True)
    class Odd(Flow):
        def point(self, t: float) -> Point:
            return Point(t, (1.0 - t) if t < 0.5 else -0.1 * t, t)

        def times(self, steps: int) -> list[float]:
            return [1.0, 0.8, 0.2, 0.0]

    with pytest.raises(BadInput, match=r"η=0\.864 exceeds σ=0\.8 at t=0\.8.*use eta='ddpm'"):
        run(PASEO(steps=4, eta="square"), problem(), GaussianPrior.white(SHAPE, Odd()))
    with pytest.raises(BadInput, match=r"eta='square' gives a bridge of width 0 .* use eta='ddpm'"):
        run(PASEO(steps=5, eta="square"), problem(), GaussianPrior.white(SHAPE, VE()))


class Failing:
    """A prior that breaks at its n-th call."""

    schedule = Flow()

    def __init__(self, at: int) -> None:
        self.calls, self.at = 0, at

    def x0(self, x: Tensor, t: float) -> Tensor:
        self.calls += 1
        return x * (float("nan") if self.calls == self.at else 0.5)


@pytest.mark.parametrize(("call", "step"), [(1, 1), (4, 2), (5, 3), (7, 4)])
def test_a_latent_that_becomes_non_finite_names_the_step(call: int, step: int) -> None:
    seen: list[Step] = []
    with pytest.raises(
        NotFinite, match=f"non-finite at step {step} of 4 .*smaller cg_budget or relaxation, or more damping"
    ):
        run(PASEO(steps=5), problem(), Failing(call), watch=seen.append)
    assert [s.index for s in seen] == list(range(step - 1))  # no step is shown half done


def test_an_operator_that_explodes_is_named_at_its_step() -> None:
    class Exploding(nn.Module):
        def forward(self, z: Tensor) -> Tensor:
            return (z * 1e30) ** 3

    with pytest.raises(NotFinite, match="at step 1 of 4"):
        run(PASEO(steps=5), problem(operator=Exploding()))


def test_all_of_them_are_ours() -> None:
    assert issubclass(BadInput, PaseoError)
    assert issubclass(BadInput, ValueError)
    assert issubclass(NotFinite, PaseoError)
