"""`finish`: the last correction of a run is taken in pixels, through the codec and the degradation itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import paseo
from paseo.base import Codec, Noise, Problem, Step
from paseo.errors import BadInput
from paseo.images import read
from paseo.models import ROOT
from paseo.problem import pose
from paseo.samplers import PASEO
from paseo.samplers.finish import finished
from tests.samplers.toys import prior, problem

PLAIN = PASEO(steps=8, cg_budget=2, operator_noise=0.1)


class Halving:
    """A codec whose encodings come back at half their size: E(D(z)) is not z."""

    def __init__(self, codec: Any) -> None:
        self.codec, self.encodings, self.decodings = codec, 0, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.codec, name)

    def encode(self, x: Tensor) -> Tensor:
        self.encodings += 1
        return 0.5 * self.codec.encode(x)

    def decode(self, z: Tensor) -> Tensor:
        self.decodings += 1
        return self.codec.decode(z)


def last_latents(sampler: PASEO, task: Problem) -> tuple[list[Tensor], Tensor]:
    """The corrected latent of every step, and the result."""
    seen: list[Tensor] = []

    def watch(step: Step) -> None:
        seen.append(step.z.clone())

    return seen, sampler(prior(), task, Noise([0, 1]), watch)


def misfit(task: Problem, z: Tensor) -> Tensor:
    """‖y − A(D(z))‖ per picture."""
    A: Any = task.degradation
    codec: Any = task.codec
    return (task.y - A(codec.decode(z))).flatten(1).norm(dim=1)


def test_none_of_it_is_the_paper_bit_for_bit() -> None:
    assert PASEO().finish == 0
    task = problem("sr4")
    blind = replace(task, codec=None, degradation=None)  # nothing is asked of them
    assert torch.equal(PLAIN(prior(), task, Noise([0, 1])), PLAIN(prior(), blind, Noise([0, 1])))


def test_only_the_last_correction_changes_and_the_operator_is_not_asked_there() -> None:
    task = problem("sr4")
    before, _ = last_latents(PLAIN, task)
    after, _ = last_latents(replace(PLAIN, finish=0.6), task)
    assert len(before) == len(after) == PLAIN.steps - 2
    assert all(torch.equal(a, b) for a, b in zip(before[:-1], after[:-1], strict=True))
    assert not torch.equal(before[-1], after[-1])

    asked = []

    def counted(z: Tensor) -> Tensor:
        asked.append(1)
        return task.operator(z)

    for finish, steps in ((0.0, 6), (0.6, 5)):
        asked.clear()
        replace(PLAIN, finish=finish, cg_budget=1, expand="anchor")(
            prior(), replace(task, operator=counted), Noise([0, 1])
        )
        per_step = len(asked) / steps
        assert per_step == round(per_step) > 0


def test_it_is_the_stated_formula() -> None:
    task = problem("blur")
    A: Any = task.degradation
    codec: Any = Halving(task.codec)
    task = replace(task, codec=codec)
    z = 0.1 * prior().sample(Noise([3, 4]))  # inside the range of images, where the clamp does nothing
    x = task.codec.decode(z)  # ty: ignore[possibly-missing-attribute]
    expected = 0.5 * codec.codec.encode(x + 0.7 * (task.y - A(x)))
    torch.testing.assert_close(finished(task, z, 0.7), expected, rtol=1e-5, atol=1e-6)


def test_seen_pixels_are_matched_and_hidden_ones_are_left() -> None:
    task = problem("inpaint")
    assert task.observed is not None
    z = 0.1 * prior().sample(Noise([3, 4]))
    found = finished(task, z, 1.0)
    m = task.observed.expand_as(z)
    torch.testing.assert_close(found * m, task.y_z * m, rtol=0, atol=1e-6)
    torch.testing.assert_close(found * (1 - m), z * (1 - m), rtol=0, atol=1e-6)


@pytest.mark.parametrize(("name", "share"), [("sr4", 1.0), ("blur", 1.0), ("inpaint", 1.0), ("jpeg", 0.3)])
def test_with_a_real_codec_the_picture_comes_nearer_to_the_measurement(name: str, share: float) -> None:
    """Where a run has ended; the latents there hold less than the codec could say of what was seen."""
    model = paseo.load_model("faces-128")
    known = paseo.task(name)
    y = known.measure(read(ROOT / "faces-128/samples/2000001.jpg").rgb[None], 1)
    plain = replace(paseo.preset("faces-128", name).sampler, finish=0.0, steps=12)
    operator = paseo.load_operator(ROOT / "faces-128/operators" / name)
    task = pose(
        y,
        prior=model.prior,
        codec=model.codec,
        operator=operator,
        degradation=known.degradation,
        sigma_y=known.sigma_y,
    )
    z = plain(model.prior, task, Noise(0))
    before, after = misfit(task, z), misfit(task, finished(task, z, share))
    assert after.item() < before.item()


def test_each_run_costs_one_decode_and_one_encode() -> None:
    task = problem("sr4")
    codec: Any = Halving(task.codec)
    replace(PLAIN, finish=1.0)(prior(), replace(task, codec=codec), Noise([0, 1]))
    assert (codec.decodings, codec.encodings) == (1, 1)


def test_bad_input_is_refused() -> None:
    for bad in (-0.1, 2.5, float("nan"), "much"):
        with pytest.raises(BadInput, match="finish"):
            PASEO(finish=bad)  # ty: ignore[invalid-argument-type]
    sampler = replace(PLAIN, finish=0.5)
    nothing: dict[str, Codec | None] = {"codec": None}
    for missing in ({"degradation": None}, nothing):
        task = replace(problem("sr4"), **missing)  # ty: ignore[invalid-argument-type]
        with pytest.raises(BadInput, match=r"finish=0\.5 ends in pixels"):
            sampler(prior(), task, Noise([0, 1]))
