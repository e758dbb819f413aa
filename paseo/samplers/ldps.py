"""LDPS: diffusion posterior sampling in latent space (Chung et al., 2023; its latent form in Rout et al.,
2023).

    error = ω ‖y − A(D(x̂₀))‖                         the loop is in `paseo.samplers.dps`

By definition PSLD with γ = 0, bit for bit. Source: LituRout/PSLD at γ = 0 and its SD3.5 port released with
DING.

Departures:
- the norm is per sample, so batches are allowed;
- all n − 1 intervals of the grid are walked; the port starts at the second point and spends its last call
  at σ = 0, where it changes nothing (the number of calls is the same);
- the default ω = 10 is the optimum that PASEO's paper found at 50 steps (3 from 150 steps on); the released
  defaults are 1 (official, eta 0, 1000 steps) and 0.1 (port).
"""

from __future__ import annotations

from dataclasses import dataclass

from paseo.samplers.dps import LatentDPS


@dataclass(frozen=True)
class LDPS(LatentDPS):
    """The family's base error, under its own name."""
