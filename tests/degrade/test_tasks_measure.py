"""The five tasks by name, and measurements with noise."""

from __future__ import annotations

import math

import pytest
import torch

from paseo.base import Degradation, Noise
from paseo.degrade import (
    JPEG,
    CentreBox,
    Downsample,
    GaussianBlur,
    Task,
    measure,
    measurement_noise,
    register,
    task,
    tasks,
)
from paseo.degrade.tasks import _KNOWN
from paseo.errors import BadInput, Unsupported

FIVE = {
    "sr4": Downsample(4),
    "sr8": Downsample(8),
    "blur": GaussianBlur(3.0, 61),
    "inpaint": CentreBox(0.5),
    "jpeg": JPEG(10),
}


def _images(b: int = 2, n: int = 32) -> torch.Tensor:
    return torch.rand(b, 3, n, n, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", FIVE)
def test_the_five_tasks(name: str) -> None:
    found = task(name)
    assert found.degradation == FIVE[name]
    assert found.sigma_y == 0.01
    assert found.linear == (name != "jpeg")
    assert found.masks == (name == "inpaint")
    assert isinstance(found, Degradation)
    x = _images() * 2 - 1
    y = found(x)
    assert tuple(y.shape[-2:]) == found.output_size(32, 32)
    assert found.lift(y).shape == x.shape
    assert found.params == FIVE[name].params
    if name == "jpeg":
        with pytest.raises(Unsupported):
            found.adjoint(y)
    else:
        assert found.adjoint(y).shape == x.shape


def test_the_list_has_the_papers_order() -> None:
    assert [t.name for t in tasks()][:5] == list(FIVE)


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(BadInput, match=r"Known: sr4, sr8, blur, inpaint, jpeg.*Did you mean 'inpaint'"):
        task("inpainting")
    with pytest.raises(BadInput, match="module:function"):
        task("zzz")
    with pytest.raises(BadInput, match="by its name"):
        task(4)  # ty: ignore[invalid-argument-type]


def test_more_tasks_can_be_registered() -> None:
    try:
        added = register(Task("sr2", "Super-resolution ×2", lambda: Downsample(2), sigma_y=0.05))
        assert task("sr2") is added
        with pytest.raises(BadInput, match="already"):
            register(added)
        assert register(added, replace=True) is added
    finally:
        _KNOWN.pop("sr2", None)
    with pytest.raises(BadInput, match="colons"):
        register(Task("a:b", "", lambda: Downsample(2)))


@pytest.mark.parametrize("name", FIVE)
def test_a_measurement_is_the_degraded_image_plus_its_noise(name: str) -> None:
    x, A = _images(), task(name)
    clean = measure(x, A, 0.0)
    torch.testing.assert_close(clean, (A(x * 2 - 1) + 1) / 2)
    y = A.measure(x, seeds=[3, 4])
    torch.testing.assert_close(y - clean, 0.01 * measurement_noise(clean, [3, 4]), rtol=0, atol=1e-6)
    assert torch.equal(measure(x, A, 0.01, seeds=3), A.measure(x, seeds=[3, 3]))  # one integer is everybody's


def test_noise_has_the_promised_level_in_unit_range_also_in_the_hole() -> None:
    x = torch.zeros(1, 3, 128, 128)
    y = measure(x, CentreBox(), 0.05, seeds=7)
    hole, rest = y[..., 32:96, 32:96] - 0.5, torch.cat([y[..., :32, :].flatten(), y[..., 96:, :].flatten()])
    for part in (hole.flatten(), rest):
        n = part.numel()
        assert abs(float(part.mean())) < 5 * 0.05 / math.sqrt(n)
        assert abs(float(part.std()) - 0.05) < 5 * 0.05 / math.sqrt(
            2 * n
        )  # standard error of a standard deviation
    assert float(rest.min()) < 0  # not clamped


def test_an_image_alone_has_the_noise_it_has_in_company() -> None:
    x = _images(3)
    y = measure(x, Downsample(4), 0.1, seeds=[5, 0, 9])
    assert torch.equal(y[1:2], measure(x[1:2], Downsample(4), 0.1, seeds=[0]))
    assert torch.equal(y[1:2], measure(x[1:2], Downsample(4), 0.1, seeds=0))
    assert not torch.equal(measurement_noise(x, [0, 0, 1])[0], measurement_noise(x, [0, 0, 1])[2])


def test_the_measurement_does_not_share_a_stream_with_the_sampler() -> None:
    y = torch.zeros(1, 3, 64, 64)
    a, b = measurement_noise(y, 0).flatten(), Noise(0).like(y).flatten()
    correlation = float((a * b).mean())
    assert abs(correlation) < 5 / math.sqrt(a.numel())


def test_global_randomness_is_left_alone() -> None:
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    measure(_images(), Downsample(4), 0.1)
    assert torch.equal(torch.rand(3), expected)


def test_refusals() -> None:
    x = _images()
    with pytest.raises(BadInput, match=r"\[0,1\]"):
        measure(x * 2 - 1, Downsample(4))
    with pytest.raises(BadInput, match="nan"):
        measure(x * float("nan"), Downsample(4))
    for sigma in (-0.1, float("nan"), float("inf")):
        with pytest.raises(BadInput, match="sigma_y"):
            measure(x, Downsample(4), sigma)
    with pytest.raises(BadInput, match="2 images and 3 seeds"):
        measure(x, Downsample(4), seeds=[1, 2, 3])
    with pytest.raises(BadInput, match="seed"):
        measure(x, Downsample(4), seeds=-1)
