"""What every sampler promises, one test per promise, over all methods and both kinds of schedule."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
import torch
from samplers.toys import SHAPE, VARIANTS, base, prior, problem, sampler, supported
from torch import Tensor

from paseo.base import Counted, Problem, Step
from paseo.errors import BadInput, Cancelled, NotFinite, PaseoError
from paseo.noise import Noise
from paseo.samplers import METHODS, describe, method, within

NAMES = (*METHODS, *VARIANTS)
every_method = pytest.mark.parametrize("name", NAMES)
both_schedules = pytest.mark.parametrize("schedule", ["flow", "vp"])


def run(name: str, schedule: str = "flow", seeds: tuple[int, ...] = (0, 1), **kwargs: Any) -> Tensor:
    return sampler(name)(prior(schedule), supported(name, problem(seeds=seeds)), Noise(list(seeds)), **kwargs)


@every_method
@both_schedules
def test_returns_a_finite_latent_of_the_problems_shape_and_dtype(name: str, schedule: str) -> None:
    z = run(name, schedule)
    assert z.shape == (2, *SHAPE)
    assert z.dtype == torch.float32
    assert torch.isfinite(z).all()
    assert not z.requires_grad


@every_method
@both_schedules
def test_same_seed_same_result_and_another_seed_another(name: str, schedule: str) -> None:
    first = run(name, schedule)
    assert torch.equal(first, run(name, schedule))
    other = sampler(name)(prior(schedule), supported(name, problem()), Noise([7, 8]))
    assert not torch.equal(first, other)


@every_method
@both_schedules
def test_one_alone_equals_one_in_a_batch(name: str, schedule: str) -> None:
    """In float64, where only the order of sums can differ: a coupling in the batch would be of order 1."""
    together = supported(name, problem(seeds=(0, 1, 2), dtype=torch.float64))
    together = dataclasses.replace(together, y=together.y.double(), y_z=together.y_z.double())
    batch = sampler(name)(prior(schedule), together, Noise([0, 1, 2]))
    for i in range(3):
        alone = dataclasses.replace(together, y=together.y[i : i + 1], y_z=together.y_z[i : i + 1])
        single = sampler(name)(prior(schedule), alone, Noise([i]))
        torch.testing.assert_close(single, batch[i : i + 1], rtol=1e-9, atol=1e-9)


@every_method
@both_schedules
@pytest.mark.parametrize("steps", [5, 8])
def test_declared_nfe_is_counted_nfe(name: str, schedule: str, steps: int) -> None:
    chosen, counted = sampler(name, steps=steps), Counted(prior(schedule))
    chosen(counted, supported(name, problem()), Noise([0, 1]))
    assert counted.nfe == chosen.nfe


NFE_AT = {  # (steps, NFE) of the published ports
    "paseo": [(28, 53), (50, 97), (100, 197)],
    "ding": [(41, 79), (74, 145), (149, 295)],
    "silo": [(79, 79)],
    "ldps": [(80, 79), (146, 145), (296, 295)],
    "psld": [(80, 79), (146, 145), (296, 295)],
    "gml-dps": [(80, 79), (146, 145), (296, 295)],
    "resample": [(79, 79), (145, 145), (295, 295)],
    "daps": [(28, 78), (50, 144), (100, 294)],
    "red-diff": [(80, 79), (146, 145), (296, 295)],
    "flow-dps": [(80, 79), (146, 145), (296, 295)],
    "flow-chef": [(80, 79), (146, 145), (296, 295)],
    "pnp-flow": [(79, 79), (145, 145), (295, 295)],
    "dds": [(80, 79)],
    "diffpir": [(80, 79)],
    "ddnm": [(80, 79)],
}


@every_method
def test_budgets_are_the_published_ones(name: str) -> None:
    for steps, nfe in NFE_AT[base(name)]:
        assert dataclasses.replace(method(base(name)).default, steps=steps).nfe == nfe
        assert within(method(base(name)).default, nfe).steps == steps


@every_method
def test_inputs_are_left_untouched(name: str) -> None:
    found = supported(name, problem())
    tensors = [t for t in (found.y, found.y_z, found.observed) if t is not None]
    copies = [t.clone() for t in tensors]
    sampler(name)(prior(), found, Noise([0, 1]))
    assert all(torch.equal(t, copy) for t, copy in zip(tensors, copies, strict=True))


@every_method
@both_schedules
def test_watch_is_called_once_per_step(name: str, schedule: str) -> None:
    seen: list[Step] = []
    z = run(name, schedule, watch=seen.append)
    assert [step.index for step in seen] == list(range(seen[0].total))
    assert {step.total for step in seen} == {len(seen)}
    assert all(
        step.x.shape == step.z.shape == z.shape and not step.x.requires_grad and not step.z.requires_grad
        for step in seen
    )
    levels = [step.point.level for step in seen]
    assert levels == sorted(levels, reverse=True)


@every_method
def test_what_the_hook_was_shown_stays_as_it_was(name: str) -> None:
    kept: list[tuple[Tensor, Tensor]] = []
    run(name, watch=lambda step: kept.extend([(step.x, step.x.clone()), (step.z, step.z.clone())]))
    assert all(torch.equal(shown, copy) for shown, copy in kept)


@every_method
def test_watching_changes_nothing_and_a_hook_can_stop_the_run(name: str) -> None:
    calls: list[int] = []

    def stop(step: Step) -> None:
        calls.append(step.index)
        if step.index == 1:
            raise Cancelled("enough")

    assert torch.equal(run(name), run(name, watch=lambda step: None))
    with pytest.raises(Cancelled):
        run(name, watch=stop)
    assert calls == [0, 1]


@every_method
def test_a_state_that_the_hook_returns_takes_the_place_of_the_run_s(name: str) -> None:
    shown: list[tuple[Tensor, Tensor]] = []

    def push(step: Step) -> Tensor | None:
        shown.append((step.x, step.x.clone()))
        return step.x + 1.0 if step.index == 1 else None

    plain = run(name)
    assert torch.equal(run(name, watch=lambda step: step.x.clone()), plain)
    assert not torch.equal(run(name, watch=push), plain)
    assert all(torch.equal(x, copy) for x, copy in shown)  # nothing is changed in place
    with pytest.raises(BadInput, match=r"returned a state of shape \(2,\)"):
        run(name, watch=lambda step: torch.zeros(2))


class Broken:
    """A prior whose n-th call returns NaN in the second sample."""

    def __init__(self, call: int) -> None:
        self.prior, self.left = prior(), call
        self.schedule = self.prior.schedule

    def x0(self, x: Tensor, t: float) -> Tensor:
        self.left -= 1
        mean = self.prior.x0(x, t)
        return mean if self.left else mean * torch.tensor([1.0, float("nan")]).view(2, 1, 1, 1)


@every_method
def test_a_latent_that_is_not_finite_names_its_step(name: str) -> None:
    calls_per_step = {"paseo": 2, "ding": 2, "daps": 3, "pnp-flow": 2}.get(base(name), 1)
    with pytest.raises(NotFinite, match=r"step 3 of \d+ .*Try .+\.") as caught:
        sampler(name)(Broken(2 * calls_per_step + 1), supported(name, problem()), Noise([0, 1]))
    assert re.search(r"t=[\d.]+", str(caught.value))


@every_method
def test_jpeg_or_a_reason(name: str) -> None:
    """The one task that is not linear: a finite latent, or a sentence that says why not and what to try."""
    jpeg, chosen = problem("jpeg"), sampler(name)
    reason = chosen.unsupported(jpeg)
    if reason is None:
        assert torch.isfinite(chosen(prior(), jpeg, Noise([0, 1]))).all()
        return
    assert name in {"psld", "ding", "dds", "diffpir", "ddnm"}
    assert "Try" in reason
    with pytest.raises(PaseoError, match=re.escape(reason)):
        chosen(prior(), jpeg, Noise([0, 1]))


@every_method
@pytest.mark.parametrize("task", ["sr4", "blur", "inpaint"])
def test_linear_tasks_run_or_give_a_reason(name: str, task: str) -> None:
    found, chosen = problem(task), sampler(name)
    if reason := chosen.unsupported(found):
        assert name == "ding"
        assert task != "inpaint"
        assert "mask" in reason
        return
    assert torch.isfinite(chosen(prior(), found, Noise([0, 1]))).all()


@every_method
@pytest.mark.parametrize("field", ["y", "y_z"])
def test_a_measurement_with_nan_is_refused(name: str, field: str) -> None:
    found = supported(name, problem())
    spoiled = getattr(found, field).clone()
    spoiled[1, 0, 0, 0] = float("nan")
    if base(name) == "paseo" and field == "y" and not sampler(name).finish:  # only the encoded one is read
        assert torch.equal(
            run(name), sampler(name)(prior(), dataclasses.replace(found, y=spoiled), Noise([0, 1]))
        )
        return
    with pytest.raises(BadInput, match=r"finite|NaN"):
        sampler(name)(prior(), dataclasses.replace(found, **{field: spoiled}), Noise([0, 1]))


@every_method
def test_settings_that_make_no_sense_are_refused(name: str) -> None:
    for steps in (-3, 0, 1):
        with pytest.raises(BadInput, match="steps"):
            dataclasses.replace(method(base(name)).default, steps=steps)
    for field in method(base(name)).tune:
        with pytest.raises(BadInput, match=field):
            dataclasses.replace(method(base(name)).default, **{field: -1.0})


class Probe:
    """Remembers whether each call was made with gradients on."""

    def __init__(self, f: Any) -> None:
        self.f, self.differentiated, self.calls = f, False, 0

    def __call__(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.differentiated |= torch.is_grad_enabled() and x.requires_grad
        return self.f(x)


class ProbedCodec:
    factor = 2
    latent_space = "identity-2"

    def __init__(self, codec: Any) -> None:
        self.encode, self.decode = Probe(codec.encode), Probe(codec.decode)


class ProbedPrior:
    def __init__(self) -> None:
        self.prior, self.differentiated = prior(), False
        self.schedule = self.prior.schedule

    def x0(self, x: Tensor, t: float) -> Tensor:
        self.differentiated |= torch.is_grad_enabled() and x.requires_grad
        return self.prior.x0(x, t)


@every_method
def test_differentiates_what_the_registry_says(name: str) -> None:
    found = supported(name, problem("inpaint"))
    codec, denoiser, operator = ProbedCodec(found.codec), ProbedPrior(), Probe(lambda z: z)
    probed: Problem = dataclasses.replace(found, codec=codec, operator=operator)
    sampler(name, steps=8)(denoiser, probed, Noise([0, 1]))
    said = set(method(base(name)).differentiates.split(", "))
    assert denoiser.differentiated == ("denoiser" in said)
    assert codec.decode.differentiated == ("D" in said)
    assert codec.encode.differentiated == ("E" in said)
    assert (operator.differentiated or base(name) == "paseo") == (
        "H" in said
    )  # PASEO's JVPs carry no gradient flag


@every_method
def test_runs_under_inference_mode(name: str) -> None:
    found = supported(name, problem())
    outside = sampler(name)(prior(), found, Noise([0, 1]))
    with torch.inference_mode():
        inside = sampler(name)(prior(), found, Noise([0, 1]))
    torch.testing.assert_close(inside.clone(), outside)


@every_method
def test_half_precision_measurements_are_computed_in_float32(name: str) -> None:
    found = supported(name, problem())
    half = dataclasses.replace(found, y_z=found.y_z.to(torch.bfloat16))
    assert sampler(name)(prior(), half, Noise([0, 1])).dtype == torch.float32


@every_method
def test_is_a_frozen_value(name: str) -> None:
    chosen = method(base(name)).default
    assert chosen == dataclasses.replace(chosen)
    assert hash(chosen) == hash(dataclasses.replace(chosen))
    with pytest.raises(dataclasses.FrozenInstanceError):
        chosen.steps = 3


def test_the_table_of_methods_has_a_row_each_with_reasons() -> None:
    rows = describe({"sr4": problem(), "jpeg": problem("jpeg")})
    assert [row["name"] for row in rows] == list(METHODS)
    assert all(
        row["paper"] and row["needs"] and row["nfe"] and row["default_nfe"] == method(row["name"]).default.nfe
        for row in rows
    )
    blocked = {row["name"] for row in rows if row["unsupported"]["jpeg"]}
    assert blocked == {"psld", "ding", "dds", "diffpir", "ddnm"}
    with pytest.raises(BadInput, match="no method named"):
        method("nonsense")
    with pytest.raises(BadInput, match="denoiser calls"):
        within(method("paseo").default, 1)
