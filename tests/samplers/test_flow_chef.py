"""FlowChef: Euler without correction; with one step of the squared loss, the first-order step of the
reductions.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from paseo.base import Noise
from paseo.samplers.misfit import adjoint
from paseo.samplers.state import walk
from samplers.toys import prior, problem, sampler


def test_without_step_size_it_is_euler() -> None:
    p, found = prior(), problem()
    z = sampler("flow-chef", step_size=0.0)(p, found, Noise([0, 1]))
    x = Noise([0, 1]).normal(found.shape)
    for t, s in pairwise(walk(p.schedule, 6)):
        u = (x - p.x0(x, t.t)) / t.t  # the velocity ε − z of a flow
        x = x + (s.t - t.t) * u
    torch.testing.assert_close(z, x, rtol=1e-5, atol=1e-5)


def test_no_noise_after_the_start() -> None:
    """A second generator state cannot matter: the run draws once."""
    noise = Noise([0, 1])
    sampler("flow-chef")(prior(), problem(), noise)
    reference = Noise([0, 1])
    reference.normal(problem().shape)
    assert torch.equal(noise.normal((2, 4)), reference.normal((2, 4)))


def test_one_squared_step_is_twice_the_adjoint_of_the_residual() -> None:
    """−s' ∇‖y − A D x̂₀‖² = 2 s' Dᵀ Aᵀ (y − A D x̂₀), added to the flow state."""
    p, found = prior(), problem()
    seen: dict[float, Tensor] = {}
    for kappa in (0.0, 0.05):
        first: list[Tensor] = []
        chosen = sampler("flow-chef", step_size=kappa, inner_steps=1, loss="square")
        chosen(p, found, Noise([0, 1]), lambda step, first=first: first.append(step.x))
        seen[kappa] = first[0]
    codec, A = found.codec, found.degradation
    assert codec is not None
    assert A is not None
    x0 = p.x0(Noise([0, 1]).normal(found.shape), 1.0)
    expected = 2 * 0.05 * codec.encode(adjoint(found, found.y - A(codec.decode(x0))))
    torch.testing.assert_close(seen[0.05] - seen[0.0], expected, rtol=1e-4, atol=1e-6)


def test_a_fresh_adam_moves_by_the_gradients_sign() -> None:
    p, found = prior(), problem()
    moves: list[Tensor] = []
    for kappa in (0.0, 0.02):
        chosen = sampler("flow-chef", step_size=kappa, inner_steps=1, loss="square", optimiser="adam")
        chosen(p, found, Noise([0, 1]), lambda step: moves.append(step.z))
    first = (moves[5] - moves[0]).abs()  # of five steps each
    assert ((first < 1e-6) | ((first - 0.02).abs() < 1e-3)).float().mean() > 0.99
