"""PaseoPipeline as diffusers users expect it: loading, saving, sizes, batches, seeds, guidance, masks,
callbacks, refusals.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from paseo.degrade import task
from paseo.errors import BadInput, MissingWeights
from paseo.operators.config import OperatorConfig
from paseo.operators.net import OperatorNet
from paseo.operators.store import save_operator
from paseo.samplers import PASEO

FAMILIES = ("sd", "sd-v", "sdxl", "sd3", "sd3-no-t5")
SHORT = PASEO(steps=4, inner_steps=1, cg_budget=1, operator_noise=0.1)


def operator_for(pipe: Any, name: str = "sr4", digest: str | None = None) -> OperatorNet:
    """A random operator of this pipeline's latent space."""
    from paseo.hub.autoencoder import wrap_codec

    codec = wrap_codec(pipe.vae)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return OperatorNet(
            OperatorConfig(codec.channels, codec.latent_space, codec.hash if digest is None else digest, name)
        ).eval()


@pytest.fixture(scope="module")
def pipes(tiny: Callable[[str], Any]) -> Callable[[str], Any]:
    """pipes("sd3"): made once; do not change it."""
    from paseo.apps.pipeline import PaseoPipeline

    made: dict[str, Any] = {}

    def get(family: str) -> Any:
        if family not in made:
            made[family] = PaseoPipeline.from_pipe(tiny(family), operator=operator_for(tiny(family)))
            made[family].set_progress_bar_config(disable=True)
        return made[family]

    return get


def small(batch: int = 1, height: int = 17, width: int = 21) -> torch.Tensor:
    return torch.rand(batch, 3, height, width, generator=torch.Generator().manual_seed(3))


def seeded(*seeds: int) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(s) for s in seeds]


# Loading and saving


@pytest.mark.parametrize("family", FAMILIES)
def test_from_pretrained_save_and_load_again(
    tiny: Callable[[str], Any], tiny_folder: Callable[[str], Path], tmp_path: Path, family: str
) -> None:
    from paseo.apps.pipeline import PaseoPipeline

    save_operator(operator_for(tiny(family)), tmp_path / "op")
    pipe = PaseoPipeline.from_pretrained(tiny_folder(family), operator=str(tmp_path / "op"))
    pipe.set_progress_bar_config(disable=True)
    first = pipe(small(), sampler=SHORT, generator=seeded(1), output_type="pt")
    assert first.images.shape == (1, 3, 68, 84)
    assert first.nfe == 5
    pipe.save_pretrained(tmp_path / "saved")
    index = json.loads((tmp_path / "saved" / "model_index.json").read_text())
    assert index["operator"][1] == "OperatorModel"
    again = PaseoPipeline.from_pretrained(tmp_path / "saved")
    again.set_progress_bar_config(disable=True)
    assert again.operator.spec == pipe.operator.spec
    second = again(small(), sampler=SHORT, generator=seeded(1), output_type="pt")
    torch.testing.assert_close(first.images, second.images, rtol=1e-4, atol=1e-4)


def test_from_pipe_shares_the_parts(tiny: Callable[[str], Any], pipes: Callable[[str], Any]) -> None:
    base, pipe = tiny("sd3"), pipes("sd3")
    assert pipe.transformer is base.transformer
    assert pipe.vae is base.vae
    assert pipe.text_encoder_3 is base.text_encoder_3


def test_from_pipe_and_to_leave_autoencoder_and_operator_in_float32(tiny: Callable[[str], Any]) -> None:
    from paseo.apps.pipeline import PaseoPipeline

    base = copy.deepcopy(tiny("sd"))
    base.unet.to(torch.bfloat16)
    pipe = PaseoPipeline.from_pipe(base, operator=operator_for(base))
    assert pipe.unet.dtype == torch.bfloat16  # diffusers would have made it float32
    pipe.unet.to(torch.float32)
    pipe.to("cpu", torch.bfloat16)
    assert (pipe.unet.dtype, pipe.text_encoder.dtype) == (torch.bfloat16, torch.bfloat16)
    assert next(pipe.vae.parameters()).dtype == next(pipe.operator.parameters()).dtype == torch.float32
    pipe.set_progress_bar_config(disable=True)
    images = pipe(small(), sampler=SHORT, generator=seeded(0), output_type="pt").images
    assert torch.isfinite(images).all()


