"""With the right anchor, trust and an exact solve, one correction is the measurement step of other methods.

Each published step is written out as its authors state it, in latent or state space, and compared with
`PASEO.correct`.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from paseo.linalg import cg
from paseo.noise import Noise
from paseo.operators.exact import LatentBlur, LatentMask, LatentMatrix, Linear
from paseo.samplers import PASEO
from paseo.schedule import VP, Flow, Schedule, bridge_eta

F64 = torch.float64
ETA = 1.3
ONE = torch.ones((), dtype=F64)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


def correct(H: Linear, z: Tensor, y: Tensor, r: float, **settings: int | None) -> Tensor:
    """One correction anchored at the denoised estimate z, without perturbations."""
    sampler = PASEO(operator_noise=r, **{"cg_budget": None, **settings}, cg_tolerance=0.0)  # ty: ignore[invalid-argument-type]
    return sampler.correct(H, z, z, y, ETA, ONE, Noise(range(len(z))))


@pytest.mark.parametrize(("q", "d"), [(5, 9), (9, 9), (12, 9)])
@pytest.mark.parametrize("budget", [None, 40])
def test_dds(q: int, d: int, budget: int | None) -> None:
    """DDS: (I + γHᵀH) x = x̂ + γHᵀy in latent space, by CG from x̂, with γ = η_z²/r²."""
    H, z, y, r = LatentMatrix(normal(q, d)), normal(3, d, seed=1), normal(3, q, seed=2), 0.4
    gamma = ETA**2 / r**2

    def system(x: Tensor) -> Tensor:
        return x + gamma * H.adjoint(H(x))

    right = z + gamma * H.adjoint(y)
    dds = z + cg(system, right - system(z), budget=60, tolerance=1e-14).v
    torch.testing.assert_close(correct(H, z, y, r, cg_budget=budget), dds, rtol=1e-8, atol=1e-8)


def test_dds_truncated_differs() -> None:
    """The reduction is about the converged solve: C iterations in measurement space are not M iterations in
    latent space.
    """
    H, z, y = LatentMatrix(normal(8, 8)), normal(1, 8, seed=1), normal(1, 8, seed=2)
    gamma = ETA**2 / 0.4**2
    right = gamma * H.adjoint(y - H(z))
    dds = z + cg(lambda x: x + gamma * H.adjoint(H(x)), right, budget=2).v
    assert not torch.allclose(correct(H, z, y, 0.4, cg_budget=2), dds, rtol=1e-3)


def test_diffpir_with_a_mask() -> None:
    """DiffPIR, inpainting: (M y + ρ x)/(M + ρ) entry by entry, with ρ = r²/η_z²."""
    H = LatentMask.holes((6, 6), hidden=0.5)
    z, y, r = normal(2, 3, 6, 6), normal(2, 3, 6, 6, seed=1), 0.3
    rho, M = r**2 / ETA**2, H.mask.double()
    torch.testing.assert_close(correct(H, z, M * y, r), (M * y + rho * z) / (M + rho))


def test_diffpir_with_a_blur() -> None:
    """DiffPIR, deblurring: F⁻¹[(ḡ F(y) + ρ F(x)) / (|g|² + ρ)]."""
    H = LatentBlur.kernel(normal(6, 8))
    z, y, r = normal(2, 3, 6, 8), normal(2, 3, 6, 8, seed=1), 0.3
    rho, g = r**2 / ETA**2, H.transfer
    closed = torch.fft.ifft2(
        (g.conj() * torch.fft.fft2(y) + rho * torch.fft.fft2(z)) / (g.abs() ** 2 + rho)
    ).real
    torch.testing.assert_close(correct(H, z, y, r), closed)


@pytest.mark.parametrize(("rank", "q", "d"), [(5, 5, 9), (9, 9, 9), (3, 7, 9)])
def test_ddnm_is_the_limit_of_no_noise(rank: int, q: int, d: int) -> None:
    """DDNM: H⁺y + (I − H⁺H) x. The gap closes like r², also where H lacks rank or y is out of its range."""
    M = normal(q, rank) @ normal(rank, d, seed=1)
    H, z, y = LatentMatrix(M), normal(2, d, seed=2), normal(2, q, seed=3)
    pinv = torch.linalg.pinv(M)
    ddnm = y @ pinv.T + z - z @ (pinv @ M).T
    gaps = [(correct(H, z, y, r) - ddnm).abs().max().item() for r in (1e-1, 1e-2, 1e-3)]
    assert gaps[1] < 0.05 * gaps[0]
    assert gaps[2] < 0.02 * gaps[1]
    assert gaps[2] < 1e-3


@pytest.mark.parametrize("schedule", [Flow(), VP()], ids=repr)
def test_ding_in_distribution(schedule: Schedule) -> None:
    """DING, lines 10 to 12, in state coordinates: the same mean and the same covariance as α z* + σ x̂₁',
    analytically.

    PASEO's correction is affine in (ξ_z, ξ_y), so pushing unit vectors through it gives its covariance
    exactly.
    """
    times = schedule.times(12)
    t, s = schedule.point(times[4]), schedule.point(times[5])
    eta, r, d = bridge_eta(t, s, "ddpm"), 0.2, 6
    seen = torch.tensor([0, 2, 3])
    rest = torch.tensor([1, 4, 5])
    H = LatentMatrix(torch.eye(d, dtype=F64)[seen])
    m, x1, y = normal(1, d), normal(1, d, seed=1), normal(1, 3, seed=2)
    mu, width = (m - s.sigma * x1) / s.alpha, eta / s.alpha

    def paseo(xi_z: Tensor, xi_y: Tensor) -> Tensor:
        n = len(xi_z)
        anchor = mu + width * xi_z
        z = PASEO(operator_noise=r, cg_budget=1).correct(
            H, anchor, anchor, y + r * xi_y, width, ONE, Noise(range(n))
        )
        return s.alpha * z + s.sigma * x1

    zero, zero_y = torch.zeros(1, d, dtype=F64), torch.zeros(1, 3, dtype=F64)
    centre = paseo(zero, zero_y)
    columns = torch.cat(
        [
            paseo(torch.eye(d, dtype=F64), zero_y.expand(d, -1)) - centre,
            paseo(zero.expand(3, -1), torch.eye(3, dtype=F64)) - centre,
        ]
    )
    gamma = eta**2 / (eta**2 + s.alpha**2 * r**2)
    mean, variance = m[0].clone(), torch.full((d,), eta**2, dtype=F64)
    mean[seen] = (1 - gamma) * m[0, seen] + gamma * (s.alpha * y[0] + s.sigma * x1[0, seen])
    variance[seen] = s.alpha**2 * r**2 * gamma
    torch.testing.assert_close(centre[0], mean)
    torch.testing.assert_close(columns.T @ columns, torch.diag(variance), rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(
        paseo(normal(4, d), torch.zeros(4, 3, dtype=F64))[:, rest], (m + eta * normal(4, d))[:, rest]
    )


def test_one_iteration_solves_a_selection() -> None:
    """M Mᵀ = I_q for a row selection: S is a multiple of the identity and one CG iteration is exact."""
    H = LatentMatrix(torch.eye(7, dtype=F64)[[1, 4, 6]])
    z, y = normal(3, 7), normal(3, 3, seed=1)
    torch.testing.assert_close(correct(H, z, y, 0.1, cg_budget=1), correct(H, z, y, 0.1))
