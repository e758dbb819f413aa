"""Every method on every task of the paper, through `restore` with networks of the embedded kind (small,
random weights): a finite image, or the reason why not."""

from __future__ import annotations

from functools import lru_cache

import pytest
import torch
from samplers.toys import VARIANTS, sampler

from paseo.codecs.embedded import EmbeddedCodec
from paseo.codecs.net import AutoencoderNet
from paseo.degrade import task
from paseo.errors import Unsupported
from paseo.lab.cost.networks import Arch, Rig, build_rig
from paseo.operators.net import OperatorNet
from paseo.priors.embedded import EmbeddedPrior
from paseo.priors.net import FlowUNet
from paseo.priors.views import as_vp
from paseo.samplers import METHODS
from paseo.street import restore

TASKS = ("sr4", "sr8", "blur", "inpaint", "jpeg")
MASK_ONLY = {"ding", "dds", "diffpir", "ddnm"}  # with a learned codec, what is linear in the latent is a mask


@lru_cache(1)
def networks() -> tuple[EmbeddedPrior, EmbeddedCodec, OperatorNet]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        codec = EmbeddedCodec(AutoencoderNet(4, (8, 16, 16), (1, 1, 1), (1, 1, 1)))
        net = FlowUNet(4, (32, 32), blocks=1)
        torch.nn.init.normal_(net.head.weight, std=0.02)
        return EmbeddedPrior(net), codec, OperatorNet(4).eval().requires_grad_(False)


@pytest.mark.parametrize("task_name", TASKS)
@pytest.mark.parametrize("name", [*METHODS, *VARIANTS])
def test_every_cell_gives_an_image_or_a_reason(name: str, task_name: str) -> None:
    prior, codec, operator = networks()
    chosen = task(task_name)
    x = torch.rand(1, 3, 32, 48, generator=torch.Generator().manual_seed(1))
    settings = dict(
        prior=prior,
        codec=codec,
        operator=operator,
        degradation=chosen.degradation,
        sampler=sampler(name, steps=4),
    )
    y = chosen.measure(x)
    if task_name != "inpaint" and (name in MASK_ONLY or (name, task_name) == ("psld", "jpeg")):
        with pytest.raises(Unsupported, match="cannot run here: it needs"):
            restore(y, **settings)
        return
    result = restore(y, **settings, seeds=[0, 1])
    assert result.images.shape == (2, 3, 32, 48)
    assert torch.isfinite(result.images).all()
    assert result.nfe == settings["sampler"].nfe


@pytest.mark.parametrize("name", METHODS)
def test_a_learned_flow_prior_serves_as_vp_and_at_sizes_that_need_padding(name: str) -> None:
    prior, codec, operator = networks()
    box = task("inpaint").degradation
    y = box(torch.rand(1, 3, 27, 44, generator=torch.Generator().manual_seed(2)) * 2 - 1) / 2 + 0.5
    found = restore(
        y, prior=as_vp(prior), codec=codec, operator=operator, degradation=box, sampler=sampler(name, steps=4)
    )
    assert found.images.shape == (1, 3, 27, 44)
    assert torch.isfinite(found.images).all()


@pytest.mark.parametrize("arch", ["tiny-sd15", "tiny-sd35"])
@pytest.mark.parametrize("name", ["silo", "ldps", "psld", "daps", "flow-dps", "red-diff"])
def test_diffusers_networks_carry_gradients_where_a_method_asks_for_them(name: str, arch: Arch) -> None:
    """Tiny Stable Diffusion networks: VAE, U-Net and transformer can be differentiated, and the result
    depends on the data.
    """
    rig = diffusers_networks(arch)
    chosen, operator = task("sr4"), OperatorNet(rig.codec.channels).eval().requires_grad_(False)
    parts = dict(
        prior=rig.prior(1.0),
        codec=rig.codec,
        operator=operator,
        degradation=chosen.degradation,
        sampler=sampler(name, steps=3),
    )
    dark, light = (restore(torch.full((1, 3, 16, 16), level), **parts).images for level in (0.2, 0.8))
    assert torch.isfinite(dark).all()
    assert not torch.equal(dark, light)


@lru_cache(2)
def diffusers_networks(arch: Arch) -> Rig:
    return build_rig(arch, dtype=torch.float32, device=torch.device("cpu"), side=64)