def test_dtypes_on_loading(tiny_folder: Callable[[str], Path]) -> None:
    from paseo.apps.pipeline import PaseoPipeline

    pipe = PaseoPipeline.from_pretrained(
        tiny_folder("sd3"), dtype=torch.bfloat16, text_encoder_3=None, tokenizer_3=None
    )
    assert (pipe.transformer.dtype, pipe.vae.dtype) == (torch.bfloat16, torch.float32)
    assert pipe.text_encoder_3 is None
    half = PaseoPipeline.from_pretrained(
        tiny_folder("sd3"), dtype={"vae": torch.bfloat16, "default": torch.float32}
    )
    assert (half.transformer.dtype, half.vae.dtype) == (torch.float32, torch.bfloat16)


def test_a_folder_that_holds_the_fp16_variant_only(tiny: Callable[[str], Any], tmp_path: Path) -> None:
    from paseo.apps.pipeline import PaseoPipeline

    tiny("sd").save_pretrained(str(tmp_path), variant="fp16")
    assert PaseoPipeline.from_pretrained(tmp_path).unet.dtype == torch.float32


def test_an_operator_of_another_autoencoder_is_refused_unless_forced(tiny: Callable[[str], Any]) -> None:
    from paseo.apps.pipeline import PaseoPipeline

    foreign = operator_for(tiny("sd"), digest="0" * 64)
    with pytest.raises(BadInput, match=r"latent space.*force"):
        PaseoPipeline.from_pipe(tiny("sd"), operator=foreign)
    with pytest.warns(UserWarning, match="latent space"):
        forced = PaseoPipeline.from_pipe(tiny("sd"), operator=foreign, force_operator=True)
    assert forced.operator is not None
    plain = PaseoPipeline.from_pipe(tiny("sd"))
    with pytest.raises(BadInput, match="latent space"):
        plain(small(), operator=foreign)


def test_wrong_folders_are_explained(tmp_path: Path, tiny_folder: Callable[[str], Path]) -> None:
    from paseo.apps.pipeline import PaseoPipeline

    with pytest.raises(MissingWeights, match="not a diffusers model"):
        PaseoPipeline.from_pretrained(tmp_path)
    with pytest.raises(MissingWeights, match="hf download"):
        PaseoPipeline.from_pretrained("nobody/no-such-model")
    with pytest.raises(MissingWeights, match="operator"):
        PaseoPipeline.from_pretrained(tiny_folder("sd"), operator=str(tmp_path / "nothing"))


def test_operators_as_components_of_their_own(tiny: Callable[[str], Any], tmp_path: Path) -> None:
    from paseo.hub.operator import OperatorModel

    model = OperatorModel.from_net(operator_for(tiny("sd")))
    model.save_pretrained(tmp_path / "op")
    again = OperatorModel.from_pretrained(tmp_path / "op")
    assert again.config["degradation"] == "sr4"
    assert again.config["vae_hash"] == model.spec.vae_hash
    assert again.config["noise_unit"] in ("unit", "signed")
    assert hasattr(again, "push_to_hub")


# The call


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("height", "width"), [(16, 16), (19, 33)])
def test_any_size(pipes: Callable[[str], Any], family: str, height: int, width: int) -> None:
    out = pipes(family)(small(1, height, width), sampler=SHORT, generator=seeded(0), output_type="pt")
    assert out.images.shape == (1, 3, 4 * height, 4 * width)
    assert 0 <= float(out.images.min()) <= float(out.images.max()) <= 1


