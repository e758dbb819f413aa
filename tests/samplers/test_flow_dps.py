"""FlowDPS: the end of a run, the lifted norms, and the interpolation with the data."""

from __future__ import annotations

import pytest
import torch

from paseo.base import Noise, Step
from paseo.degrade import Downsample
from paseo.samplers.misfit import lifted_norm
from samplers.toys import prior, problem, sampler


def test_at_the_clean_level_the_state_is_the_blend() -> None:
    steps: list[Step] = []
    z = sampler("flow-dps")(prior(), problem(), Noise([0, 1]), steps.append)
    assert steps[-1].point.sigma == 0
    assert torch.equal(steps[-1].x, steps[-1].z)
    assert torch.equal(z, steps[-1].z)


def test_at_pure_noise_the_blend_is_the_data_estimate_and_nearly_none_at_the_end() -> None:
    """z_b = (1 − τ) x̂₀ + τ z_d: a large κ moves the first estimate by itself and the last by τ of it."""
    moves = []
    for kappa in (0.0, 0.3):
        seen: list[Step] = []
        sampler("flow-dps", step_size=kappa, inner_steps=1, steps=4, lift="none")(
            prior(), problem(), Noise([0, 1]), seen.append
        )
        moves.append(seen[0].z)
    length = (moves[1] - moves[0]).flatten(1).norm(dim=1)
    assert (length > 0).all()
    assert (
        length <= 0.3 * (1 + 1e-4)
    ).all()  # κ times the gradient of an unsquared norm: at most κ‖A D‖, and ‖A‖ ≤ 1


@pytest.mark.parametrize("lift", ["adjoint", "pinv", "none"])
def test_lifted_norms_and_their_gradients(lift: str) -> None:
    """Against the dense formula ‖B r‖ with B from the matrix of A, differentiated by autograd, in float64."""
    found = problem(dtype=torch.float64)
    A = Downsample(4)
    eye = torch.eye(3 * 16 * 16, dtype=torch.float64).view(-1, 3, 16, 16)
    matrix = A(eye).flatten(1).T
    B = {"adjoint": matrix.T, "pinv": torch.linalg.pinv(matrix), "none": torch.eye(48, dtype=torch.float64)}[
        lift
    ]
    r = found.y.clone().requires_grad_(True)
    have = lifted_norm(found, lift)(r)
    want = (r.flatten(1) @ B.T).norm(dim=1)
    torch.testing.assert_close(have, want, rtol=1e-4, atol=0.0)
    (g_have,) = torch.autograd.grad(have.sum(), r)
    (g_want,) = torch.autograd.grad(want.sum(), r)
    torch.testing.assert_close(g_have, g_want, rtol=1e-3, atol=1e-4)


def test_jpeg_is_compared_as_it_is() -> None:
    found = problem("jpeg")
    r = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    assert torch.equal(lifted_norm(found, "adjoint")(r), r.flatten(1).norm(dim=1))
