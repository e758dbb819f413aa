"""Models loaded from disk, run offline: every family, prompts, precision, lazy loading, other codecs,
refusals.
"""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from paseo.codecs.tiny import TinyCodec
from paseo.degrade import task
from paseo.errors import BadInput, MissingWeights
from paseo.hub.pretrained import PretrainedModel, load_diffusers_model
from paseo.models import load_model
from paseo.operators.config import OperatorConfig
from paseo.operators.exact import LatentMask
from paseo.operators.net import OperatorNet
from paseo.operators.store import save_operator
from paseo.samplers import PASEO
from paseo.street import restore

SHORT = PASEO(steps=4, inner_steps=1, cg_budget=1, operator_noise=0.1)
SEES_ALL = LatentMask(torch.ones(()))  # the identity: cheap, and fits every latent space
FAMILIES = ("sd", "sd-v", "sdxl", "sd3", "sd3-no-t5")


def picture(height: int = 64, width: int = 64, batch: int = 1) -> torch.Tensor:
    return torch.rand(batch, 3, height, width, generator=torch.Generator().manual_seed(0))


def run(model: PretrainedModel, y: torch.Tensor, sampler: Any = SHORT, seeds: Any = 0, **options: Any) -> Any:
    return restore(
        y, model=model, operator=SEES_ALL, degradation=task("blur"), sampler=sampler, seeds=seeds, **options
    )