def test_kinds_of_output(pipes: Callable[[str], Any]) -> None:
    pipe = pipes("sd")
    options: dict[str, Any] = {"sampler": SHORT, "generator": seeded(0)[0]}
    pil = pipe(small(2), sampler=SHORT, generator=seeded(0, 1)).images
    assert [image.size for image in pil] == [(84, 68)] * 2
    array = pipe(small(), sampler=SHORT, generator=seeded(0), output_type="np").images
    assert array.shape == (1, 68, 84, 3)
    assert np.abs(array[0] - np.asarray(pil[0]) / 255).max() < 0.01
    assert pipe(small(), output_type="latent", **options).images.shape == (1, 4, 9, 11)
    whole = pipe(small(), return_dict=False, **options)
    assert isinstance(whole, tuple)
    assert isinstance(whole[0][0], Image.Image)
    result = pipe(small(), sampler=SHORT, generator=seeded(5))
    assert result.seeds == [5]
    assert result.seconds > 0
    assert result.peak_memory > 10**6
    with pytest.raises(BadInput, match="output_type"):
        pipe(small(), output_type="jpeg")


def test_kinds_of_input_are_the_same_image(pipes: Callable[[str], Any]) -> None:
    pipe = pipes("sd")
    array = (small()[0].permute(1, 2, 0).numpy() * 255).round().astype(np.uint8)
    tensor = torch.from_numpy(array).permute(2, 0, 1).float() / 255
    kinds = [
        Image.fromarray(array),
        [Image.fromarray(array)],
        array,
        array.astype(np.float32) / 255,
        tensor,
        tensor[None],
    ]
    images = [pipe(kind, sampler=SHORT, generator=seeded(0), output_type="pt").images for kind in kinds]
    for other in images[1:]:
        torch.testing.assert_close(other, images[0], rtol=1e-4, atol=1e-4)
    with pytest.raises(BadInput, match="one size"):
        pipe([Image.new("RGB", (16, 16)), Image.new("RGB", (24, 16))])
    with pytest.raises(BadInput, match="got str"):
        pipe("photo.png")
    with pytest.raises(BadInput, match="Divide by 255"):
        pipe(torch.zeros(3, 16, 16, dtype=torch.uint8))
    with pytest.raises(BadInput, match="empty"):
        pipe([])


@pytest.mark.parametrize("family", ["sd", "sd3"])
def test_a_batch_equals_its_members(pipes: Callable[[str], Any], family: str) -> None:
    pipe, y = pipes(family), small(2)
    options: dict[str, Any] = {"sampler": SHORT, "guidance_scale": 3.0, "output_type": "pt"}
    together = pipe(
        y, prompt=["a cat", "a dog"], num_images_per_prompt=2, generator=seeded(1, 2, 3, 4), **options
    )
    assert together.images.shape[0] == 4
    assert together.nfe == 5  # a batch is one evaluation, a guided pair too
    alone = pipe(y[1], prompt="a dog", generator=seeded(3), **options)
    torch.testing.assert_close(together.images[2:3], alone.images, rtol=1e-3, atol=1e-3)
    assert not torch.allclose(together.images[0], together.images[1], atol=1e-3)  # two draws of one image


def test_seeds(pipes: Callable[[str], Any]) -> None:
    pipe = pipes("sd")
    one = pipe(
        small(),
        sampler=SHORT,
        num_images_per_prompt=2,
        generator=torch.Generator().manual_seed(9),
        output_type="pt",
    )
    two = pipe(
        small(),
        sampler=SHORT,
        num_images_per_prompt=2,
        generator=torch.Generator().manual_seed(9),
        output_type="pt",
    )
    assert one.seeds == two.seeds
    torch.testing.assert_close(one.images, two.images)
    again = pipe(
        small(), sampler=SHORT, generator=seeded(one.seeds[1]), output_type="pt"
    )  # what the output promises
    torch.testing.assert_close(again.images, one.images[1:], rtol=1e-3, atol=1e-3)
    assert pipe(small(), sampler=SHORT).seeds != pipe(small(), sampler=SHORT).seeds
    with pytest.raises(BadInput, match="3 generators were given for 1"):
        pipe(small(), sampler=SHORT, generator=seeded(1, 2, 3))
    with pytest.raises(BadInput, match=r"torch\.Generator"):
        pipe(small(), sampler=SHORT, generator=7)
    with pytest.raises(BadInput, match="at least one"):
        pipe(small(), num_images_per_prompt=0)


