"""The methods by name: what each is, needs, differentiates and costs. A new method is its file, one entry
here and one row in the docs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from paseo.base import Problem, Sampler
from paseo.errors import BadInput
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
from paseo.samplers.resample import ReSample
from paseo.samplers.silo import SILO
from paseo.setting import settings_of, values_of

AnySampler = TypeVar("AnySampler", bound=Sampler)


@dataclass(frozen=True)
class Method:
    """One row of `paseo methods`."""

    name: str  # as in `--method`
    title: str
    cls: type[Sampler]
    paper: str
    source: str  # the public code it was checked against
    needs: str
    differentiates: str
    nfe: str  # as a formula in the fields
    tune: tuple[str, ...]  # the step size, or the pair, that is chosen per task
    cannot: str = ""  # tasks it cannot express, and why

    @property
    def default(self) -> Sampler:
        return self.cls()


_LINEAR = "a measurement that is linear in the latent"
_NOT_LINEAR = "anything but latent masks, exact latent operators and the identity codec"

_ALL = (
    Method(
        name="paseo",
        title="PASEO",
        cls=PASEO,
        paper="PASEO, 2026",
        source="Algorithm 2 of the paper",
        needs="H",
        differentiates="H",
        nfe="2·steps − 3",
        tune=("relaxation", "operator_noise"),
    ),
    Method(
        name="silo",
        title="SILO",
        cls=SILO,
        paper="Raphaeli et al., 2025",
        source="ronraphaeli/SILO",
        needs="H",
        differentiates="denoiser, H",
        nfe="steps",
        tune=("scale", "shift"),
    ),
    Method(
        name="resample",
        title="ReSample",
        cls=ReSample,
        paper="Song et al., 2024",
        source="soominkwon/resample; YazidJanati/ding (port)",
        needs="A, D, E",
        differentiates="denoiser, D, A",
        nfe="steps (+ time_travel per optimisation)",
        tune=("lr_latent", "guidance"),
    ),
    Method(
        name="psld",
        title="PSLD",
        cls=PSLD,
        paper="Rout et al., 2023",
        source="LituRout/PSLD; YazidJanati/ding (port)",
        needs="A, Aᵀ, D, E",
        differentiates="denoiser, D, E, A",
        nfe="steps − 1",
        tune=("guidance", "gluing"),
        cannot="degradations without adjoint, such as JPEG",
    ),
    Method(
        name="gml-dps",
        title="GML-DPS",
        cls=GMLDPS,
        paper="Rout et al., 2023",
        source="the paper's equations",
        needs="A, D, E",
        differentiates="denoiser, D, E, A",
        nfe="steps − 1",
        tune=("guidance", "goodness"),
    ),
    Method(
        name="ldps",
        title="LDPS",
        cls=LDPS,
        paper="Chung et al., 2023; Rout et al., 2023",
        source="LituRout/PSLD at γ = 0",
        needs="A, D",
        differentiates="denoiser, D, A",
        nfe="steps − 1",
        tune=("guidance",),
    ),
    Method(
        name="ding",
        title="DING",
        cls=DING,
        paper="Moufad et al., 2026",
        source="YazidJanati/ding",
        needs="observed latent cells",
        differentiates="nothing",
        nfe="2·steps − 3 (steps − 1 if delayed)",
        tune=("observation_noise",),
        cannot="anything but a mask",
    ),
    Method(
        name="daps",
        title="DAPS",
        cls=DAPS,
        paper="Zhang et al., 2025",
        source="zhangbingliang2019/DAPS; YazidJanati/ding (port)",
        needs="A, D",
        differentiates="D, A",
        nfe="(ode_steps + 1)·(steps − 2)",
        tune=("step_size",),
    ),
    Method(
        name="red-diff",
        title="RED-diff",
        cls=REDDiff,
        paper="Mardani et al., 2024",
        source="NVlabs/RED-diff; YazidJanati/ding (port)",
        needs="A, D",
        differentiates="D, A",
        nfe="steps − 1",
        tune=("lr",),
    ),
    Method(
        name="flow-dps",
        title="FlowDPS",
        cls=FlowDPS,
        paper="Kim et al., 2025",
        source="FlowDPS-Inverse/FlowDPS; YazidJanati/ding (port)",
        needs="A, D (Aᵀ where there is one)",
        differentiates="D, A",
        nfe="steps − 1",
        tune=("step_size",),
    ),
    Method(
        name="flow-chef",
        title="FlowChef",
        cls=FlowChef,
        paper="Patel et al., 2025",
        source="FlowChef/FlowChef; YazidJanati/ding (port)",
        needs="A, D (Aᵀ where there is one)",
        differentiates="D, A",
        nfe="steps − 1",
        tune=("step_size",),
    ),
    Method(
        name="pnp-flow",
        title="PnP-Flow",
        cls=PnPFlow,
        paper="Martin et al., 2025",
        source="annegnx/PnP-Flow; YazidJanati/ding (port)",
        needs="A, D",
        differentiates="D, A",
        nfe="steps · samples",
        tune=("lr",),
    ),
    Method(
        name="dds",
        title="DDS",
        cls=DDS,
        paper="Chung et al., 2024",
        source="HJ-harry/DDS",
        needs=_LINEAR,
        differentiates="nothing",
        nfe="steps − 1",
        tune=("gamma",),
        cannot=_NOT_LINEAR,
    ),
    Method(
        name="diffpir",
        title="DiffPIR",
        cls=DiffPIR,
        paper="Zhu et al., 2023",
        source="yuanzhi-zhu/DiffPIR",
        needs=_LINEAR,
        differentiates="nothing",
        nfe="steps − 1",
        tune=("lam",),
        cannot=_NOT_LINEAR,
    ),
    Method(
        name="ddnm",
        title="DDNM",
        cls=DDNM,
        paper="Wang et al., 2023",
        source="wyhuai/DDNM",
        needs=_LINEAR,
        differentiates="nothing",
        nfe="steps − 1 (and each repeated stretch again)",
        tune=("eta",),
        cannot=_NOT_LINEAR,
    ),
)

METHODS: dict[str, Method] = {m.name: m for m in _ALL}


def method(name: str) -> Method:
    """The entry of that name."""
    if name not in METHODS:
        raise BadInput(f"There is no method named {name!r}. Known: {', '.join(METHODS)}.")
    return METHODS[name]


def within(sampler: AnySampler, budget: int) -> AnySampler:
    """The same sampler with the most steps whose NFE does not exceed `budget`."""
    best, most = None, max(s.range.high for s in settings_of(type(sampler)) if s.name == "steps" and s.range)
    for steps in range(2, min(budget + 2, int(most)) + 1):
        try:
            candidate = replace(sampler, steps=steps)
        except BadInput:  # too few for this method
            continue
        if candidate.nfe <= budget:
            best = candidate
    if best is None:
        raise BadInput(f"{type(sampler).__name__} cannot run with {budget} denoiser calls. Give it more.")
    return best


def describe(problems: Mapping[str, Problem] | None = None) -> list[dict[str, object]]:
    """One row per method; with problems by task name, also why it cannot run there ("" where it can)."""
    rows = []
    for m in METHODS.values():
        row: dict[str, object] = {
            **{"name": m.name, "title": m.title, "paper": m.paper, "source": m.source, "needs": m.needs},
            **{
                "differentiates": m.differentiates,
                "nfe": m.nfe,
                "default_nfe": m.default.nfe,
                "tune": list(m.tune),
                "cannot": m.cannot,
            },
            "fields": values_of(m.default),
        }
        if problems is not None:
            row["unsupported"] = {
                task: m.default.unsupported(problem) or "" for task, problem in problems.items()
            }
        rows.append(row)
    return rows
