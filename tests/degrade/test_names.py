"""Degradations as people type them: what they mean, their canonical names, and what is refused."""

from __future__ import annotations

import pytest
import torch

from paseo.degrade import (
    JPEG,
    Compose,
    Downsample,
    GaussianBlur,
    Grain,
    MotionBlur,
    StretchedBlur,
    measure,
    task,
    user_task,
)
from paseo.errors import BadInput

MEANINGS = {
    "jpeg:35": JPEG(35),
    "blur:2.5": GaussianBlur(2.5),
    "blur:2x2": GaussianBlur(2.0),
    "blur:4x1@30": StretchedBlur(4.0, 1.0, 30.0),
    "motion:15@45": MotionBlur(15.0, 45.0),
    "motion:7": MotionBlur(7.0, 0.0),
    "sr:3": Downsample(3.0),
    "sr:2.5": Downsample(2.5),
    "noise:0.05": Grain(0.0),
}


@pytest.mark.parametrize("name", MEANINGS)
def test_a_word_and_its_numbers(name: str) -> None:
    assert task(name).degradation == MEANINGS[name]


@pytest.mark.parametrize(
    ("typed", "canonical"),
    [
        (" JPEG: 35 ", "jpeg:35"),
        ("jpeg:35.0", "jpeg:35"),
        ("blur:3x3@20", "blur:3"),
        ("blur:4×1@210", "blur:4x1@30"),
        ("blur:4x1", "blur:4x1@0"),
        ("motion:15@-30", "motion:15@150"),
        ("sr:2.50", "sr:2.5"),
        ("noise:5e-2", "noise:0.05"),
        ("blur:1.5, sr:2 ,jpeg:60", "blur:1.5,sr:2,jpeg:60"),
        ("sr4,jpeg", "sr:4,jpeg:10"),
    ],
)
def test_the_canonical_name_is_one_for_all_ways_to_type_it(typed: str, canonical: str) -> None:
    assert task(typed).name == canonical
    assert task(canonical).name == canonical


def test_keywords_say_the_same() -> None:
    assert task("jpeg", quality=35).name == "jpeg:35"
    assert task("blur", sigma=(4, 1), angle=30).name == "blur:4x1@30"
    assert task("motion", length=9).name == "motion:9@0"
    assert task("jpeg").name == "jpeg"  # the paper's


def test_a_chain_says_what_happened_in_order() -> None:
    chain = task("blur:1.5,sr:2,noise:0.02,jpeg:60")
    assert isinstance(chain.degradation, Compose)
    assert [type(part) for part in chain.degradation.parts] == [GaussianBlur, Downsample, Grain, JPEG]
    assert chain.description == (
        "The picture was blurred by a Gaussian of 1.5 px, made 2 times smaller, given noise of 0.02 and "
        "stored as a JPEG of quality 60."
    )
    assert (chain.sigma_y, chain.kin) == (0.0, "sr4")


def test_noise_that_comes_last_is_the_measurements_own() -> None:
    last = task("sr:2,noise:0.03")
    assert (last.sigma_y, last.degradation) == (0.03, Downsample(2.0))
    assert task("noise:0.05").sigma_y == 0.05
    assert task("blur:2").sigma_y == 0.01
    assert task("jpeg:40").sigma_y == 0.0


def test_noise_inside_a_chain_is_drawn_from_the_seed() -> None:
    x = torch.full((1, 3, 64, 64), 0.5)
    chain = task("noise:0.05,jpeg:95")
    assert torch.equal(chain.measure(x, [1]), chain.measure(x, [1]))
    assert not torch.equal(chain.measure(x, [1]), chain.measure(x, [2]))
    spread = chain.measure(x, [1])[:, 1].std().item()  # green is near luma, which keeps most of it
    assert 0.02 < spread < 0.06
    assert measure(x, chain.degradation, 0.0, 1).shape == x.shape


@pytest.mark.parametrize(
    "name", ["blur:4x1@30", "motion:15@45", "sr:2.5", "blur:1.2,sr:2.5", "motion:9@10,sr:3"]
)
@pytest.mark.parametrize("size", [(40, 33), (17, 64)])
def test_linear_ones_have_true_adjoints(name: str, size: tuple[int, int]) -> None:
    A = task(name)
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(2, 3, *size, generator=rng, dtype=torch.float64)
    y = torch.randn(2, 3, *A.output_size(*size), generator=rng, dtype=torch.float64)
    assert (A(x) * y).sum().item() == pytest.approx((x * A.adjoint(y, size)).sum().item(), rel=1e-11)
    assert A.lift(A(x), size).shape == x.shape


@pytest.mark.parametrize("quality", [5, 35, 90])
def test_jpeg_has_its_twin_at_every_quality(quality: int) -> None:
    x = torch.rand(1, 3, 32, 32, generator=torch.Generator().manual_seed(0)) * 1.6 - 0.8
    A = task(f"jpeg:{quality}").degradation
    assert isinstance(A, JPEG)
    soft = A.twin(x)
    assert (A(x) - soft).abs().mean() < 0.12
    gradient = torch.func.vjp(A, x)[1](torch.ones_like(x))[0]
    assert float(gradient.abs().max()) > 0


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("jpeg:0", r"1 to 100, got 0\.$"),
        ("jpeg:35.5", "whole number"),
        ("blur:-1", "0.1 to 20 px"),
        ("blur:nan", "0.1 to 20 px"),
        ("sr:0.5", "1 to 16"),
        ("noise:2", "0 to 0.5"),
        ("motion:0", "1 to 60 px"),
        ("motion", "needs a number"),
        ("jpeg:", "1 to 100"),
        ("blur:fog", r"blur\.py:function"),
        ("blur:1,fog:2", "no degradation 'fog:2'"),
        ("jpg", "Did you mean 'jpeg'"),
        ("shrink", "with numbers: jpeg:QUALITY"),
    ],
)
def test_bad_names_are_refused_with_the_range(name: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        task(name)


def test_bad_keywords_are_refused() -> None:
    with pytest.raises(BadInput, match="no parameter 'sigma'"):
        task("jpeg", sigma=3)
    with pytest.raises(BadInput, match="takes no factor"):
        task("sr4", factor=3)
    with pytest.raises(BadInput, match="lacks the length"):
        task("motion", angle=3)
    with pytest.raises(BadInput, match="1 to 100"):
        task("jpeg", quality="best")


def test_functions_of_ones_own_are_still_found() -> None:
    found = user_task("torch.nn.functional:relu")
    assert found.name == "torch.nn.functional:relu"
