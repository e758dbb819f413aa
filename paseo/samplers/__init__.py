"""Samplers, one file per paper: frozen dataclasses of hyperparameters that can be called on any prior.

sampler = method("psld").default          # or PSLD(steps=80, weight=3.0)
z = sampler(prior, problem, noise)        # a clean latent
sampler.nfe                               # denoiser calls of one run, counted by a test
sampler.unsupported(problem)              # why it cannot run here, or None
within(sampler, 53)                       # the same at another budget
"""

from paseo.samplers.correction import Parts, WithParts
from paseo.samplers.daps import DAPS
from paseo.samplers.ddnm import DDNM
from paseo.samplers.dds import DDS
from paseo.samplers.diffpir import DiffPIR
from paseo.samplers.ding import DING
from paseo.samplers.flow_chef import FlowChef
from paseo.samplers.flow_dps import FlowDPS
from paseo.samplers.gml_dps import GMLDPS
from paseo.samplers.ldps import LDPS
from paseo.samplers.paseo import PASEO
from paseo.samplers.pnp_flow import PnPFlow
from paseo.samplers.psld import PSLD
from paseo.samplers.red_diff import REDDiff
from paseo.samplers.registry import METHODS, Method, describe, method, within
from paseo.samplers.resample import ReSample
from paseo.samplers.silo import SILO

__all__ = [
    "DAPS",
    "DDNM",
    "DDS",
    "DING",
    "GMLDPS",
    "LDPS",
    "METHODS",
    "PASEO",
    "PSLD",
    "SILO",
    "DiffPIR",
    "FlowChef",
    "FlowDPS",
    "Method",
    "Parts",
    "PnPFlow",
    "REDDiff",
    "ReSample",
    "WithParts",
    "describe",
    "method",
    "within",
]
