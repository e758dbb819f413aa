"""The one-way street: nothing is lost on it, sizes come back, and images do not know each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torch import Tensor

import paseo
from paseo.base import Prior, Problem, Step, Watch, ignore
from paseo.codecs.identity import IdentityCodec
from paseo.errors import BadInput, Cancelled, Unsupported
from paseo.problem import Padded, extend
from paseo.samplers import PASEO
from paseo.schedule import Flow, Schedule
from paseo.street import restore


@dataclass(frozen=True)
class White:
    """N(0, v I) on latents of every shape: its denoiser is a number."""

    variance: float = 0.25
    multiple: int = 1
    schedule: Schedule = field(default_factory=Flow)

    def x0(self, x: Tensor, t: float) -> Tensor:
        p = self.schedule.point(t)
        return p.alpha * self.variance / (p.alpha**2 * self.variance + p.sigma**2) * x


@dataclass(frozen=True)
class Shrink:
    """Block means by `scale`; lifted by repetition."""

    scale: int = 1
    name: str = "shrink"
    linear: bool = True

    def __call__(self, x: Tensor) -> Tensor:
        return F.avg_pool2d(x, self.scale)

    def lift(self, y: Tensor, size: tuple[int, int] | None = None) -> Tensor:
        return F.interpolate(y, scale_factor=float(self.scale), mode="nearest")

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        return height // self.scale, width // self.scale


@dataclass(frozen=True)
class Echo:
    """The sampler that returns the encoded measurement, after one look at the prior."""

    def __call__(self, prior: Prior, problem: Problem, noise: paseo.Noise, watch: Watch = ignore) -> Tensor:
        prior.x0(problem.y_z, 0.5)
        return problem.y_z

    def unsupported(self, problem: Problem) -> str | None:
        return None


def identity(z: Tensor) -> Tensor:
    return z


SETTING: dict[str, Any] = dict(
    prior=White(), codec=IdentityCodec(2), operator=identity, degradation=Shrink(), sampler=PASEO(steps=6)
)


@pytest.fixture(scope="module")
def y() -> Tensor:
    return torch.rand(3, 3, 7, 9, generator=torch.Generator().manual_seed(0))


sizes = st.integers(1, 33)


@settings(max_examples=60, deadline=None)
@given(
    h=sizes,
    w=sizes,
    factor=st.sampled_from([1, 2, 3, 8]),
    scale=st.sampled_from([1, 2, 4]),
    multiple=st.integers(1, 4),
)
def test_every_size_comes_back(h: int, w: int, factor: int, scale: int, multiple: int) -> None:
    y = torch.rand(1, 3, h, w, generator=torch.Generator().manual_seed(h * 100 + w))
    parts = SETTING | dict(
        prior=White(multiple=multiple), codec=IdentityCodec(factor), degradation=Shrink(scale), sampler=Echo()
    )
    out = restore(y, **parts)
    assert out.images.shape == (1, 3, h * scale, w * scale)
    assert torch.allclose(out.images, Shrink(scale).lift(y), atol=1e-6)  # [0,1] → [-1,1] → [0,1] rounds twice
    assert all(n % multiple == 0 for n in out.latents.shape[-2:])
    assert all(
        n - h_w * scale < factor * multiple
        for n, h_w in zip((s * factor for s in out.latents.shape[-2:]), (h, w), strict=True)
    )


@settings(max_examples=20, deadline=None)
@given(h=st.integers(2, 20), w=st.integers(2, 20), factor=st.sampled_from([2, 8]))
def test_paseo_runs_at_every_size(h: int, w: int, factor: int) -> None:
    y = torch.rand(1, 3, h, w, generator=torch.Generator().manual_seed(h * 100 + w))
    out = restore(y, **SETTING | dict(codec=IdentityCodec(factor)), seeds=[3, 4])
    assert out.images.shape == (2, 3, h, w)
    assert out.images.min() >= 0
    assert out.images.max() <= 1


def test_alone_equals_in_company(y: Tensor) -> None:
    together = restore(y, **SETTING, seeds=[5, 6, 7])
    for i, seed in enumerate(together.seeds):
        assert torch.equal(restore(y[i], **SETTING, seeds=seed).images[0], together.images[i])


def test_one_integer_serves_every_image_and_seed_zero_is_a_seed(y: Tensor) -> None:
    together = restore(y, **SETTING)
    assert together.seeds == (0, 0, 0)
    for i in range(3):
        assert torch.equal(restore(y[i], **SETTING, seeds=0).images[0], together.images[i])
    assert not torch.equal(restore(y[0], **SETTING, seeds=1).images[0], together.images[0])


def test_several_seeds_draw_one_image_several_times(y: Tensor) -> None:
    out = restore(y[0], **SETTING, seeds=range(4))
    assert out.images.shape == (4, 3, 7, 9)
    assert out.mean.shape == (3, 7, 9)
    assert out.std.shape == (1, 7, 9)
    assert torch.allclose(out.std[0] ** 2, torch.var(out.images, dim=0).mean(0))
    with pytest.raises(BadInput, match="two draws"):
        _ = restore(y[0], **SETTING).std


def test_nfe_is_what_was_spent(y: Tensor) -> None:
    assert restore(y[0], **SETTING | dict(sampler=Echo())).nfe == 1
    assert restore(y[0], **SETTING | dict(sampler=PASEO(steps=9))).nfe == 15 == PASEO(steps=9).nfe


def test_the_measurement_is_obeyed(y: Tensor) -> None:
    """With H = I and a precise measurement, every draw lies within its noise of y: 6σ over 3·7·9 entries."""
    sharp = PASEO(steps=12, operator_noise=0.02, anchor="fresh", cg_budget=1)
    out = restore(y[0], **SETTING | dict(sampler=sharp), seeds=range(3))
    assert (out.images - y[0]).abs().max() < 6 * 0.01


def test_pil_images_are_taken(y: Tensor) -> None:
    pil = Image.fromarray((y[0] * 255).byte().permute(1, 2, 0).numpy())
    out = restore(pil, **SETTING | dict(sampler=Echo()))
    assert torch.allclose(out.images[0], (y[0] * 255).byte() / 255, atol=1e-6)


def test_a_model_stands_for_prior_and_codec(y: Tensor) -> None:
    @dataclass(frozen=True)
    class Both:
        prior: Prior
        codec: IdentityCodec

    parts = {k: v for k, v in SETTING.items() if k not in ("prior", "codec")}
    out = restore(y[0], model=Both(White(), IdentityCodec(2)), **parts)
    assert torch.equal(out.images, restore(y[0], **SETTING).images)
    with pytest.raises(BadInput, match="needs a model"):
        restore(y[0], codec=IdentityCodec(2), **parts)


def test_operators_are_bound_to_the_noise_level(y: Tensor) -> None:
    class Bindable:
        level: float | None = None

        def bind(self, sigma_y: float) -> Any:
            self.level = sigma_y
            return identity

    operator = Bindable()
    restore(y[0], **SETTING | dict(operator=operator), sigma_y=0.03)
    assert operator.level == 0.03


def test_observed_cells_reach_the_sampler(y: Tensor) -> None:
    @dataclass(frozen=True)
    class Hide(Shrink):
        def observed_at(self, height: int, width: int) -> Tensor:
            return torch.ones(1, 1, height, width)

        def latent_cells(self, factor: int, size: tuple[int, int]) -> Tensor:
            cells = torch.ones(1, 1, -(-size[0] // factor), -(-size[1] // factor))
            cells[..., 1] = 0
            return cells

    seen: list[Tensor | None] = []

    @dataclass(frozen=True)
    class Look(Echo):
        def unsupported(self, problem: Problem) -> str | None:
            seen.append(problem.observed)
            return None

    restore(y[0], **SETTING | dict(degradation=Hide(), sampler=Look(), prior=White(multiple=4)))
    assert seen[0] is not None
    assert seen[0].shape == (1, 1, 4, 8)
    assert seen[0][..., 1].sum() == 0
    assert seen[0][..., 2:5].min() == 1


def test_watch_sees_every_step_and_may_stop_the_run(y: Tensor) -> None:
    steps: list[Step] = []
    restore(y[0], **SETTING, watch=steps.append)
    assert [s.index for s in steps] == list(range(4))

    def stop(step: Step) -> None:
        raise Cancelled("enough")

    with pytest.raises(Cancelled):
        restore(y[0], **SETTING, watch=stop)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (dict(y=torch.full((3, 4, 4), float("nan"))), "NaN"),
        (dict(y=torch.full((3, 4, 4), -1.0)), r"runs from -1 to -1; images are in \[0,1\]"),
        (dict(y=torch.full((3, 4, 4), 255, dtype=torch.uint8)), "from 255"),
        (dict(y=torch.zeros(4, 4)), r"got \(4, 4\)"),
        (dict(y=torch.zeros(1, 1, 4, 4)), r"got \(1, 1, 4, 4\)"),
        (dict(y=torch.zeros(3, 0, 4)), r"got \(1, 3, 0, 4\)"),
        (dict(seeds=[1, 2]), "3 images and 2 seeds"),
        (dict(seeds=[]), "empty"),
        (dict(seeds=-1), "got -1"),
        (dict(sigma_y=-0.1), "sigma_y=-0.1"),
        (dict(sigma_y=float("nan")), "sigma_y=nan"),
    ],
)
def test_bad_input_is_named(y: Tensor, change: dict[str, Any], words: str) -> None:
    arguments: dict[str, Any] = SETTING | dict(y=y) | change
    with pytest.raises(BadInput, match=words):
        restore(arguments.pop("y"), **arguments)


def test_a_sampler_that_cannot_run_says_why(y: Tensor) -> None:
    with pytest.raises(Unsupported, match="PASEO cannot run here: weight='mask' needs"):
        restore(y[0], **SETTING | dict(sampler=PASEO(weight="mask")))


def test_padding_mirrors_where_it_can_and_repeats_where_it_must() -> None:
    x = torch.arange(6.0).view(1, 1, 2, 3)
    assert extend(x, (3, 5))[0, 0].tolist() == [[0, 1, 2, 1, 0], [3, 4, 5, 4, 3], [0, 1, 2, 1, 0]]
    assert extend(x, (2, 8))[0, 0, 0].tolist() == [0, 1, 2, 2, 2, 2, 2, 2]
    codec = Padded(IdentityCodec(2), (5, 7), multiple=2)
    assert codec.padded == (8, 8)
    assert codec.latent_size == (4, 4)
    assert codec.latent_space == "identity-2"
