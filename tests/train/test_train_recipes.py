"""The three recipes at toy size, through their public functions: what they learn, export and refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from torch import Tensor, nn
from toy_pictures import picture

from paseo.codecs.embedded import EmbeddedCodec
from paseo.degrade import task
from paseo.errors import BadInput
from paseo.metrics.lpips import weights_available
from paseo.models import AUTO, DEFAULT, load_model
from paseo.operators.store import load_operator
from paseo.train.codec import CodecTraining, train_codec
from paseo.train.data import load_images
from paseo.train.export import load_codec
from paseo.train.jacobian import secant_loss
from paseo.train.latents import clean_latents, encode
from paseo.train.loop import session
from paseo.train.measure import by_name, mirrored, noisy
from paseo.train.operator import OperatorRecipe, OperatorTraining, train_operator
from paseo.train.prior import PriorTraining, train_prior
from paseo.train.splits import split
from paseo.train.state import CHECKPOINT, read_log

PERCEPTUAL = [
    pytest.mark.slow,
    pytest.mark.skipif(not weights_available(), reason="LPIPS weights are not installed"),
]
BASE: dict[str, Any] = dict(
    size=32,
    batch_size=4,
    warmup=2,
    log_every=5,
    validate_every=1000,
    device="cpu",
    precision="fp32",
    quiet=True,
)


def over(values: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return values | changes


def operator_settings(out: Path, **changes: Any) -> OperatorTraining:
    return OperatorTraining(**over(over(BASE, out=out, steps=10, task="sr4"), **changes))


def test_operator_learns_a_task_and_is_exported(photos: Path, tmp_path: Path, codec: EmbeddedCodec) -> None:
    outcome = train_operator(
        operator_settings(tmp_path / "run", data=photos, task="blur", steps=40, lr=3e-3), codec
    )
    assert outcome.validation["ratio"] < 0.9  # of the error of doing nothing
    net = load_operator(tmp_path / "run" / "operator", codec_hash=codec.hash)
    assert (net.spec.degradation, net.spec.degradation_params, net.spec.latent_space) == (
        "blur",
        dict(task("blur").params),
        "tiny",
    )
    assert net.spec.unit_noise_range == (0.0, 0.02)
    assert net.spec.training["steps"] == 40
    assert net.spec.training["validation"] == outcome.validation
    stored = load_file(tmp_path / "run" / "operator" / "diffusion_pytorch_model.safetensors")
    assert {v.dtype for v in stored.values()} == {torch.float16}
    z = torch.randn(2, 4, 4, 4)
    torch.testing.assert_close(
        net(z, 0.02), outcome.net(z, 0.02), rtol=0, atol=0.02
    )  # float16 rounding through 18 layers


def test_operator_starts_from_another(photos: Path, tmp_path: Path, codec: EmbeddedCodec) -> None:
    first = train_operator(operator_settings(tmp_path / "first", data=photos, steps=20, lr=3e-3), codec)
    start = tmp_path / "first" / "operator"
    second = train_operator(
        operator_settings(tmp_path / "second", data=photos, steps=1, lr=1e-9, start=start), codec
    )
    assert second.validation["l1"] == pytest.approx(first.validation["l1"], rel=0.02)  # float16 storage
    other = EmbeddedCodec(type(codec.net)(**codec.net.config))
    with pytest.raises(BadInput, match="latent space"):
        train_operator(operator_settings(tmp_path / "third", data=photos, steps=1, start=start), other)


def test_a_student_imitates_its_teacher_beside_the_clean_latents_too(
    photos: Path, tmp_path: Path, codec: EmbeddedCodec
) -> None:
    train_operator(operator_settings(tmp_path / "teacher", data=photos, lr=3e-3), codec)
    folder = tmp_path / "teacher" / "operator"
    lean: dict[str, Any] = dict(data=photos, teacher=folder, widths=(16, 24, 32), pooled=True, lr=5e-3)
    distances = []
    for steps in (1, 150):
        run = tmp_path / f"student{steps}"
        train_operator(operator_settings(run, steps=steps, ema=0.9, **lean), codec)
        student, teacher = load_operator(run / "operator"), load_operator(folder)
        z = torch.randn(4, teacher.spec.channels, 4, 4, generator=torch.Generator().manual_seed(0))
        off = student(z, 0.02) - teacher(z, 0.02)
        distances.append(off.square().mean().sqrt().item())
    assert distances[1] < 0.6 * distances[0]


def test_operator_run_resumes_exactly(photos: Path, tmp_path: Path, codec: EmbeddedCodec) -> None:
    train_operator(operator_settings(tmp_path / "whole", data=photos, steps=6, schedule="constant"), codec)
    train_operator(operator_settings(tmp_path / "two", data=photos, steps=3, schedule="constant"), codec)
    train_operator(operator_settings(tmp_path / "two", data=photos, steps=6, schedule="constant"), codec)
    whole, two = (load_file(tmp_path / name / CHECKPOINT) for name in ("whole", "two"))
    assert all(torch.equal(whole[k], two[k]) for k in whole)


def test_measurement_follows_the_formula(photos: Path, tmp_path: Path, codec: EmbeddedCodec) -> None:
    """The target of a sample is E(lift(A(x) + s n)), with noise at the measurement's own resolution."""
    config = operator_settings(tmp_path / "run", data=photos)
    with session(config) as accelerator:
        recipe = OperatorRecipe(
            codec, load_images(photos, 32, tmp_path), by_name("sr4"), config, tmp_path, accelerator
        )
    index, mirror, s = np.array([3, 5]), torch.tensor([False, True]), torch.tensor([0.0, 0.03])
    target = recipe._measure(index, mirror, s, torch.Generator().manual_seed(7))
    x = torch.stack([recipe.images.batch([3])[0], recipe.images.batch([5])[0].flip(2)])
    n = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(7))
    sr4 = task("sr4")
    expected = codec.encode(sr4.lift(sr4(x) + s[:, None, None, None] * n, (32, 32)))
    torch.testing.assert_close(target, expected, rtol=0, atol=1e-5)