def test_prompts_guidance_and_embeddings(pipes: Callable[[str], Any]) -> None:
    pipe = pipes("sdxl")

    def draw(**options: Any) -> torch.Tensor:
        return pipe(small(), sampler=SHORT, generator=seeded(0), output_type="pt", **options).images

    plain, guided, negative = draw(prompt="a cat"), draw(prompt="a cat", guidance_scale=4.0), None
    negative = draw(prompt="a cat", guidance_scale=4.0, negative_prompt="dark")
    assert not torch.allclose(plain, guided, atol=1e-4)
    assert not torch.allclose(guided, negative, atol=1e-4)
    c = pipe.encode_prompt("a cat", "dark")
    torch.testing.assert_close(draw(conditioning=c, guidance_scale=4.0), negative)
    by_parts = draw(
        prompt_embeds=c.prompt,
        pooled_prompt_embeds=c.pooled,
        negative_prompt_embeds=c.negative,
        negative_pooled_prompt_embeds=c.negative_pooled,
        guidance_scale=4.0,
    )
    torch.testing.assert_close(by_parts, negative)
    with pytest.raises(BadInput, match="prompt_embeds is missing"):
        draw(pooled_prompt_embeds=c.pooled)


def test_text_encoders_can_be_freed(tiny: Callable[[str], Any]) -> None:
    from paseo.apps.pipeline import PaseoPipeline

    pipe = PaseoPipeline.from_pipe(copy.copy(tiny("sd")), operator=operator_for(tiny("sd")))
    pipe.set_progress_bar_config(disable=True)
    first = pipe(small(), prompt="a cat", sampler=SHORT, generator=seeded(0), output_type="pt").images
    pipe.free_text_encoders()
    assert pipe.text_encoder is None
    torch.testing.assert_close(
        pipe(small(), prompt="a cat", sampler=SHORT, generator=seeded(0), output_type="pt").images, first
    )
    with pytest.raises(MissingWeights, match="freed"):
        pipe(small(), prompt="a dog", sampler=SHORT)


def test_the_papers_settings_are_the_default(pipes: Callable[[str], Any]) -> None:
    pipe = pipes("sd3")
    assert pipe(small(), num_inference_steps=5).nfe == 7
    seen: list[int] = []
    out = pipe(
        small(),
        preset="ffhq/sd35",
        num_inference_steps=4,
        callback_on_step_end=lambda p, i, t, k: seen.append(i) or k,
    )
    assert out.nfe == 5
    assert seen == [0, 1]
    with pytest.raises(BadInput, match="no settings for the model"):
        pipe(small(), preset="nowhere")


def test_28_steps_are_53_evaluations_without_gradients(pipes: Callable[[str], Any]) -> None:
    pipe, grads = pipes("sd"), []
    hooks = [
        m.register_forward_pre_hook(lambda m, a: grads.append(torch.is_grad_enabled()))
        for m in (pipe.unet, pipe.vae.decoder)
    ]
    out = pipe(small(), sampler=PASEO(steps=28, inner_steps=1, cg_budget=1))
    for hook in hooks:
        hook.remove()
    assert out.nfe == 53
    assert len(grads) == 54
    assert not any(grads)


