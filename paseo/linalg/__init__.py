"""Matrix-free linear algebra: conjugate gradients and Jacobian products. Nothing here knows what the vectors
mean.
"""

from paseo.linalg.cg import Solve, cg, exact_gain, gain_cg
from paseo.linalg.jacobian import Linearization, linearize, power_norm

__all__ = ["Linearization", "Solve", "cg", "exact_gain", "gain_cg", "linearize", "power_norm"]
