"""AutoencoderKL as a codec: each family's normalisation, the posterior, identity, tiling, refusals."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch

from paseo.codecs.kl import KLCodec
from paseo.errors import BadInput, MissingWeights, NotFinite
from paseo.hub.autoencoder import is_codec, open_codec
from paseo.noise import Noise

SPACES = {
    "sd": ("sd1", 4, 0.18215, 0.0),
    "sdxl": ("sdxl", 4, 0.13025, 0.0),
    "sd3": ("sd3", 16, 1.5305, 0.0609),
}


@pytest.fixture
def x() -> torch.Tensor:
    return torch.rand(2, 3, 64, 48, generator=torch.Generator().manual_seed(0)) * 2 - 1


@torch.no_grad()
@pytest.mark.parametrize("family", SPACES)
def test_the_familys_scale_and_shift(tiny: Callable[[str], Any], x: torch.Tensor, family: str) -> None:
    vae = tiny(family).vae
    codec = KLCodec(vae)
    space, channels, scale, shift = SPACES[family]
    assert (codec.latent_space, codec.channels, codec.factor) == (space, channels, 8)
    mean = torch.cat([vae.encode(row[None]).latent_dist.mean for row in x])
    torch.testing.assert_close(codec.encode(x), (mean - shift) * scale)
    z = torch.randn(2, channels, 8, 6, generator=torch.Generator().manual_seed(1))
    expected = torch.cat([vae.decode((row / scale + shift)[None]).sample for row in z])
    torch.testing.assert_close(codec.decode(z), expected)


@torch.no_grad()
@pytest.mark.parametrize("family", SPACES)
def test_encode_is_the_inverse_convention_of_decode(
    tiny: Callable[[str], Any], x: torch.Tensor, family: str
) -> None:
    codec = KLCodec(tiny(family).vae)
    mean = torch.cat([codec.vae.encode(row[None]).latent_dist.mean for row in x])
    reached: list[torch.Tensor] = []
    hook = codec.vae.decoder.register_forward_pre_hook(
        lambda module, inputs: reached.append(inputs[0].clone())
    )
    codec.decode(codec.encode(x))
    hook.remove()
    wanted = torch.cat(
        [
            codec.vae.post_quant_conv(m[None]) if codec.vae.post_quant_conv is not None else m[None]
            for m in mean
        ]
    )
    torch.testing.assert_close(torch.cat(reached), wanted)


@torch.no_grad()
def test_a_sampled_encoding_is_mean_plus_std_times_the_noise(
    tiny: Callable[[str], Any], x: torch.Tensor
) -> None:
    codec = KLCodec(tiny("sd3").vae)
    posterior = codec.vae.encode(x[:1]).latent_dist
    noise = Noise(7).like(posterior.mean)
    torch.testing.assert_close(
        codec.encode(x[:1], Noise(7)), (posterior.mean + posterior.std * noise - codec.shift) * codec.scale
    )
    assert not torch.equal(codec.encode(x[:1], Noise(7)), codec.encode(x[:1]))


@torch.no_grad()
def test_members_of_a_batch_do_not_know_each_other(tiny: Callable[[str], Any], x: torch.Tensor) -> None:
    codec = KLCodec(tiny("sd").vae)
    z = codec.encode(x)
    assert torch.equal(z[1:], codec.encode(x[1:]))
    assert torch.equal(codec.decode(z)[:1], codec.decode(z[:1]))


@torch.no_grad()
def test_mean_and_std_per_channel_replace_the_shift(tiny: Callable[[str], Any], x: torch.Tensor) -> None:
    vae = copy.deepcopy(tiny("sdxl").vae)
    mean, std = [0.1, -0.2, 0.3, 0.0], [2.0, 1.0, 0.5, 4.0]
    vae.register_to_config(latents_mean=mean, latents_std=std)
    raw = torch.cat([vae.encode(row[None]).latent_dist.mean for row in x])
    by_hand = (raw - torch.tensor(mean).view(1, 4, 1, 1)) * 0.13025 / torch.tensor(std).view(1, 4, 1, 1)
    codec = KLCodec(vae)
    torch.testing.assert_close(codec.encode(x), by_hand)
    torch.testing.assert_close(
        codec.decode(by_hand), torch.cat([vae.decode(row[None]).sample for row in raw])
    )
    assert codec.hash != KLCodec(tiny("sdxl").vae).hash


def test_the_hash_is_the_encoders(tiny: Callable[[str], Any]) -> None:
    vae = copy.deepcopy(tiny("sd").vae)
    before = KLCodec(vae).hash
    with torch.no_grad():
        vae.decoder.conv_out.weight.add_(1.0)
    assert KLCodec(vae).hash == before  # a fine-tuned decoder lives in the same latent space
    with torch.no_grad():
        vae.encoder.conv_in.weight.view(-1)[0] += 1e-3
    assert KLCodec(vae).hash != before
    rescaled = copy.deepcopy(tiny("sd").vae)
    rescaled.register_to_config(scaling_factor=0.2)
    assert KLCodec(rescaled).hash != before


def test_the_hash_does_not_depend_on_how_the_numbers_are_stored(tiny: Callable[[str], Any]) -> None:
    full = tiny("sd").vae
    variant = copy.deepcopy(full).to(torch.float16)
    assert KLCodec(variant).hash == KLCodec(full).hash  # the fp16 variant that hubs offer
    assert KLCodec(variant.to(torch.float32)).hash == KLCodec(full).hash


@torch.no_grad()
def test_half_precision_keeps_the_callers_dtype(tiny: Callable[[str], Any], x: torch.Tensor) -> None:
    full, half = KLCodec(tiny("sd").vae), KLCodec(copy.deepcopy(tiny("sd").vae).to(torch.bfloat16))
    z = half.encode(x)
    assert z.dtype == torch.float32
    assert half.decode(z).dtype == torch.float32
    assert (z - full.encode(x)).abs().max() < 0.1 * full.encode(
        x
    ).abs().max()  # 8 bits through some forty layers


@torch.no_grad()
def test_an_overflow_in_float16_is_named(tiny: Callable[[str], Any], x: torch.Tensor) -> None:
    vae = copy.deepcopy(tiny("sd").vae)
    vae.decoder.conv_out.weight.mul_(1e6)
    with pytest.raises(NotFinite, match=r"overflowed in float16.*float32"):
        KLCodec(vae.to(torch.float16)).decode(torch.randn(1, 4, 8, 8))


@torch.no_grad()
def test_tiles_cover_the_image_exactly(tiny: Callable[[str], Any]) -> None:
    codec = KLCodec(copy.deepcopy(tiny("sd").vae), tiling=64)
    plain = KLCodec(tiny("sd").vae)
    x = torch.rand(1, 3, 160, 104, generator=torch.Generator().manual_seed(3)) * 2 - 1
    z = codec.encode(x)
    assert z.shape == (1, 4, 20, 13)
    assert codec.decode(z).shape == x.shape
    assert not torch.equal(z, plain.encode(x))  # it really worked in tiles
    small = x[..., :64, :64]
    assert torch.equal(codec.encode(small), plain.encode(small))  # what fits one tile is not cut
    with pytest.raises(BadInput, match="multiple of 8"):
        codec.tile(70)


@pytest.mark.parametrize("shape", [(1, 3, 7, 9), (1, 3, 64, 60), (3, 64, 64), (1, 4, 64, 64), (1, 3, 0, 64)])
def test_images_that_do_not_fit_are_refused(tiny: Callable[[str], Any], shape: tuple[int, ...]) -> None:
    with pytest.raises(BadInput):
        KLCodec(tiny("sd").vae).encode(torch.zeros(shape))


def test_latents_of_another_model_are_refused(tiny: Callable[[str], Any]) -> None:
    with pytest.raises(BadInput, match="another model"):
        KLCodec(tiny("sd").vae).decode(torch.zeros(1, 16, 8, 8))


def test_parameters_are_frozen(tiny: Callable[[str], Any]) -> None:
    assert not any(p.requires_grad for p in KLCodec(tiny("sd").vae).parameters())


@torch.no_grad()
def test_from_disk(tiny_folder: Callable[[str], Any], tiny: Callable[[str], Any], x: torch.Tensor) -> None:
    folder = tiny_folder("sd3")
    for path in (folder, folder / "vae"):
        assert is_codec(path)
        codec = open_codec(path)
        assert codec.hash == KLCodec(tiny("sd3").vae).hash
        assert torch.equal(codec.encode(x), KLCodec(tiny("sd3").vae).encode(x))
    assert not is_codec(folder / "transformer")
    with pytest.raises(MissingWeights, match="no autoencoder"):
        open_codec(folder / "tokenizer_nowhere")
