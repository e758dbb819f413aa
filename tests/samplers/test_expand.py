"""`expand="anchor"`: H linearised where the correction starts, one Jacobian product fewer, and why."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest
import torch

from paseo.noise import Noise
from paseo.operators.exact import LatentMatrix
from paseo.samplers import PASEO
from paseo.samplers.anchor import NEAR, Anchor, coefficients
from samplers.small import F64, Counting, D, Q, Smooth, normal, prior, problem


@pytest.mark.parametrize("budget", [1, 3])
def test_expanding_at_the_anchor_is_one_more_linearisation_point(budget: int) -> None:
    H, z, z_a, y, w = (
        Smooth(),
        normal(2, D),
        normal(2, D, seed=1),
        normal(2, Q, seed=2),
        torch.rand(Q, dtype=F64),
    )
    sampler = PASEO(cg_budget=budget, operator_noise=0.2, cg_tolerance=0.0)
    found = replace(sampler, expand="anchor").correct(H, z, z_a, y, 1.7, w, Noise([0, 1]))
    torch.testing.assert_close(
        found, sampler.correct(H, z_a, z_a, y, 1.7, w, Noise([0, 1])), rtol=1e-12, atol=1e-12
    )
    assert (
        found - sampler.correct(H, z, z_a, y, 1.7, w, Noise([0, 1]))
    ).abs().max() > 1e-3  # Smooth is not linear


@pytest.mark.parametrize("anchor", ["arc", "denoiser", "linear"])
def test_a_linear_operator_does_not_care_where_it_is_expanded(anchor: Any) -> None:
    task = problem(2, LatentMatrix(normal(Q, D, seed=5)))
    sampler = PASEO(steps=6, inner_steps=2, operator_noise=0.1, anchor=anchor, cg_tolerance=0.0)
    found = replace(sampler, expand="anchor")(prior(), task, Noise([0, 1]))
    torch.testing.assert_close(found, sampler(prior(), task, Noise([0, 1])), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("budget", [1, 3])
def test_expanding_at_the_anchor_saves_a_jvp_in_each_correction(budget: int) -> None:
    counting = Counting(Smooth())
    PASEO(steps=7, inner_steps=2, cg_budget=budget, expand="anchor", cg_tolerance=0.0)(
        prior(), problem(2, counting), Noise([0, 1])
    )
    assert (counting.values, counting.jvps, counting.vjps) == (10, 10 * (budget - 1), 10 * budget)


def test_near_anchors_lie_beside_the_estimate() -> None:
    """Why H may be expanded there: they move z by no more than about √2 η_z,min, however wide the prior; the
    others do not.
    """
    bridge, fresh, width = (
        normal(200, D),
        normal(200, D, seed=3),
        0.03,
    )  # (z − μ_z) / η_z, (μ̃_z − μ_z) / η_z, η_z,min
    for eta_z in (0.03, 0.3, 3.0, 300.0):
        for anchor in get_args(Anchor):
            c1, c2 = coefficients(anchor, width / eta_z)
            moved = eta_z * ((c1 - 1) * bridge + c2 * fresh).square().mean().sqrt()
            assert (moved < 1.6 * width) == (
                anchor in NEAR or (anchor, eta_z) in (("fresh", width), ("noisy", width))
            )


@pytest.mark.parametrize("anchor", ["fresh", "noisy"])
def test_far_anchors_keep_the_estimate_as_expansion_point(anchor: Any) -> None:
    sampler = PASEO(steps=5, anchor=anchor)
    found = replace(sampler, expand="anchor")(prior(), problem(2), Noise([0, 1]))
    torch.testing.assert_close(found, sampler(prior(), problem(2), Noise([0, 1])), rtol=0, atol=0)
