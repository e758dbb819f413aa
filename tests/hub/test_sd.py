"""SD1.x, SD2.x and SDXL as priors, against diffusers' own schedulers and pipelines."""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from paseo.errors import BadInput, NotFinite, Unsupported
from paseo.hub.build import build_prior
from paseo.hub.conditioning import Conditioning
from paseo.hub.family import SD, SDXL, classes_of, family_of
from paseo.hub.sd import SDPrior, check_unet, prediction_of, vp_schedule
from paseo.hub.text import encode_text
from paseo.schedule import VP

UNETS = ("sd", "sd-v", "sdxl")


def conditioned(pipe: Any, guided: bool = False, prompt: Any = "a face", negative: Any = "") -> Conditioning:
    return encode_text(
        family_of(classes_of(pipe.components), "tiny"), pipe.components, prompt, negative, guided=guided
    )


def prior_of(pipe: Any, guidance: float = 1.0, **options: Any) -> Any:
    family = family_of(classes_of(pipe.components), "tiny")
    return build_prior(
        family, pipe.unet, pipe.scheduler.config, conditioned(pipe, guidance != 1), guidance, **options
    )


def state(batch: int = 1, height: int = 8, width: int = 8, seed: int = 0) -> Tensor:
    return torch.randn(batch, 4, height, width, generator=torch.Generator().manual_seed(seed))