def test_recipe_of_the_paper(tmp_path: Path) -> None:
    """Adam at a constant 1e-4 without averaging from the first step; what is asked for stays."""
    config = OperatorTraining(out=tmp_path, data=tmp_path, task="sr4", recipe="paper")
    assert (config.ema, config.clip, config.weight_decay, config.batch_size) == (0.0, None, 0.0, 16)
    assert [config.lr_at(step, step / 10) for step in (0, 5, 10)] == [1e-4] * 3
    mine = OperatorTraining(out=tmp_path, data=tmp_path, task="sr4", recipe="paper", lr=3e-4, batch_size=32)
    assert (mine.lr_at(0, 0.0), mine.batch_size) == (3e-4, 32)
    assert OperatorTraining(out=tmp_path, data=tmp_path, task="sr4").lr == 1e-3
    with pytest.raises(BadInput, match="recipe is 'papers'"):
        OperatorTraining(out=tmp_path, data=tmp_path, task="sr4", recipe="papers")  # ty: ignore


def test_training_noise_is_uniform_up_to_its_limit(
    photos: Path, tmp_path: Path, codec: EmbeddedCodec
) -> None:
    """s ~ U(0, 0.04) per sample: mean 0.02 within four standard errors, and both ends are reached."""
    config = operator_settings(tmp_path / "run", data=photos)
    with session(config) as accelerator:
        images = load_images(photos, 32, tmp_path)
        recipe = OperatorRecipe(codec, images, by_name("sr4"), config, tmp_path, accelerator)
    seen: list[Tensor] = []

    class Listener(nn.Module):
        def forward(self, z: Tensor, s: Tensor) -> Tensor:
            seen.append(s)
            return z

    net = Listener()

    rng = torch.Generator().manual_seed(0)
    for _ in range(400):
        recipe.loss(net, torch.tensor([0, 1]), rng)
    s = torch.cat(seen)
    assert 0 <= s.min() < 0.001
    assert 0.039 < s.max() <= 0.04
    assert abs(s.mean() - 0.02) < 4 * (0.04 / 12**0.5) / len(s) ** 0.5


def test_latents_are_cached_with_their_mirror_images(
    photos: Path, tmp_path: Path, codec: EmbeddedCodec
) -> None:
    images = load_images(photos, 32, tmp_path)
    config = operator_settings(tmp_path / "run", data=photos)
    with session(config) as accelerator:
        latents = clean_latents(codec, images, tmp_path / "cache", accelerator, bf16=False)
        made = {p: p.stat().st_mtime_ns for p in (tmp_path / "cache").iterdir()}
        clean_latents(codec, images, tmp_path / "cache", accelerator, bf16=False)
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "cache").iterdir()} == made
    assert latents.shape == (4, 4, 4)
    x = images.batch([4, 9])
    expected = encode(codec, mirrored(x, torch.tensor([False, True])), torch.device("cpu"), False)
    torch.testing.assert_close(
        latents(np.array([4, 9]), np.array([0, 1])), expected, rtol=1e-3, atol=1e-3
    )  # float16


