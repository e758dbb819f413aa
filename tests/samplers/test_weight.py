"""PASEO's weights: estimated, thresholded, supplied, and those of an operator that knows its errors."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from paseo.base import Problem
from paseo.linalg import linearize
from paseo.noise import Noise
from paseo.operators.exact import LatentMatrix
from paseo.samplers import PASEO
from paseo.samplers.weight import THRESHOLD, constant_weight, erode, noise_spread, sensitivity
from samplers.small import F64, D, Q, conv_problem, normal, prior, problem


def test_soft_weights_are_row_norms() -> None:
    """With many probes the Hutchinson estimate converges to ‖J_i‖, scaled to a largest entry of 1."""
    M = normal(Q, D)
    w = sensitivity(lambda v: v @ M.T, torch.zeros(1, D, dtype=F64), Noise(0), probes=4000)
    rows = M.norm(dim=1)
    assert w.max().item() == 1.0
    torch.testing.assert_close(w[0], rows / rows.max(), rtol=0.1, atol=0.0)  # 4000 probes: about 1 % each


def test_soft_weights_ignore_what_no_latent_can_move() -> None:
    _, task = conv_problem(2)
    w = sensitivity(linearize(task.operator, task.y_z).J, task.y_z, Noise([0, 1]))
    assert (w[..., :3, :3] == 0).all()
    assert (w.flatten(1).amax(1) == 1).all()


def test_fixed_weights_are_thresholded_and_eroded() -> None:
    _, task = conv_problem(2)
    w = constant_weight("fixed", task, Noise([0, 1]))
    assert w is not None
    raw = sensitivity(linearize(task.operator, task.y_z).J, task.y_z, Noise([0, 1]))
    assert torch.equal(w, erode(raw * (raw >= THRESHOLD)))
    assert (w[..., :4, :4] == 0).all()  # the dead corner, one cell wider
    assert set((w[w > 0] >= THRESHOLD).tolist()) == {True}


def test_erosion_takes_one_cell_and_spares_the_border() -> None:
    w = torch.ones(1, 1, 7, 7)
    w[..., 3, 3] = 0.0
    assert (erode(w) == 0).sum() == 9
    assert torch.equal(erode(torch.ones(1, 1, 4, 4)), torch.ones(1, 1, 4, 4))


class KnowsItsErrors(LatentMatrix):
    """A matrix whose measurement has its own noise in every entry."""

    residual = torch.tensor([0.1, 0.2, 0.4, 0.8], dtype=F64)


def test_residual_weights_are_the_posterior_of_unequal_noise() -> None:
    """Prior N(0, η²I), y = Mz + ε with ε_i ~ N(0, r_i²): mean and covariance of many perturbed solves are
    Bayes' own.
    """
    M, eta, n = normal(Q, D, seed=2), 0.7, 20_000
    H, y = KnowsItsErrors(M), normal(1, Q, seed=3)
    r_i = KnowsItsErrors.residual
    r = r_i.square().mean().sqrt()  # the mean noise, so that r/w_i = r_i
    sampler = PASEO(operator_noise=float(r), weight="residual", cg_budget=Q, cg_tolerance=0.0)
    task = Problem(y=y, y_z=y, sigma_y=0.01, operator=H, latent_shape=(1, D))
    W = constant_weight("residual", task, Noise(0))
    assert W is not None
    torch.testing.assert_close(noise_spread("residual", W) * r, r_i)
    y_tilde = y + r * noise_spread("residual", W) * normal(n, Q, seed=4)
    draws = sampler.correct(
        H, torch.zeros(n, D, dtype=F64), eta * normal(n, D, seed=5), y_tilde, eta, W, Noise(0)
    )
    covariance = torch.linalg.inv(torch.eye(D, dtype=F64) / eta**2 + M.T @ torch.diag(r_i**-2) @ M)
    mean = covariance @ M.T @ torch.diag(r_i**-2) @ y[0]
    assert ((draws.mean(0) - mean).abs() < 5 * (covariance.diagonal() / n).sqrt()).all()
    largest = covariance.diagonal().max()
    assert (torch.cov(draws.T) - covariance).abs().max() < 5 * largest * math.sqrt(2 / n)


def test_residual_weights_reach_the_noise_of_a_run() -> None:
    """Entries with ten times the error are fitted less closely, and the run differs from one with equal
    weights.
    """
    model, (equal, unequal) = (
        prior(),
        (LatentMatrix(normal(Q, D, seed=2)), KnowsItsErrors(normal(Q, D, seed=2))),
    )
    a = PASEO(steps=8, operator_noise=0.3)(model, problem(3, equal), Noise([0, 1, 2]))
    b = PASEO(steps=8, operator_noise=0.3, weight="residual")(model, problem(3, unequal), Noise([0, 1, 2]))
    assert not torch.allclose(a, b, atol=1e-3)
    task = problem(3, unequal)
    KnowsItsErrors.residual, kept = torch.ones(Q, dtype=F64), KnowsItsErrors.residual
    try:
        torch.testing.assert_close(
            PASEO(steps=8, operator_noise=0.3, weight="residual")(model, task, Noise([0, 1, 2])), a
        )
    finally:
        KnowsItsErrors.residual = kept


def test_masked_cells_do_not_matter() -> None:
    seen = torch.ones(1, 1, 6, 6, dtype=F64)
    seen[..., :2, :] = 0.0
    model, task = conv_problem(2, observed=seen)
    garbage = task.y_z.clone()
    garbage[..., :2, :] += 100.0
    sampler = PASEO(steps=6, weight="mask", operator_noise=0.1)
    a, b = (sampler(model, replace(task, y_z=y), Noise([0, 1])) for y in (task.y_z, garbage))
    assert torch.equal(a, b)