class Calls:
    """Records what a network is called with."""

    def __init__(self, network: Any) -> None:
        self.seen: list[dict[str, Any]] = []
        self._hook = network.register_forward_pre_hook(self._note, with_kwargs=True)

    def _note(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.seen.append({"x": args[0], "time": args[1], "grad": torch.is_grad_enabled(), **kwargs})

    def __enter__(self) -> Calls:
        return self

    def __exit__(self, *_: object) -> None:
        self._hook.remove()


@torch.no_grad()
@pytest.mark.parametrize("family", UNETS)
@pytest.mark.parametrize("trained", [0, 1, 437, 999])
def test_the_clean_estimate_is_diffusers_own(tiny: Callable[[str], Any], family: str, trained: int) -> None:
    """Our time t is the level that was trained as t − 1; DDIM's predicted original sample is the oracle."""
    from diffusers import DDIMScheduler

    pipe, x = tiny(family), state()
    prior = prior_of(pipe)
    scheduler = DDIMScheduler.from_config(pipe.scheduler.config, clip_sample=False)
    scheduler.set_timesteps(1000)
    extra = None
    if family == "sdxl":
        extra = {
            "text_embeds": prior.conditioning.pooled,
            "time_ids": torch.tensor([[64.0, 64, 0, 0, 64, 64]]),
        }
    o = pipe.unet(x, trained, encoder_hidden_states=prior.conditioning.prompt, added_cond_kwargs=extra).sample
    expected = scheduler.step(o, trained, x).pred_original_sample
    torch.testing.assert_close(
        prior.x0(x, trained + 1), expected, rtol=1e-4, atol=1e-4
    )  # diffusers keeps ᾱ in float32


def test_the_levels_are_diffusers_own() -> None:
    from diffusers import DDIMScheduler, DDPMScheduler

    configs: list[dict[str, Any]] = [
        {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"},
        {"beta_start": 1e-4, "beta_end": 0.02, "beta_schedule": "linear"},
        {"beta_schedule": "squaredcos_cap_v2"},
        {"trained_betas": [0.1, 0.2, 0.3], "num_train_timesteps": 3},
    ]
    for config in configs:
        table = torch.tensor(vp_schedule({"beta_start": 1e-4, "beta_end": 0.02, **config}).alpha_bar)
        assert table[0] == 1
        torch.testing.assert_close(
            table[1:], DDPMScheduler(**config).alphas_cumprod.float(), rtol=2e-4, atol=1e-7
        )
    zero = {
        "beta_start": 0.00085,
        "beta_end": 0.012,
        "beta_schedule": "scaled_linear",
        "rescale_betas_zero_snr": True,
    }
    table = torch.tensor(vp_schedule(zero).alpha_bar)
    assert table[-1] == 0
    torch.testing.assert_close(table[1:], DDIMScheduler(**zero).alphas_cumprod.float(), rtol=2e-4, atol=1e-7)


@torch.no_grad()
def test_the_network_is_told_the_level_of_the_state(tiny: Callable[[str], Any]) -> None:
    pipe = tiny("sd")
    for published, expected in ((False, 499.0), (True, 500.0)):
        prior = prior_of(pipe, published_time=published)
        with Calls(pipe.unet) as calls:
            prior.x0(state(), 500.0)
        assert calls.seen[0]["time"].tolist() == [expected]


@torch.no_grad()
@pytest.mark.parametrize("family", UNETS)
def test_guidance_is_one_batched_call(tiny: Callable[[str], Any], family: str) -> None:
    pipe, x = tiny(family), state(2, 8, 12)
    prior = prior_of(pipe, 4.0)
    with Calls(pipe.unet) as calls:
        guided = prior.x0(x, 600.0)
    assert [len(c["x"]) for c in calls.seen] == [4]
    assert prior.nfe == 1
    embeddings = prior.conditioning
    empty = Conditioning(embeddings.negative, embeddings.negative_pooled)  # type: ignore[arg-type]
    schedule, kind = prior.schedule, prior.prediction
    full = SDPrior(pipe.unet, embeddings.positive(), schedule=schedule, prediction=kind).x0(x, 600.0)
    none = SDPrior(pipe.unet, empty, schedule=schedule, prediction=kind).x0(x, 600.0)
    torch.testing.assert_close(guided, none + 4.0 * (full - none), rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_guidance_one_calls_the_conditional_half_alone(tiny: Callable[[str], Any]) -> None:
    pipe = tiny("sd")
    prior = build_prior(SD, pipe.unet, pipe.scheduler.config, conditioned(pipe, True), 1.0)
    with Calls(pipe.unet) as calls:
        prior.x0(state(3), 600.0)
    assert len(calls.seen[0]["x"]) == 3
    torch.testing.assert_close(calls.seen[0]["encoder_hidden_states"][:1], conditioned(pipe).prompt)


@torch.no_grad()
def test_negative_prompts_and_several_prompts(tiny: Callable[[str], Any]) -> None:
    pipe, x = tiny("sd"), state(2)
    plain, other = conditioned(pipe, True), conditioned(pipe, True, negative="blurry")
    assert not torch.equal(plain.negative, other.negative)  # type: ignore[arg-type]
    two = conditioned(pipe, False, prompt=["a face", "a dog"])
    both = build_prior(SD, pipe.unet, pipe.scheduler.config, two).x0(x, 300.0)
    alone = build_prior(SD, pipe.unet, pipe.scheduler.config, conditioned(pipe, prompt="a dog")).x0(
        x[1:], 300.0
    )
    torch.testing.assert_close(both[1:], alone, rtol=1e-4, atol=1e-5)
    with pytest.raises(BadInput, match="2 prompts were given for 3 images"):
        build_prior(SD, pipe.unet, pipe.scheduler.config, two).x0(state(3), 300.0)
    with pytest.raises(BadInput, match="2 prompts and 3 negative"):
        conditioned(pipe, True, prompt=["a", "b"], negative=["c", "d", "e"])


@torch.no_grad()
def test_embeddings_are_what_the_pipeline_computes(tiny: Callable[[str], Any]) -> None:
    pipe = tiny("sdxl")
    prompt, negative, pooled, negative_pooled = pipe.encode_prompt(
        "a face", device="cpu", do_classifier_free_guidance=True
    )
    ours = conditioned(pipe, True)
    for mine, theirs in (
        (ours.prompt, prompt),
        (ours.negative, negative),
        (ours.pooled, pooled),
        (ours.negative_pooled, negative_pooled),
    ):
        assert torch.equal(mine, theirs)


@torch.no_grad()
@pytest.mark.parametrize("family", UNETS)
@pytest.mark.parametrize(("height", "width"), [(8, 8), (9, 13), (12, 8)])
def test_members_of_a_batch_do_not_know_each_other(
    tiny: Callable[[str], Any], family: str, height: int, width: int
) -> None:
    prior, x = prior_of(tiny(family), 2.0), state(3, height, width)
    together = prior.x0(x, 700.0)
    assert together.shape == x.shape
    torch.testing.assert_close(together[1:2], prior.x0(x[1:2], 700.0), rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_sdxl_is_told_the_size_in_pixels(tiny: Callable[[str], Any]) -> None:
    pipe = tiny("sdxl")
    with Calls(pipe.unet) as calls:
        prior_of(pipe).x0(state(2, 8, 12), 500.0)
    assert calls.seen[0]["added_cond_kwargs"]["time_ids"].tolist() == [[64, 96, 0, 0, 64, 96]] * 2


@torch.no_grad()
def test_half_precision_stays_inside_the_network(tiny: Callable[[str], Any]) -> None:
    pipe = tiny("sd")
    half = copy.deepcopy(pipe.unet).to(torch.bfloat16)
    x = state()
    prior = build_prior(SD, half, pipe.scheduler.config, conditioned(pipe))
    with Calls(half) as calls:
        z = prior.x0(x, 100.0)
    assert calls.seen[0]["x"].dtype == torch.bfloat16
    assert calls.seen[0]["time"].dtype == torch.float32  # 999 is no bfloat16 number
    assert z.dtype == torch.float32
    full = prior_of(pipe).x0(x, 100.0)
    assert (z - full).abs().max() < 0.1 * full.abs().max()
    with torch.no_grad():
        half.conv_out.weight.mul_(1e6)
    with pytest.raises(NotFinite, match="float16"):
        build_prior(SD, half.to(torch.float16), pipe.scheduler.config, conditioned(pipe)).x0(x, 100.0)


def test_frozen_but_differentiable_in_the_state(tiny: Callable[[str], Any]) -> None:
    """PASEO never asks for it; methods that differentiate the denoiser do."""
    prior, x = prior_of(tiny("sd")), state().requires_grad_(True)
    assert not any(p.requires_grad for p in prior.parameters())
    (gradient,) = torch.autograd.grad(prior.x0(x, 500.0).sum(), x)
    assert gradient.abs().sum() > 0


def test_refusals(tiny: Callable[[str], Any]) -> None:
    pipe = tiny("sd")
    prior = prior_of(pipe)
    with pytest.raises(BadInput, match="another model"):
        prior.x0(torch.zeros(1, 16, 8, 8), 1.0)
    with pytest.raises(BadInput, match=r"too small.*at least 64"):
        prior.x0(torch.zeros(1, 4, 1, 2), 1.0)
    with pytest.raises(BadInput, match="negative prompt"):
        build_prior(SD, pipe.unet, pipe.scheduler.config, conditioned(pipe), 4.0)
    with pytest.raises(BadInput, match="guidance"):
        build_prior(SD, pipe.unet, pipe.scheduler.config, conditioned(pipe), -1.0)
    with pytest.raises(BadInput, match="pooled"):
        build_prior(SDXL, tiny("sdxl").unet, pipe.scheduler.config, conditioned(pipe))
    zero = {**pipe.scheduler.config, "rescale_betas_zero_snr": True}
    with pytest.raises(Unsupported, match="v_prediction"):
        build_prior(SD, pipe.unet, zero, conditioned(pipe))
    assert (
        build_prior(SD, pipe.unet, {**zero, "prediction_type": "v_prediction"}, conditioned(pipe))
        .schedule.point(1000)
        .alpha
        == 0
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"in_channels": 9}, "inpainting"),
        ({"time_cond_proj_dim": 256}, "distilled"),
        ({"addition_embed_type": "image"}, "beyond a prompt"),
    ],
)
def test_other_kinds_of_unet_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(Unsupported, match=message):
        check_unet(SimpleNamespace(**{"in_channels": 4, "out_channels": 4, **changes}))


def test_schedulers_that_describe_no_vp_model_are_refused() -> None:
    with pytest.raises(Unsupported, match="EDMEulerScheduler has no β table"):
        vp_schedule({"_class_name": "EDMEulerScheduler", "sigma_min": 0.002})
    with pytest.raises(Unsupported, match="sigmoid"):
        vp_schedule({"beta_start": 1e-4, "beta_end": 0.02, "beta_schedule": "sigmoid"})
    with pytest.raises(Unsupported, match="flow"):
        prediction_of({"prediction_type": "flow_prediction"})


def test_the_default_schedule_is_stable_diffusions() -> None:
    config = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}
    assert vp_schedule(config) == VP()


def test_conditioning_is_kept_in_a_file(tmp_path: Any, tiny: Callable[[str], Any]) -> None:
    given = conditioned(tiny("sdxl"), True)
    again = Conditioning.load(given.save(tmp_path / "deep" / "prompt.safetensors"))
    assert torch.equal(given.prompt, again.prompt)
    assert torch.equal(given.negative_pooled, again.negative_pooled)  # type: ignore[arg-type]
    (tmp_path / "bad.safetensors").write_bytes(b"nothing")
    with pytest.raises(BadInput, match="no prompt embeddings"):
        Conditioning.load(tmp_path / "bad.safetensors")
    with pytest.raises(NotFinite, match="prompt embeddings hold NaN"):
        build_prior(
            SD, tiny("sd").unet, tiny("sd").scheduler.config, Conditioning(torch.full((1, 2, 32), torch.nan))
        )
    with pytest.raises(BadInput, match="3 axes"):
        Conditioning(torch.zeros(2, 3))
    with pytest.raises(BadInput, match="differ"):
        Conditioning(torch.zeros(1, 2, 3), negative=torch.zeros(1, 4, 3))