def test_secant_loss_is_zero_for_the_chain_itself_and_scales_with_the_error(codec: EmbeddedCodec) -> None:
    z, s, rng = torch.randn(8, 4, 4, 4), torch.zeros(8), torch.Generator
    chain = lambda z: torch.sin(3 * z)  # noqa: E731

    class Wrong(nn.Module):
        def __init__(self, slope: float) -> None:
            super().__init__()
            self.slope = slope

        def forward(self, z: Tensor, s: Tensor) -> Tensor:
            return chain(z) + self.slope * z + 7.0  # a constant is no error of the derivative

    losses = [secant_loss(Wrong(k), chain, z, s, 0.3, rng().manual_seed(1)).item() for k in (0.0, 1.0, 2.0)]
    assert losses[0] < 1e-6
    assert losses[2] == pytest.approx(2 * losses[1], rel=1e-4)
    assert losses[1] == pytest.approx(0.3 * (2 / torch.pi) ** 0.5, rel=0.1)  # E|v| of 128 normals of std 0.3


@pytest.mark.slow
def test_matching_the_jacobian_lowers_the_secant_error(
    photos: Path, tmp_path: Path, codec: EmbeddedCodec
) -> None:
    def train(name: str, weight: float) -> float:
        config = operator_settings(
            tmp_path / name, data=photos, task="blur", steps=40, lr=3e-3, jacobian=weight
        )
        with session(config) as accelerator:
            recipe = OperatorRecipe(
                codec, load_images(photos, 32, tmp_path), by_name("blur"), config, tmp_path, accelerator
            )
        net = train_operator(config, codec).net
        z = recipe.latents(recipe.held_out, recipe.held_out * 0)
        return secant_loss(
            net, recipe._chain, z, torch.zeros(len(z)), 0.3, torch.Generator().manual_seed(0)
        ).item()

    assert train("with", 3.0) < 0.9 * train("without", 0.0)


def test_exported_operator_knows_its_error_in_every_channel(
    photos: Path, tmp_path: Path, codec: EmbeddedCodec
) -> None:
    train_operator(operator_settings(tmp_path / "run", data=photos), codec)
    spec = load_operator(tmp_path / "run" / "operator").spec
    assert len(spec.residual) == spec.channels
    rms = sum(v**2 for v in spec.residual) / spec.channels
    assert rms**0.5 == pytest.approx(
        spec.training["validation"]["rms"], rel=0.5
    )  # that one is to noise-free encodings


def test_stored_measurements_train_too(photos: Path, tmp_path: Path, codec: EmbeddedCodec) -> None:
    config = operator_settings(tmp_path / "run", data=photos, task="blur", steps=30, lr=3e-3, measurements=2)
    assert train_operator(config, codec).validation["ratio"] < 0.9


def test_stored_measurement_has_the_noise_level_it_is_shown_with(
    photos: Path, tmp_path: Path, codec: EmbeddedCodec
) -> None:
    """One large noise range: the encoded noise must grow with the level that is handed to the network."""
    config = operator_settings(tmp_path / "run", data=photos, measurements=8, noise=1.0)
    with session(config) as accelerator:
        recipe = OperatorRecipe(
            codec, load_images(photos, 32, tmp_path), by_name("blur"), config, tmp_path, accelerator
        )
    images = np.repeat(np.arange(20), 8)
    straight = torch.zeros(len(images), dtype=torch.bool)
    s, noisy_ones = recipe._stored(images, straight, torch.Generator().manual_seed(0))
    clean = recipe._measure(images, straight, torch.zeros(len(images)), torch.Generator())
    deviation = (noisy_ones - clean).square().mean((1, 2, 3)).sqrt()
    assert np.corrcoef(s.numpy(), deviation.numpy())[0, 1] > 0.8


