"""One denoiser, seen as flow, VP or VE, gives one run: methods that only read (x̂₀, x̂₁) and levels do not
see the scaling.
"""

from __future__ import annotations

import pytest
import torch

from paseo.base import Noise
from paseo.priors.views import as_flow, as_ve, as_vp
from paseo.samplers.state import bridge, checkpointed, flow_time, predict, walk
from paseo.schedule import VP, Flow
from samplers.toys import prior, problem, sampler, supported

INVARIANT = ["paseo", "ding", "red-diff", "flow-dps", "flow-chef", "pnp-flow", "dds", "diffpir", "ddnm"]


@pytest.mark.parametrize("name", INVARIANT)
@pytest.mark.parametrize("view", [as_flow, as_ve])
def test_a_vp_prior_and_its_views_give_the_same_run(name: str, view) -> None:  # type: ignore[no-untyped-def]
    found = supported(name, problem(dtype=torch.float64))
    chosen = sampler(name, **({"eta": "ddpm"} if name == "ding" else {}))
    native = chosen(prior("vp"), found, Noise([0, 1]))
    torch.testing.assert_close(chosen(view(prior("vp")), found, Noise([0, 1])), native, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("view", [as_flow, as_ve])
def test_daps_on_its_own_levels(view) -> None:  # type: ignore[no-untyped-def]
    """The native inner grid halves the native time; the power-7 grid is made of levels and the same in every
    view.
    """
    found = problem(dtype=torch.float64)
    chosen = sampler("daps", ode="edm")
    native = chosen(prior("vp"), found, Noise([0, 1]))
    torch.testing.assert_close(chosen(view(prior("vp")), found, Noise([0, 1])), native, rtol=1e-6, atol=1e-6)


def test_a_flow_prior_seen_as_vp() -> None:
    found = problem(dtype=torch.float64)
    native = sampler("flow-dps")(prior(), found, Noise([0, 1]))
    torch.testing.assert_close(
        sampler("flow-dps")(as_vp(prior()), found, Noise([0, 1])), native, rtol=1e-6, atol=1e-6
    )


def test_estimates_rebuild_the_state() -> None:
    p = prior("vp")
    x = p.sample(Noise([0, 1]))
    for t in (1000.0, 400.0, 3.0):
        point = p.schedule.point(t)
        x0, x1 = predict(p, x, point)
        torch.testing.assert_close(point.alpha * x0 + point.sigma * x1, x, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(bridge(x0, x1, point, eta=0.0), x, rtol=1e-5, atol=1e-5)


def test_flow_time_and_grids() -> None:
    assert flow_time(Flow().point(0.3)) == pytest.approx(0.3)
    assert flow_time(VP().point(0.0)) == 0.0
    points = walk(VP(), 6, eta=0.5, shift=2.0)
    full = walk(VP(), 6, shift=2.0)
    assert [p.eta for p in points] == pytest.approx([0.5 * p.eta for p in full])
    uniform = [flow_time(p) for p in full[1:]]  # the first is the noisiest level that the table has
    assert uniform == pytest.approx([2 * u / (1 + u) for u in (0.8, 0.6, 0.4, 0.2, 0.0)])


def test_checkpointing_needs_a_graph_to_matter() -> None:
    x = torch.ones(3)
    assert checkpointed(torch.exp, x, True).grad_fn is None or not torch.is_grad_enabled()