def same(a: Any, b: Any) -> None:
    """Up to the rounding that the place of the weights in memory decides."""
    torch.testing.assert_close(a.images, b.images, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_from_disk_at_an_odd_size(tiny_folder: Callable[[str], Path], family: str) -> None:
    model = load_model(tiny_folder(family), device="cpu", guidance=2.0)
    result = run(model, picture(70, 93))  # type: ignore[arg-type]
    assert result.images.shape == (1, 3, 70, 93)
    assert torch.isfinite(result.images).all()
    assert result.nfe == 2 * 4 - 3
    assert model.prior.nfe == result.nfe  # type: ignore[attr-defined]


def test_28_steps_are_53_evaluations_without_gradients(tiny_folder: Callable[[str], Path]) -> None:
    model = load_diffusers_model(tiny_folder("sd3"), device="cpu")
    grads: list[bool] = []
    for module in (model.prior.denoiser.network, model.codec.vae.encoder, model.codec.vae.decoder):  # type: ignore[attr-defined]
        module.register_forward_pre_hook(lambda m, a: grads.append(torch.is_grad_enabled()))
    result = run(model, picture(), PASEO(steps=28, inner_steps=1, cg_budget=1, eta="square"))
    assert result.nfe == 53
    assert len(grads) == 53 + 2
    assert not any(grads)


@pytest.mark.parametrize("family", ["sd", "sd3"])
def test_one_alone_equals_one_in_a_batch(tiny_folder: Callable[[str], Path], family: str) -> None:
    model = load_diffusers_model(tiny_folder(family), device="cpu", guidance=2.0)
    y = picture(64, 80, batch=3)
    together, alone = run(model, y, seeds=[4, 5, 6]), run(model, y[1:2], seeds=[5])
    torch.testing.assert_close(together.images[1:2], alone.images, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_loaded_pipeline_is_the_same_model(
    tiny: Callable[[str], Any], tiny_folder: Callable[[str], Path], family: str
) -> None:
    ours = load_diffusers_model(tiny(family), device="cpu", prompt="a cat", guidance=3.0)
    disk = load_diffusers_model(tiny_folder(family), device="cpu", prompt="a cat", guidance=3.0)
    assert ours.hashes == disk.hashes
    assert (ours.size, ours.latent_channels) == (disk.size, disk.latent_channels)
    same(run(ours, picture()), run(disk, picture()))


def test_text_encoders_are_freed_and_the_network_comes_last(tiny_folder: Callable[[str], Path]) -> None:
    from transformers import CLIPTextModelWithProjection, T5EncoderModel

    def alive() -> int:
        gc.collect()
        return sum(type(o) in (CLIPTextModelWithProjection, T5EncoderModel) for o in gc.get_objects())

    before = alive()
    model = load_diffusers_model(tiny_folder("sd3"), device="cpu")
    assert "network" not in model.prior.parts.__dict__  # type: ignore[attr-defined]
    assert alive() == before
    _ = model.prior.conditioning  # type: ignore[attr-defined]
    assert "network" not in model.prior.parts.__dict__  # type: ignore[attr-defined]
    assert alive() == before
    run(model, picture())
    assert "network" in model.prior.parts.__dict__  # type: ignore[attr-defined]


def test_another_prompt_loads_nothing_again(tiny_folder: Callable[[str], Path]) -> None:
    model = load_diffusers_model(tiny_folder("sd"), device="cpu", prompt="a face")
    first = run(model, picture())
    other = model.prompted("a dog", "ugly", 4.0)
    assert other.codec is model.codec
    assert other.prior.denoiser.network is model.prior.denoiser.network  # type: ignore[attr-defined]
    assert not torch.equal(run(other, picture()).images, first.images)
    same(run(other.prompted("a face"), picture()), first)


def test_embeddings_instead_of_a_prompt(tiny_folder: Callable[[str], Path], tmp_path: Path) -> None:
    model = load_diffusers_model(tiny_folder("sdxl"), device="cpu", prompt="a face", guidance=2.0)
    kept = model.prior.conditioning.save(tmp_path / "face.safetensors")  # type: ignore[attr-defined]
    again = load_diffusers_model(tiny_folder("sdxl"), device="cpu", conditioning=kept, guidance=2.0)
    same(run(again, picture()), run(model, picture()))
    plain = load_diffusers_model(tiny_folder("sdxl"), device="cpu").prior.conditioning  # type: ignore[attr-defined]
    with pytest.raises(BadInput, match="negative prompt"):
        load_diffusers_model(tiny_folder("sdxl"), device="cpu", conditioning=plain, guidance=2.0)


def test_precision_and_t5_and_offload(tiny_folder: Callable[[str], Path]) -> None:
    full = run(load_diffusers_model(tiny_folder("sd3"), device="cpu", t5=False), picture())
    model = load_diffusers_model(
        tiny_folder("sd3"), device="cpu", dtype="bf16", t5=False, offload=True, attention_backend="math"
    )
    result = run(model, picture())
    assert model.prior.denoiser.dtype == torch.bfloat16  # type: ignore[attr-defined]
    assert next(model.codec.vae.parameters()).dtype == torch.float32  # type: ignore[attr-defined]
    assert result.images.dtype == torch.float32
    assert (result.images - full.images).abs().mean() < 0.05
    assert (model.prior.conditioning.prompt[:, 77:] == 0).all()  # type: ignore[attr-defined]
    with pytest.raises(BadInput, match="dtype"):
        load_diffusers_model(tiny_folder("sd3"), device="cpu", dtype="int4")
    with pytest.raises(BadInput, match="attention"):
        load_diffusers_model(tiny_folder("sd3"), device="cpu", attention_backend="fastest")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="device"):
        load_diffusers_model(tiny_folder("sd3"), device="gpu")


def test_a_tiny_codec_for_speed(tiny_folder: Callable[[str], Path]) -> None:
    from diffusers import AutoencoderTiny

    codec = TinyCodec(AutoencoderTiny(latent_channels=16), latent_space="sd3")
    model = load_diffusers_model(tiny_folder("sd3"), device="cpu", codec=codec)
    assert run(model, picture()).images.shape == (1, 3, 64, 64)
    assert model.hashes["codec"] == codec.hash


def test_shards_and_variants_load(
    tiny: Callable[[str], Any], tiny_folder: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = tmp_path / "sharded"
    tiny("sd").save_pretrained(str(folder), max_shard_size="200KB")
    assert len(list((folder / "unet").glob("*-of-*"))) > 1
    expected = run(load_diffusers_model(tiny_folder("sd"), device="cpu"), picture())
    same(run(load_diffusers_model(folder, device="cpu"), picture()), expected)
    half = tmp_path / "half"
    tiny("sd").save_pretrained(str(half), variant="fp16")
    same(run(load_diffusers_model(half, device="cpu"), picture()), expected)


def test_operators_beside_the_model(tiny_folder: Callable[[str], Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_folder("sd"), tmp_path / "model"))
    model = load_diffusers_model(folder, device="cpu")
    with pytest.raises(MissingWeights, match=r"without an operator for 'sr4'.*paseo train operator"):
        model.operator("sr4")
    for place, name, digest in (
        ("operator", "sr4", model.hashes["codec"]),
        ("operators/blur", "blur", "0" * 64),
    ):
        save_operator(OperatorNet(OperatorConfig(4, "sd1", digest, name)), folder / place)
    model = load_diffusers_model(folder, device="cpu")
    assert model.tasks == ["blur", "family", "sr4"]  # family: the package's for this latent space
    assert model.operator("sr4").spec.degradation == "sr4"
    with pytest.raises(BadInput, match="not of"):
        model.operator("blur")  # of another autoencoder


def test_an_operator_of_another_latent_space_is_refused(tiny_folder: Callable[[str], Path]) -> None:
    model = load_diffusers_model(tiny_folder("sd3"), device="cpu")
    with pytest.raises(BadInput, match="Was the latent made by another model"):
        restore(picture(16, 16), model=model, operator=OperatorNet(4), degradation=task("sr4"), sampler=SHORT)


def test_an_image_of_7_by_9_pixels(tiny_folder: Callable[[str], Path]) -> None:
    model = load_diffusers_model(tiny_folder("sd"), device="cpu")
    with pytest.raises(BadInput, match="too small"):
        restore(picture(7, 9), model=model, operator=SEES_ALL, degradation=task("jpeg"), sampler=SHORT)


def test_wrong_and_broken_folders(tiny_folder: Callable[[str], Path], tmp_path: Path) -> None:
    with pytest.raises(MissingWeights, match=r"no model_index\.json"):
        load_diffusers_model(tmp_path, device="cpu")
    with pytest.raises(BadInput, match="a loaded Stable Diffusion pipeline, got object"):
        load_diffusers_model(object(), device="cpu")
    folder = Path(shutil.copytree(tiny_folder("sd"), tmp_path / "model"))
    weights = folder / "unet" / "diffusion_pytorch_model.safetensors"
    os.truncate(weights, weights.stat().st_size - 1)
    with pytest.raises(MissingWeights, match="cut short"):
        load_diffusers_model(folder, device="cpu")
    config = folder / "text_encoder" / "config.json"
    shutil.copy(tiny_folder("sd") / "unet" / weights.name, weights)
    config.write_text(config.read_text().replace('"hidden_size": 32', '"hidden_size": 48'))
    model = load_diffusers_model(folder, device="cpu")
    with pytest.raises(MissingWeights, match="text_encoder could not be loaded as CLIPTextModel"):
        _ = model.prior.conditioning  # type: ignore[attr-defined]


def test_out_of_memory_says_what_needs_less(tiny_folder: Callable[[str], Path]) -> None:
    from paseo.errors import OutOfMemory

    model = load_diffusers_model(tiny_folder("sd"), device="cpu")

    def full(module: Any, inputs: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")

    model.prior.denoiser.network.register_forward_pre_hook(full)  # type: ignore[attr-defined]
    with pytest.raises(OutOfMemory, match=r"denoiser call.*bfloat16"):
        run(model, picture())