def test_operator_of_a_function(
    photos: Path, tmp_path: Path, codec: EmbeddedCodec, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_fog.py").write_text("def fog(x):\n    return 0.5 * x + 0.4\n")
    monkeypatch.chdir(tmp_path)
    train_operator(operator_settings(tmp_path / "run", data=photos, task="my_fog:fog", steps=3), codec)
    assert load_operator(tmp_path / "run" / "operator").spec.degradation == "my_fog:fog"


def test_operator_of_pairs_needs_no_formula(tmp_path: Path, codec: EmbeddedCodec) -> None:
    clean, degraded = tmp_path / "clean", tmp_path / "degraded"
    clean.mkdir()
    degraded.mkdir()
    for i in range(20):
        picture(i).save(clean / f"{i}.png")
        Image.eval(picture(i).reduce(2), lambda v: 255 - v // 2).save(degraded / f"{i}.png")
    config = operator_settings(
        tmp_path / "run", task=None, pairs=(clean, degraded), name="scanner", steps=30, lr=3e-3
    )
    outcome = train_operator(config, codec)
    assert outcome.validation["ratio"] < 0.85
    spec = load_operator(tmp_path / "run" / "operator").spec
    assert (spec.degradation, spec.degradation_params) == ("scanner", {"factor": 2})


def test_operator_settings_are_checked(tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"data": None}, "data"),
        ({"data": tmp_path, "task": None}, "one degradation"),
        ({"data": tmp_path, "pairs": (tmp_path, tmp_path)}, "one degradation"),
        ({"data": tmp_path, "task": None, "pairs": (tmp_path, tmp_path)}, "take no data"),
        ({"data": tmp_path, "noise": -0.1}, "noise"),
        ({"data": tmp_path, "measurements": 65}, "measurements"),
        ({"data": tmp_path, "jacobian": -1.0}, "jacobian is -1"),
        ({"data": tmp_path, "jacobian": 1.0, "jacobian_step": 0.0}, "steps of 0"),
        ({"task": None, "pairs": (tmp_path, tmp_path), "jacobian": 1.0}, "pairs only show"),
    ]
    for wrong, reason in cases:
        with pytest.raises(BadInput, match=reason):
            operator_settings(tmp_path / "run", **wrong)
    with pytest.raises(BadInput, match="no task named 'sr5'"):
        train_operator(operator_settings(tmp_path / "run", data=tmp_path, task="sr5"), object())  # ty: ignore[invalid-argument-type]


def test_exported_settings_say_nothing_about_the_machine(tmp_path: Path) -> None:
    config = operator_settings(
        tmp_path / "run",
        data=tmp_path / "my-photos",
        model=str(tmp_path / "tiny"),
        cache=tmp_path / "cache",
        teacher=tmp_path / "wise",
    )
    assert str(tmp_path) not in json.dumps(config.public())
    assert (config.public()["data"], config.public()["model"], config.public()["task"]) == (
        "my-photos",
        "tiny",
        "sr4",
    )
    pairs = operator_settings(tmp_path / "run", task=None, pairs=(tmp_path / "a", tmp_path / "b"))
    assert pairs.public()["pairs"] == ["a", "b"]


def test_a_run_of_before_an_option_existed_can_go_on(tmp_path: Path) -> None:
    config = operator_settings(tmp_path / "run", data=tmp_path)
    earlier = config.identity()
    del earlier["mirror"]
    assert config.differences(earlier) == []
    assert operator_settings(tmp_path / "run", data=tmp_path, mirror=False).differences(earlier) == [
        "mirror was True, is False"
    ]


def test_noise_has_one_level_per_sample() -> None:
    y = noisy(torch.zeros(3, 3, 64, 64), torch.tensor([0.0, 0.02, 0.04]), torch.Generator().manual_seed(0))
    deviations = y.flatten(1).std(1)
    assert deviations[0] == 0
    # std of a sample std is σ/√(2n); five of them
    torch.testing.assert_close(
        deviations[1:], torch.tensor([0.02, 0.04]), rtol=5 / (2 * 3 * 64 * 64) ** 0.5, atol=0
    )


