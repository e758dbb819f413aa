"""Images from a prior alone: seeds, files, and distances that know the prior from noise."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from paseo.apps.cli.main import app
from paseo.noise import Noise
from paseo.priors import GaussianPrior
from paseo.priors.covariance import Isotropic
from paseo.samplers.unconditional import unconditional
from paseo.schedule import Flow

run = CliRunner()


def test_draws_of_a_gaussian_prior_have_its_mean_and_spread() -> None:
    """The deterministic flow of a Gaussian carries N(0, I) to N(m, s²): 4000 draws of 2 numbers."""
    mean, std = torch.tensor([1.5, -0.5]), 0.3
    prior = GaussianPrior(mean, Isotropic(std**2, (2,)), Flow())
    z = unconditional(prior, (4000, 2), Noise(range(4000)), steps=200)
    assert (z.mean(0) - mean).abs().max() < 5 * std / 4000**0.5
    assert (z.std(0) / std - 1).abs().max() < 5 / (2 * 4000) ** 0.5 + 0.01  # 200 Euler steps: below 1 %


def test_a_sheet_is_the_same_for_the_same_seed_and_any_batch(tmp_path: Path) -> None:
    first, second = tmp_path / "a.png", tmp_path / "b.png"
    for path, batch in ((first, "3"), (second, "2")):
        result = run.invoke(
            app,
            [
                "sample",
                "--count",
                "3",
                "--steps",
                "4",
                "--batch",
                batch,
                "-o",
                str(path),
                "--json",
                str(tmp_path / "a.json"),
            ],
        )
        assert result.exit_code == 0, result.output
    a, b = (torch.tensor(list(Image.open(p).tobytes()), dtype=torch.int16) for p in (first, second))
    assert (a - b).abs().max() <= 1  # a convolution may round differently in another batch
    assert Image.open(first).width > 3 * 128
    assert json.loads((tmp_path / "a.json").read_text())["count"] == 3


def test_a_local_prior_draws_at_any_size_of_whole_cells(tmp_path: Path) -> None:
    words = ["sample", "--count", "1", "--steps", "3", "-o", str(tmp_path / "a.png"), "--size"]
    assert run.invoke(app, [*words, "160"]).exit_code == 0
    assert Image.open(tmp_path / "a.png").width >= 160
    refused = run.invoke(app, [*words[:6], str(tmp_path / "b.png"), "--size", "100"])
    assert refused.exit_code == 2
    assert "multiple of 32" in refused.output
    assert not (tmp_path / "b.png").exists()


def test_too_few_images_to_compare_with(tmp_path: Path) -> None:
    samples = Path("paseo/models/faces-128/samples").resolve()
    result = run.invoke(
        app, ["sample", "--count", "9", "--steps", "3", "--data", str(samples), "-o", str(tmp_path / "a.png")]
    )
    assert result.exit_code != 0
    assert not (tmp_path / "a.png").exists()


@pytest.mark.slow
def test_distance_knows_noise_from_faces() -> None:
    from paseo.lab.bench.pictures import load_pictures, stack
    from paseo.metrics import kernel_distance, vgg_features, weights_available

    if not weights_available("vgg"):
        pytest.skip("the VGG weights are not installed")
    faces = vgg_features(stack(load_pictures(Path("paseo/models/faces-128/samples"), "all", 0, 8, 128)))
    noise = vgg_features(torch.rand(8, 3, 128, 128, generator=torch.Generator().manual_seed(0)))
    assert kernel_distance(noise, faces).value > kernel_distance(faces[:4], faces[4:]).value
