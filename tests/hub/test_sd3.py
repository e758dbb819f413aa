"""SD3 and SD3.5 as a prior, against diffusers' own flow scheduler and pipeline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from paseo.errors import BadInput, MissingWeights, Unsupported
from paseo.hub.build import build_prior
from paseo.hub.conditioning import Conditioning
from paseo.hub.family import SD3
from paseo.hub.sd3 import flow_schedule
from paseo.hub.text import encode_text, text_pipeline
from paseo.schedule import SD3Flow


def conditioned(pipe: Any, guided: bool = False, prompt: str = "a face") -> Conditioning:
    return encode_text(SD3, pipe.components, prompt, guided=guided, network_config=pipe.transformer.config)


def prior_of(pipe: Any, guidance: float = 1.0, **options: Any) -> Any:
    return build_prior(
        SD3, pipe.transformer, pipe.scheduler.config, conditioned(pipe, guidance != 1), guidance, **options
    )


def state(batch: int = 1, height: int = 8, width: int = 8) -> Tensor:
    return torch.randn(batch, 16, height, width, generator=torch.Generator().manual_seed(0))


def test_the_grid_is_the_schedulers_own() -> None:
    from diffusers import FlowMatchEulerDiscreteScheduler

    scheduler = FlowMatchEulerDiscreteScheduler(shift=3.0)
    scheduler.set_timesteps(1000)
    table = torch.tensor(flow_schedule(scheduler.config).table())
    torch.testing.assert_close(table, scheduler.sigmas.flip(0), rtol=1e-5, atol=1e-6)
    assert flow_schedule({"shift": 3.0}) == SD3Flow()


@torch.no_grad()
@pytest.mark.parametrize("family", ["sd3", "sd3-no-t5"])
def test_the_clean_estimate_is_where_the_flow_would_end(tiny: Callable[[str], Any], family: str) -> None:
    """One Euler step of the scheduler from σ to 0 arrives at x − σ u."""
    from diffusers import FlowMatchEulerDiscreteScheduler

    pipe, x, sigma = tiny(family), state(2, 8, 12), 0.6
    prior = prior_of(pipe)
    scheduler = FlowMatchEulerDiscreteScheduler(shift=1.0)
    scheduler.set_timesteps(sigmas=[sigma])
    embeddings = prior.conditioning.for_batch(2)
    u = pipe.transformer(
        hidden_states=x,
        timestep=scheduler.timesteps[0].expand(2),
        encoder_hidden_states=embeddings.prompt,
        pooled_projections=embeddings.pooled,
    ).sample
    expected = scheduler.step(u, scheduler.timesteps[0], x).prev_sample
    torch.testing.assert_close(prior.x0(x, sigma), expected, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_the_network_is_told_the_level_of_the_state(tiny: Callable[[str], Any]) -> None:
    pipe, told = tiny("sd3"), []
    hook = pipe.transformer.register_forward_pre_hook(
        lambda m, a, k: told.append(float(k["timestep"][0])), with_kwargs=True
    )
    sigma = SD3Flow().times(28)[-2]
    prior_of(pipe).x0(state(), sigma)
    prior_of(pipe, published_time=True).x0(state(), sigma)
    hook.remove()
    assert told[0] == pytest.approx(1000 * sigma, rel=1e-6)
    assert 0.001 < told[1] / 1000 - sigma < 0.004  # the next noisier level: +0.0026 near 0.1


@torch.no_grad()
def test_guidance_is_one_batched_call(tiny: Callable[[str], Any]) -> None:
    pipe, x, sizes = tiny("sd3"), state(2), []
    prior = prior_of(pipe, 4.0)
    hook = pipe.transformer.register_forward_pre_hook(
        lambda m, a, k: sizes.append(len(k["hidden_states"])), with_kwargs=True
    )
    guided = prior.x0(x, 0.5)
    hook.remove()
    assert sizes == [4]
    assert prior.nfe == 1
    c = prior.conditioning
    full = build_prior(SD3, pipe.transformer, {"shift": 3.0}, c.positive()).x0(x, 0.5)
    none = build_prior(SD3, pipe.transformer, {"shift": 3.0}, Conditioning(c.negative, c.negative_pooled)).x0(
        x, 0.5
    )  # type: ignore[arg-type]
    torch.testing.assert_close(guided, none + 4.0 * (full - none), rtol=1e-4, atol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize(("height", "width"), [(8, 8), (10, 14)])
def test_members_of_a_batch_do_not_know_each_other(
    tiny: Callable[[str], Any], height: int, width: int
) -> None:
    prior, x = prior_of(tiny("sd3"), 2.0), state(3, height, width)
    torch.testing.assert_close(prior.x0(x, 0.7)[2:], prior.x0(x[2:], 0.7), rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_without_t5_its_place_holds_zeros(tiny: Callable[[str], Any]) -> None:
    pipe = tiny("sd3")
    whole = conditioned(pipe)
    parts = {**pipe.components, "text_encoder_3": None, "tokenizer_3": None}
    less = encode_text(SD3, parts, "a face", guided=False, network_config=pipe.transformer.config)
    assert less.prompt.shape == whole.prompt.shape
    assert torch.equal(less.prompt[:, :77], whole.prompt[:, :77])
    assert not less.prompt[:, 77:].any()
    assert whole.prompt[:, 77:].any()
    with pytest.raises(MissingWeights, match="config"):
        text_pipeline(SD3, parts)
    with pytest.raises(MissingWeights, match=r"text_encoder, .*not loaded"):
        text_pipeline(SD3, {})


@torch.no_grad()
def test_embeddings_are_what_the_pipeline_computes(tiny: Callable[[str], Any]) -> None:
    pipe = tiny("sd3")
    theirs = pipe.encode_prompt(
        "a face", None, None, device="cpu", do_classifier_free_guidance=True, negative_prompt="bad"
    )
    ours = encode_text(SD3, pipe.components, "a face", "bad", guided=True)
    for mine, other in zip(
        (ours.prompt, ours.negative, ours.pooled, ours.negative_pooled), theirs, strict=True
    ):
        assert torch.equal(mine, other)  # type: ignore[arg-type]


def test_refusals(tiny: Callable[[str], Any]) -> None:
    pipe = tiny("sd3")
    prior = prior_of(pipe)
    assert prior.multiple == 2
    with pytest.raises(BadInput, match="multiples of 2"):
        prior.x0(state(1, 9, 8), 0.5)
    with pytest.raises(BadInput, match="exceeds the 48"):
        prior.x0(state(1, 8, 50), 0.5)
    with pytest.raises(BadInput, match="pooled"):
        build_prior(SD3, pipe.transformer, {"shift": 3.0}, Conditioning(torch.zeros(1, 2, 64)))
    with pytest.raises(Unsupported, match="no flow shift"):
        flow_schedule({"_class_name": "DDIMScheduler"})
    with pytest.raises(Unsupported, match="depends on the image size"):
        flow_schedule({"shift": 3.0, "use_dynamic_shifting": True})
