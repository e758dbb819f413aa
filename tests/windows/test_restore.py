"""A restoration in windows: the pixels of the untiled one, no seams, and windows only where memory asks for
them.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import paseo
from paseo.base import Codec, Prior
from paseo.codecs.embedded import EmbeddedCodec
from paseo.codecs.net import AutoencoderNet
from paseo.degrade.family import PARAMETERS, SUBCELLS
from paseo.degrade.tasks import task
from paseo.errors import OutOfMemory
from paseo.memory import CANVAS_BYTES, Choice, tiling
from paseo.models import load_model
from paseo.operators.config import OperatorConfig
from paseo.operators.family import Family
from paseo.operators.net import OperatorNet
from paseo.priors.embedded import EmbeddedPrior
from paseo.priors.local_net import LocalUNet
from paseo.samplers import PASEO
from paseo.street import restore
from paseo.units import to_signed, to_unit
from paseo.windows import Area, Cover, Windows

GIB = 2**30


@dataclass(frozen=True)
class Smooth:
    """A local operator: a 3×3 mean in the latent, and a little curvature."""

    cell_bytes: int = 1024

    def __call__(self, z: Tensor) -> Tensor:
        kernel = z.new_full((z.shape[1], 1, 3, 3), 1 / 9)
        return F.conv2d(z, kernel, padding=1, groups=z.shape[1]) + 0.05 * torch.sin(z)

    def at(self, area: Area, canvas: tuple[int, int]) -> Smooth:
        return self


def parts() -> tuple[EmbeddedPrior, EmbeddedCodec]:
    """A local prior and a codec with random weights of a size that keeps the sampler calm."""
    torch.manual_seed(0)
    net = LocalUNet(channels=4, widths=(8, 8), blocks=1)
    codec = AutoencoderNet(4, (8, 8, 8), (1, 1, 1), (1, 1, 1))
    for p in (*net.parameters(), *codec.parameters()):
        if p.ndim > 1:
            torch.nn.init.normal_(p, std=0.7 / p[0].numel() ** 0.5)
    return EmbeddedPrior(net), EmbeddedCodec(codec)


SAMPLER = PASEO(steps=4, cg_budget=2, relaxation=0.5)


def run(prior: Prior, codec: Codec, y: Tensor, windows: Windows | str) -> Tensor:
    return restore(
        y,
        operator=Smooth(),
        degradation=task("sr4").degradation,
        sampler=SAMPLER,
        prior=prior,
        codec=codec,
        windows=windows,  # type: ignore[arg-type]
    ).images


@pytest.fixture(scope="module")
def picture() -> Tensor:
    """A measurement of 96×128 pixels, restored at 384×512: 48×64 cells."""
    torch.manual_seed(1)
    y = F.interpolate(torch.rand(1, 3, 24, 32), scale_factor=4.0, mode="bilinear")
    return (y + 0.05 * torch.randn_like(y)).clamp(0, 1)


def test_a_halo_as_wide_as_the_reach_gives_the_untiled_pixels(picture: Tensor) -> None:
    prior, codec = parts()
    y = F.interpolate(picture, size=(64, 256), mode="bilinear")  # 32×128 cells
    reach = prior.receptive_field
    assert reach is not None
    windows = Windows(side=2 * (2 * reach + 4) + 4, halo=reach, blend=4)
    assert len(Cover((32, 128), windows, prior.multiple).areas) == 2
    whole, tiled = run(prior, codec, y, "off"), run(prior, codec, y, windows)
    assert (whole - tiled).abs().max() < 1e-4  # far below 1/255
    assert whole.std() > 0.05


def test_a_narrow_halo_leaves_no_seam(picture: Tensor) -> None:
    """The mean gradient across the cells where windows meet is that of the same cells untiled, within 2 %."""
    prior, codec = parts()
    windows = Windows(side=36, halo=4, blend=8)
    starts = Cover((48, 64), windows, prior.multiple).starts[1]
    assert len(starts) == 3
    whole, tiled = run(prior, codec, picture, "off"), run(prior, codec, picture, windows)
    edges = [
        8 * (s + cells) for s in starts[1:] for cells in range(windows.halo, windows.halo + windows.blend + 1)
    ]

    def gradient(x: Tensor) -> Tensor:
        return torch.stack([(x[..., e] - x[..., e - 1]).abs().mean() for e in edges]).mean()

    assert abs(gradient(tiled) / gradient(whole) - 1) < 0.02


def test_the_embedded_codec_in_windows_is_the_codec() -> None:
    from paseo.codecs.windows import WindowedCodec

    codec = load_model("faces-128").codec
    torch.manual_seed(0)
    x = F.interpolate(torch.rand(1, 3, 40, 52), size=(320, 416), mode="bicubic").clamp(0, 1) * 2 - 1
    tiled = WindowedCodec(codec, Cover((40, 52), Windows(side=36, halo=4, blend=8), 4))
    z = codec.encode(x)
    assert (tiled.encode(x) - z).abs().max() < 0.02
    assert (tiled.decode(z) - codec.decode(z)).abs().max() < 2 / 255


def test_pictures_that_fit_are_taken_whole() -> None:
    prior, codec = parts()
    assert tiling(prior, codec, Smooth(), (96, 128), free=8 * GIB, grain=2).windows is None
    assert tiling(prior, codec, Smooth(), (96, 128), choice="off", free=0).windows is None


def test_windows_shrink_with_the_memory_and_stay_within_it() -> None:
    model = load_model("faces-128")
    prior, operator = EmbeddedPrior(LocalUNet()), model.operator("sr4").bind(0.01)
    canvas, sides = (384, 512), []
    for free in (16 * GIB, 5 * GIB, int(3.6 * GIB), int(3.3 * GIB)):
        found = tiling(prior, model.codec, operator, canvas, free=free, grain=4)
        sides.append(None if found.windows is None else found.windows.side)
        assert found.keep == (free == 16 * GIB)
    assert sides[0] is None
    assert sides[1] == 128
    assert sides[1:] == sorted(sides[1:], reverse=True)
    assert sides[-1] < 128


def test_what_cannot_fit_is_refused_with_what_helps() -> None:
    model = load_model("faces-128")
    prior = EmbeddedPrior(LocalUNet())
    needed = 384 * 512 * CANVAS_BYTES
    with pytest.raises(OutOfMemory, match="smaller factor") as one:
        tiling(prior, model.codec, Smooth(), (384, 512), free=needed, grain=4)
    assert "seeds" not in str(one.value)
    with pytest.raises(OutOfMemory, match="fewer seeds"):
        tiling(prior, model.codec, Smooth(), (384, 512), images=2, free=needed, grain=4)
    with pytest.raises(OutOfMemory, match="photos"):  # a network that must see the whole
        tiling(model.prior, model.codec, Smooth(), (384, 512), free=2 * needed, grain=4)


def test_a_prior_that_sees_the_whole_picture_is_never_cut(picture: Tensor) -> None:
    model = load_model("faces-128")
    found = tiling(model.prior, model.codec, Smooth(), (48, 64), choice=Windows(36, 4, 8), grain=4)
    assert found.prior(model.prior) is model.prior
    assert found.codec(model.codec) is not model.codec


def test_the_result_says_which_windows_were_used(picture: Tensor) -> None:
    prior, codec = parts()
    result = restore(
        picture,
        operator=Smooth(),
        degradation=paseo.task("sr4"),
        sampler=SAMPLER,
        prior=prior,
        codec=codec,
        windows=Windows(36, 4, 8),
    )
    assert result.windows == Windows(36, 4, 8)
    assert result.nfe == 2 * SAMPLER.steps - 3


def test_a_width_that_is_sought_is_found_in_windows_too(picture: Tensor) -> None:
    """blind=sigma on a canvas that fits both ways: the same width, and nearly the same picture."""
    prior, codec = parts()
    torch.manual_seed(0)
    net = OperatorNet(OperatorConfig(4, family=Family(PARAMETERS, {}, SUBCELLS, local=True)))
    y = to_unit(task("blur:2").degradation(to_signed(picture)))
    choices: tuple[Choice, ...] = ("off", Windows(side=12, halo=2, blend=1))
    whole, tiled = (
        restore(
            y,
            operator=net.requires_grad_(False),
            degradation=task("blur:1"),
            sampler=PASEO(steps=3, operator_noise=0.5, blind=("sigma",)),
            prior=prior,
            codec=codec,
            windows=windows,
        )
        for windows in choices
    )
    assert tiled.windows == Windows(12, 2, 1)
    assert tiled.found == whole.found
    assert whole.found["sigma"][0] > 1.5
    assert (whole.images - tiled.images).abs().mean() < 0.02