def test_cpu_offload_leaves_the_operator_where_it_is_used(
    tiny_folder: Callable[[str], Path], tiny: Callable[[str], Any]
) -> None:
    from paseo.apps.pipeline import PaseoPipeline

    options: dict[str, Any] = {"sampler": SHORT, "guidance_scale": 2.0, "output_type": "pt"}
    pipe = PaseoPipeline.from_pretrained(tiny_folder("sd"), operator=operator_for(tiny("sd")))
    pipe.set_progress_bar_config(disable=True)
    plain = pipe(small(), generator=seeded(0), **options).images
    pipe.enable_model_cpu_offload(
        device="cpu"
    )  # the machinery of hooks, with the CPU in the accelerator's place
    assert hasattr(pipe.unet, "_hf_hook")
    assert not hasattr(pipe.operator, "_hf_hook")
    torch.testing.assert_close(
        pipe(small(), generator=seeded(0), **options).images, plain, rtol=1e-4, atol=1e-4
    )


# Callbacks and interruption


def test_callbacks_see_and_change_the_state(pipes: Callable[[str], Any]) -> None:
    pipe, seen = pipes("sd"), []
    sampler = PASEO(steps=6, inner_steps=1, cg_budget=1, operator_noise=0.1)

    def look(p: Any, step: int, timestep: float, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        seen.append((step, timestep, {k: v.shape for k, v in tensors.items()}))
        assert p is pipe
        return tensors

    def change(
        p: Any, step: int, timestep: float, tensors: dict[str, torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        return {"latents": torch.zeros_like(tensors["latents"])}

    options: dict[str, Any] = {"sampler": sampler, "generator": seeded(0)[0], "output_type": "pt"}
    names = ["latents", "clean_latents"]
    plain = pipe(
        small(), callback_on_step_end=look, callback_on_step_end_tensor_inputs=names, **options
    ).images
    assert [s for s, _, _ in seen] == [0, 1, 2, 3]
    assert all(a > b for (_, a, _), (_, b, _) in pairwise(seen))
    assert seen[0][2] == {"latents": (1, 4, 9, 11), "clean_latents": (1, 4, 9, 11)}
    options["generator"] = seeded(0)[0]
    assert not torch.allclose(pipe(small(), callback_on_step_end=change, **options).images, plain, atol=1e-3)
    with pytest.raises(BadInput, match="clean_latents"):
        pipe(small(), callback_on_step_end=look, callback_on_step_end_tensor_inputs=["noise"], **options)


def test_an_interrupted_run_gives_the_last_estimate(pipes: Callable[[str], Any]) -> None:
    pipe = pipes("sd3")

    def stop(p: Any, step: int, timestep: float, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        p._interrupt = step == 1
        return tensors

    sampler = PASEO(steps=12, inner_steps=1, cg_budget=1)
    out = pipe(small(1, 19, 33), sampler=sampler, callback_on_step_end=stop, output_type="pt")
    assert out.interrupted
    assert out.nfe == 4
    assert out.images.shape == (1, 3, 76, 132)
    after = pipe(small(1, 16, 16), sampler=SHORT)  # the wish to stop was for that run
    assert not after.interrupted


# Masks


def test_a_mask_is_filled_and_the_rest_is_kept(
    pipes: Callable[[str], Any], tiny: Callable[[str], Any]
) -> None:
    from paseo.apps.pipeline import PaseoPipeline

    pipe = PaseoPipeline.from_pipe(tiny("sd3"))  # no operator needed
    pipe.set_progress_bar_config(disable=True)
    y = small(1, 72, 88)
    hole = Image.new("L", (88, 72), 0)
    hole.paste(255, (32, 24, 64, 56))
    out = pipe(y, mask_image=hole, sampler=SHORT, generator=seeded(0), output_type="pt").images
    assert out.shape == y.shape
    torch.testing.assert_close(out[..., :16, :], y[..., :16, :])
    assert (out - y)[..., 24:56, 32:64].abs().mean() > 0.05
    secret = y.clone()
    secret[..., 24:56, 32:64] = 0.9  # what is under the white must not matter
    again = pipe(secret, mask_image=hole, sampler=SHORT, generator=seeded(0), output_type="pt").images
    torch.testing.assert_close(again, out)
    free = pipe(
        y, mask_image=hole, sampler=SHORT, generator=seeded(0), output_type="pt", preserve_known=False
    ).images
    assert not torch.allclose(free[..., :16, :], y[..., :16, :])


def test_a_learned_operator_serves_the_box_it_was_trained_on(tiny: Callable[[str], Any]) -> None:
    from paseo.apps.pipeline import PaseoPipeline

    base = tiny("sd")
    operator = operator_for(base, "inpaint")
    pipe = PaseoPipeline.from_pipe(base, operator=operator)
    pipe.set_progress_bar_config(disable=True)
    y = small(1, 64, 64)
    observed = task("inpaint").degradation.observed_at(64, 64)  # type: ignore[attr-defined]
    options: dict[str, Any] = {"sampler": SHORT, "output_type": "pt", "preserve_known": False}
    by_mask = pipe(y, mask_image=1 - observed, generator=seeded(0), **options).images
    by_task = pipe(
        ((y * 2 - 1) * observed + 1) / 2, generator=seeded(0), **options
    ).images  # task from the operator
    torch.testing.assert_close(by_mask, by_task, rtol=1e-4, atol=1e-4)
    other = torch.zeros(1, 1, 64, 64)
    other[..., :32, :] = 1
    assert (
        pipe(y, mask_image=other, generator=seeded(0), **options).images.shape == y.shape
    )  # falls back to the seen cells


def test_masks_that_do_not_fit(pipes: Callable[[str], Any]) -> None:
    pipe = pipes("sd")
    with pytest.raises(BadInput, match="Resize the mask"):
        pipe(small(1, 64, 64), mask_image=Image.new("L", (32, 32)))
    with pytest.raises(BadInput, match="2 masks were given for 1"):
        pipe(small(1, 64, 64), mask_image=[Image.new("L", (64, 64))] * 2)
    with pytest.raises(BadInput, match="A mask is"):
        pipe(small(1, 64, 64), mask_image="hole.png")


# Refusals


def test_refusals(
    pipes: Callable[[str], Any], tiny: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from paseo.apps.pipeline import PaseoPipeline
    from paseo.models import shipped

    monkeypatch.setattr(shipped, "root", lambda: tmp_path)  # where nothing comes with the package

    pipe = pipes("sd")
    with pytest.raises(BadInput, match="trained for 'sr4', not for 'blur'"):
        pipe(small(1, 64, 64), "blur")
    with pytest.raises(BadInput, match="too small"):
        pipe(small(1, 7, 9), sampler=SHORT)
    with pytest.raises(BadInput, match="no task named 'sr5'"):
        pipe(small(), "sr5")
    bare = PaseoPipeline.from_pipe(tiny("sd"))
    with pytest.raises(MissingWeights, match=r"no operator.*paseo train operator"):
        bare(small(), "sr4")
    with pytest.raises(BadInput, match="What happened to the image"):
        bare(small())


def test_attention_kernels_and_progress_bar(
    tiny: Callable[[str], Any], capsys: pytest.CaptureFixture[str]
) -> None:
    from paseo.apps.pipeline import PaseoPipeline

    pipe = PaseoPipeline.from_pipe(tiny("sd"), operator=operator_for(tiny("sd")))
    first = pipe(small(), sampler=SHORT, generator=seeded(0), output_type="pt").images
    assert "2/2" in capsys.readouterr().err
    pipe.set_progress_bar_config(disable=True)
    pipe.set_attention_backend("math")
    torch.testing.assert_close(
        pipe(small(), sampler=SHORT, generator=seeded(0), output_type="pt").images,
        first,
        rtol=1e-3,
        atol=1e-3,
    )
    assert capsys.readouterr().err == ""
    with pytest.raises(BadInput, match="attention"):
        pipe.set_attention_backend("fastest")
