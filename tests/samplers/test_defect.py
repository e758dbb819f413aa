"""`recheck`: the learned operator is set right on the way by its error at the current estimate."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from paseo.base import Noise, Problem
from paseo.errors import BadInput
from paseo.operators.exact import Chain
from paseo.samplers import PASEO
from paseo.samplers.defect import BELIEVED, defect, defect_is_due
from tests.samplers.toys import prior, problem

PLAIN = PASEO(steps=20, cg_budget=2, operator_noise=0.1)


class Biased:
    """E∘A∘D and a constant that the truth does not have."""

    def __init__(self, chain: Chain, bias: float) -> None:
        self.chain, self.bias = chain, bias

    def __call__(self, z: Tensor) -> Tensor:
        return self.chain(z) + self.bias


class Counting:
    """A codec that counts what it is asked for."""

    def __init__(self, codec: Any) -> None:
        self.codec, self.calls = codec, {"encode": 0, "decode": 0}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.codec, name)

    def encode(self, x: Tensor) -> Tensor:
        self.calls["encode"] += 1
        return self.codec.encode(x)

    def decode(self, z: Tensor) -> Tensor:
        self.calls["decode"] += 1
        return self.codec.decode(z)


def biased(bias: float) -> Problem:
    found = problem("sr4")
    return replace(found, operator=Biased(found.operator, bias))  # ty: ignore[invalid-argument-type]


def misfit(found: Problem, z: Tensor) -> float:
    """RMS of y_z − E(A(D(z)))."""
    chain = Chain(found.codec, found.degradation)  # ty: ignore[invalid-argument-type]
    return (found.y_z - chain(z)).square().mean().sqrt().item()


def test_the_defect_is_a_share_of_the_operators_error() -> None:
    z = 0.1 * prior().sample(Noise([3, 4]))  # inside the range of images, where the clamp does nothing
    torch.testing.assert_close(
        defect(biased(0.25), z), torch.full_like(z, -0.25 * BELIEVED), rtol=1e-4, atol=1e-5
    )
    torch.testing.assert_close(defect(biased(0.0), z), torch.zeros_like(z), rtol=0, atol=1e-5)


@pytest.mark.parametrize(("every", "steps"), [(0, []), (1, list(range(5, 15))), (3, [5, 8, 11, 14])])
def test_looks_begin_after_a_quarter_keep_their_distance_and_spare_the_last_steps(
    every: int, steps: list[int]
) -> None:
    assert [k for k in range(19) if defect_is_due(k, 20, every)] == steps


def test_a_biased_operator_is_set_right() -> None:
    """With the bias the sampler believes a wrong measurement; looking at it brings the result back to the
    true one.
    """
    found = biased(0.3)
    blind, looking = (
        misfit(found, s(prior(), found, Noise([0, 1]))) for s in (PLAIN, replace(PLAIN, recheck=2))
    )
    honest = misfit(found, PLAIN(prior(), biased(0.0), Noise([0, 1])))
    assert honest < looking < blind
    assert looking - honest < 0.5 * (blind - honest)


def test_each_look_costs_one_decode_and_one_encode() -> None:
    found = problem("sr4")
    codec: Any = Counting(found.codec)
    operator = Biased(Chain(found.codec, found.degradation), 0.0)  # ty: ignore[invalid-argument-type]
    task = replace(found, codec=codec, operator=operator)  # ty: ignore[invalid-argument-type]
    PLAIN(prior(), task, Noise([0, 1]))
    assert codec.calls == {"encode": 0, "decode": 0}
    replace(PLAIN, recheck=3)(prior(), task, Noise([0, 1]))
    looks = sum(defect_is_due(k, PLAIN.steps, 3) for k in range(PLAIN.steps))
    assert looks == 4
    assert codec.calls == {"encode": looks, "decode": looks}


class Sketching(Counting):
    """A codec with a quick decoder, which here is a tenth too bright."""

    def sketch(self, z: Tensor) -> Tensor:
        self.calls["sketch"] = self.calls.get("sketch", 0) + 1
        return self.codec.decode(z) + 0.1


def test_a_look_may_go_through_the_quick_decoder_and_a_result_never_does() -> None:
    found = problem("sr4")
    codec: Any = Sketching(found.codec)
    task = replace(found, codec=codec)
    z = 0.1 * prior().sample(Noise([3, 4]))
    difference = defect(task, z, sketch=True) - defect(task, z)
    brighter = codec.encode(torch.full_like(codec.decode(z), 0.1))  # sr4 keeps a constant as it is
    torch.testing.assert_close(difference, BELIEVED * brighter, rtol=1e-4, atol=1e-5)
    codec.calls = {"encode": 0, "decode": 0}
    replace(PLAIN, recheck=3, sketch=True)(prior(), task, Noise([0, 1]))
    assert codec.calls == {"encode": 4, "decode": 0, "sketch": 4}


def test_without_a_quick_decoder_the_codecs_own_is_taken() -> None:
    found = biased(0.3)
    plain, sketching = (
        replace(PLAIN, recheck=3, sketch=s)(prior(), found, Noise([0, 1])) for s in (False, True)
    )
    assert torch.equal(plain, sketching)


def test_bad_input_is_refused() -> None:
    for bad in (-1, 1.5, True):
        with pytest.raises(BadInput, match="recheck"):
            PASEO(recheck=bad)  # ty: ignore[invalid-argument-type]
    blind = replace(problem("sr4"), degradation=None)
    with pytest.raises(BadInput, match="recheck=2 compares"):
        replace(PLAIN, recheck=2)(prior(), blind, Noise([0, 1]))
