"""The methods by name: what each is, needs, differentiates and costs. A new method is its file, one entry here and one row in the docs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from paseo.base import Problem
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


@dataclass(frozen=True)
class Method:
    """One row of `paseo methods`."""

    name: str  # as in `--method`
    title: str
    cls: type[Any]
    paper: str
    source: str  # the public code it was checked against
    needs: str
    differentiates: str
    nfe: str  # as a formula in the fields
    tune: tuple[str, ...]  # the step size, or the pair, that is chosen per task
    cannot: str = ""  # tasks it cannot express, and why

    @property
    def default(self) -> Any:
        return self.cls()


PIXELS = "A, D"
LINEAR = "a measurement that is linear in the latent"
NOT_LINEAR = "anything but latent masks, exact latent operators and the identity codec: linear measurements only"

METHODS: dict[str, Method] = {
    m.name: m
    for m in (
        Method(
            *("paseo", "PASEO", PASEO, "PASEO (2026)", "the paper's Algorithm 2", "H"),
            *("H", "2·steps − 3", ("relaxation", "operator_noise")),
        ),
        Method(
            *("silo", "SILO", SILO, "Raphaeli et al., SILO, 2025", "ronraphaeli/SILO", "H"),
            *("denoiser, H", "steps", ("scale", "shift")),
        ),
        Method(
            *("resample", "ReSample", ReSample, "Song et al., ICLR 2024", "soominkwon/resample; port in YazidJanati/ding", f"{PIXELS}, E"),
            *("denoiser, D, A", "steps (+ time_travel per optimisation)", ("lr_latent", "guidance")),
        ),
        Method(
            *("psld", "PSLD", PSLD, "Rout et al., NeurIPS 2023", "LituRout/PSLD; port in YazidJanati/ding", f"{PIXELS}, E, Aᵀ"),
            *("denoiser, D, E, A, Aᵀ", "steps − 1", ("weight", "gluing")),
            "degradations without adjoint, such as JPEG",
        ),
        Method(
            *("gml-dps", "GML-DPS", GMLDPS, "Rout et al., NeurIPS 2023", "the paper's equations", f"{PIXELS}, E"),
            *("denoiser, D, E, A", "steps − 1", ("weight", "goodness")),
        ),
        Method(
            *("ldps", "LDPS", LDPS, "Chung et al., ICLR 2023; Rout et al., NeurIPS 2023", "LituRout/PSLD at γ = 0", PIXELS),
            *("denoiser, D, A", "steps − 1", ("weight",)),
        ),
        Method(
            *("ding", "DING", DING, "Moufad et al., 2026", "YazidJanati/ding", "observed latent cells"),
            *("nothing", "2·steps − 3 (steps − 1 if delayed)", ("observation_noise",)),
            "anything but a mask",
        ),
        Method(
            *("daps", "DAPS", DAPS, "Zhang et al., CVPR 2025", "zhangbingliang2019/DAPS; port in YazidJanati/ding", PIXELS),
            *("D, A", "3·(steps − 2)", ("step_size",)),
        ),
        Method(
            *("red-diff", "RED-diff", REDDiff, "Mardani et al., ICLR 2024", "NVlabs/RED-diff; port in YazidJanati/ding", PIXELS),
            *("D, A", "steps − 1", ("lr",)),
        ),
        Method(
            *("flow-dps", "FlowDPS", FlowDPS, "Kim et al., 2025", "FlowDPS-Inverse/FlowDPS; port in YazidJanati/ding", PIXELS),
            *("D, A", "steps − 1", ("step_size",)),
        ),
        Method(
            *("flow-chef", "FlowChef", FlowChef, "Patel et al., 2025", "FlowChef/FlowChef; port in YazidJanati/ding", PIXELS),
            *("D, A", "steps − 1", ("step_size",)),
        ),
        Method(
            *("pnp-flow", "PnP-Flow", PnPFlow, "Martin et al., ICLR 2025", "annegnx/PnP-Flow; port in YazidJanati/ding", PIXELS),
            *("D, A", "steps · samples", ("lr",)),
        ),
        Method(
            *("dds", "DDS", DDS, "Chung et al., ICLR 2024", "HJ-harry/DDS", LINEAR),
            *("nothing", "steps − 1", ("gamma",), NOT_LINEAR),
        ),
        Method(
            *("diffpir", "DiffPIR", DiffPIR, "Zhu et al., CVPR Workshops 2023", "yuanzhi-zhu/DiffPIR", LINEAR),
            *("nothing", "steps − 1", ("lam",), NOT_LINEAR),
        ),
        Method(
            *("ddnm", "DDNM", DDNM, "Wang et al., ICLR 2023", "wyhuai/DDNM", LINEAR),
            *("nothing", "steps − 1 (each repeated stretch again)", ("eta",), NOT_LINEAR),
        ),
    )
}


def method(name: str) -> Method:
    """The entry of that name."""
    if name not in METHODS:
        raise BadInput(f"There is no method named {name!r}. Known: {', '.join(METHODS)}.")
    return METHODS[name]


def within(sampler: Any, budget: int) -> Any:
    """The same sampler with the most steps whose NFE does not exceed `budget`."""
    best = None
    for steps in range(2, budget + 3):
        try:
            candidate = replace(sampler, steps=steps)
        except BadInput:  # too few for this method
            continue
        if candidate.nfe <= budget:
            best = candidate
    if best is None:
        raise BadInput(f"{type(sampler).__name__} cannot run with {budget} denoiser calls. Give it more.")
    return best


def describe(problems: Mapping[str, Problem] | None = None) -> list[dict[str, Any]]:
    """One row per method; with problems by task name, also why it cannot run there ("" where it can)."""
    rows = []
    for m in METHODS.values():
        row: dict[str, Any] = {
            **{"name": m.name, "title": m.title, "paper": m.paper, "source": m.source, "needs": m.needs},
            **{"differentiates": m.differentiates, "nfe": m.nfe, "default_nfe": m.default.nfe, "tune": list(m.tune), "cannot": m.cannot},
            "fields": {f.name: getattr(m.default, f.name) for f in fields(m.cls)},
        }
        if problems is not None:
            row["unsupported"] = {task: m.default.unsupported(problem) or "" for task, problem in problems.items()}
        rows.append(row)
    return rows
