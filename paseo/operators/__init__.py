"""Latent operators H: the learned network, exact linear maps, their files and their checks. Names are loaded
when used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paseo.lazy import lazy

if TYPE_CHECKING:
    from paseo.operators.check import OperatorCheck as OperatorCheck
    from paseo.operators.check import check_operator as check_operator
    from paseo.operators.config import OperatorConfig as OperatorConfig
    from paseo.operators.net import OperatorNet as OperatorNet
    from paseo.operators.store import check_latent_space as check_latent_space
    from paseo.operators.store import load_operator as load_operator
    from paseo.operators.store import save_operator as save_operator
    from paseo.operators.tangent import BoundOperator as BoundOperator

_HOME = {
    "BoundOperator": "tangent",
    "OperatorCheck": "check",
    "OperatorConfig": "config",
    "OperatorNet": "net",
    "check_latent_space": "store",
    "check_operator": "check",
    "load_operator": "store",
    "save_operator": "store",
}

__all__ = list(_HOME)
__getattr__, __dir__ = lazy(__name__, {name: f"{__name__}.{home}" for name, home in _HOME.items()})
