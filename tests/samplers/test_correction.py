"""The seam: another solver or measurement model is given to PASEO as a value."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from paseo.linalg import Linearization, Solve, gain_cg, linearize
from paseo.noise import Noise
from paseo.samplers import PASEO
from paseo.samplers.correction import Parts, WithParts
from samplers.small import prior, problem

SAMPLER = PASEO(steps=7, operator_noise=0.1, cg_budget=2)


def test_the_paper_s_parts_given_by_hand_are_the_default() -> None:
    parts = Parts(linearize, partial(gain_cg, budget=2, tolerance=1e-5))
    expected = SAMPLER(prior(), problem(2), Noise([0, 1]))
    assert torch.equal(SAMPLER(prior(), problem(2), Noise([0, 1]), parts=parts), expected)
    assert torch.equal(WithParts(SAMPLER, parts)(prior(), problem(2), Noise([0, 1])), expected)


def test_a_given_solver_is_asked_once_per_correction() -> None:
    calls: list[dict[str, Any]] = []

    def nothing(J: Any, JT: Any, W: Tensor, b: Tensor, **known: Any) -> Solve:
        calls.append(known)
        return Solve(torch.zeros_like(JT(W * b)), torch.zeros(len(b)).long(), None)

    custom = WithParts(PASEO(steps=7, inner_steps=2, operator_noise=0.1, damping=0.02), Parts(solver=nothing))
    custom(prior(), problem(2), Noise([0, 1]))
    assert len(calls) == 5 * 2
    assert all(abs(known["trust"] - 0.03) < 1e-12 and known["report"] is False for known in calls)


def test_a_given_measurement_model_is_what_is_corrected_for() -> None:
    """Without sensitivity (J = 0) nothing is learned from the measurement, whatever it says."""

    def blind(H: Any, z: Tensor) -> Linearization:
        return Linearization(H(z), lambda v: torch.zeros_like(H(v)), lambda u: torch.zeros_like(z))

    runs = [
        WithParts(SAMPLER, Parts(linearize=blind))(prior(), task, Noise([0, 1]))
        for task in (problem(2), problem(2, lambda z: 5 * problem(2).operator(z)))
    ]
    assert torch.equal(*runs)


def test_a_custom_sampler_answers_as_its_base() -> None:
    custom = WithParts(PASEO(weight="mask"), Parts())
    assert custom.nfe == PASEO().nfe
    assert custom.unsupported(problem(1)) == PASEO(weight="mask").unsupported(problem(1))