def test_prior_learns_and_becomes_a_model(photos: Path, tmp_path: Path, codec_model: Path) -> None:
    values = over(
        BASE,
        out=tmp_path / "run",
        data=photos,
        model=str(codec_model),
        widths=(32, 32),
        steps=40,
        lr=2e-3,
        batch_size=8,
    )
    outcome = train_prior(PriorTraining(**values))
    losses = [row["loss"] for row in read_log(tmp_path / "run") if "loss" in row]
    assert losses[-1] < 0.8 * losses[0]
    model = load_model(tmp_path / "run" / "model")
    assert (model.name, model.size, model.latent_channels) == ("run", 32, 4)
    x = torch.randn(2, 4, 4, 4)
    with torch.no_grad():
        expected = x - 0.5 * outcome.net(x, torch.full((2,), 0.5))
        torch.testing.assert_close(model.prior.x0(x, 0.5), expected, rtol=0, atol=0.01)
    config = json.loads((tmp_path / "run" / "model" / "config.json").read_text())
    assert config["training"]["prior"]["steps"] == 40
    assert config["sha256"].keys() == {"codec.safetensors", "prior.safetensors"}
    assert config["sha256"]["prior.safetensors"] == model.hashes["prior"]
    again = PriorTraining(
        **over(values, out=tmp_path / "more", start=str(tmp_path / "run" / "model"), steps=1)
    )
    assert train_prior(again).validation["loss"] == pytest.approx(
        config["training"]["prior"]["validation"]["loss"], rel=0.05
    )


def test_prior_settings_are_checked(photos: Path, tmp_path: Path, codec_model: Path) -> None:
    values = over(BASE, out=tmp_path / "run", data=photos, model=str(codec_model), steps=1)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"widths": (48,)}, "widths"),
        ({"widths": ()}, "widths"),
        ({"blocks": 0}, "blocks"),
        ({"time_std": 0}, "time_std"),
    ]
    for wrong, reason in cases:
        with pytest.raises(BadInput, match=reason):
            PriorTraining(**over(values, **wrong))
    with pytest.raises(BadInput, match="halve"):
        train_prior(PriorTraining(**over(values, widths=(32, 32, 32, 32))))


@pytest.mark.parametrize("lpips_weight", [0.0, pytest.param(0.3, marks=PERCEPTUAL)])
def test_codec_learns_and_is_exported_with_unit_latents(
    photos: Path, tmp_path: Path, lpips_weight: float
) -> None:
    size = 64 if lpips_weight else 32  # AlexNet's features vanish below 63 pixels
    values = over(
        BASE,
        out=tmp_path / "run",
        data=photos,
        size=size,
        channels=4,
        steps=20,
        lr=1e-3,
        lpips_weight=lpips_weight,
    )
    outcome = train_codec(CodecTraining(**values))
    rows = [row for row in read_log(tmp_path / "run") if "loss" in row]
    assert rows[-1]["l1"] < rows[0]["l1"]
    assert ("lpips" in rows[0]) == bool(lpips_weight)
    codec = EmbeddedCodec.load(tmp_path / "run" / "model", "tiny")
    images = load_images(photos, size, tmp_path / "run" / "cache")
    z = codec.encode(images.batch(split(images.names)["train"]))
    torch.testing.assert_close(
        z.mean((0, 2, 3)), torch.zeros(4), rtol=0, atol=0.02
    )  # float16 weights, statistics before rounding
    torch.testing.assert_close(z.std((0, 2, 3)), torch.ones(4), rtol=0, atol=0.02)
    config = json.loads((tmp_path / "run" / "model" / "config.json").read_text())
    assert config["training"]["codec"]["validation"]["psnr"] == pytest.approx(
        outcome.validation["psnr"], abs=0.1
    )
    start = CodecTraining(
        **over(
            values,
            out=tmp_path / "more",
            start=str(tmp_path / "run" / "model"),
            steps=1,
            lr=1e-9,
            crop=size // 2,
        )
    )
    assert train_codec(start).validation["psnr"] == pytest.approx(outcome.validation["psnr"], abs=0.1)


def test_codec_settings_are_checked(tmp_path: Path) -> None:
    values = over(BASE, out=tmp_path, data=tmp_path)
    for wrong in ({"size": 30}, {"crop": 20}, {"crop": 64}, {"channels": 0}, {"latent_noise": -1}):
        with pytest.raises(BadInput, match=next(iter(wrong))):
            CodecTraining(**over(values, **wrong))
    with pytest.raises(BadInput, match="nowhere"):
        train_codec(CodecTraining(**over(values, start="nowhere", data=_two(tmp_path))))


def _two(folder: Path) -> Path:
    for i in range(2):
        picture(i).save(folder / f"{i}.png")
    return folder


def test_a_training_that_names_no_model_learns_for_the_default_one(tmp_path):
    assert OperatorTraining(out=tmp_path, data=tmp_path, task="sr4").model == AUTO
    assert PriorTraining(out=tmp_path, data=str(tmp_path)).model == AUTO
    assert load_codec(AUTO).latent_space == DEFAULT
