"""Which version of a face stays: the rules, and the figures they are made of."""

from __future__ import annotations

import pytest
import torch

from paseo.degrade import task
from paseo.faces import FaceModel, Frame
from paseo.faces.judge import Judgement, judge, misfit
from paseo.faces.view import view_of
from paseo.images import read
from paseo.metrics import psnr
from paseo.models import ROOT, load_model
from paseo.samplers import PASEO

FRAME = Frame((64.0, 64.0), (64.0, 0.0))


@pytest.mark.parametrize(
    ("judgement", "objection"),
    [
        (Judgement((0.030, 0.020), 0.016, (0.01, 0.03), (0.9, 1.0)), None),  # blurred
        (Judgement((0.016, 0.016), 0.016, (0.04, 0.03), (1.0, 1.0)), "fine"),  # sharp and ordinary
        (Judgement((0.016, 0.016), 0.016, (0.04, 0.03), (1.1, 1.0)), None),  # very strange
        (Judgement((0.030, 0.017), 0.016, (0.04, 0.03), (1.03, 1.0)), None),  # odd and unexplained
        (Judgement((0.016, 0.016), 0.016, (0.04, 0.03), (1.03, 1.0)), "fine"),  # odd, explained
        (Judgement((0.030, 0.017), 0.016, (0.04, 0.03), None), "fine"),  # nobody to ask
        (Judgement((0.016, 0.060), 0.016, (0.01, 0.03), (1.1, 1.0)), "does not explain"),
        (Judgement((0.030, 0.031), 0.016, (0.01, 0.03), (1.1, 1.0)), "does not explain"),
        (Judgement((0.010, 0.015), 0.016, (0.01, 0.03), (1.1, 1.0)), None),  # both are at the noise
    ],
)
def test_a_face_replaces_what_is_blurred_or_damaged_and_nothing_else(
    judgement: Judgement, objection: str | None
) -> None:
    if objection is None:
        assert judgement.objection is None
    else:
        assert objection in str(judgement.objection)


def test_the_figures_of_the_truth_and_of_a_blurred_version() -> None:
    x = read(sorted((ROOT / "faces-128" / "samples").glob("*.jpg"))[0]).rgb
    blur = task("blur")
    y = blur.measure(x[None], seeds=0)
    view, _ = view_of(blur, y[0], FRAME)
    figures = judge(view, y, y[0].clamp(0, 1), x, 0.01, None)
    assert figures.blurred
    assert figures.objection is None
    assert figures.misfit[1] == pytest.approx(figures.noise, rel=0.1)  # the truth leaves the noise alone
    assert figures.misfit[0] > 2 * figures.noise
    back = judge(view, y, x, y[0].clamp(0, 1), 0.01, None)
    assert back.objection is not None
    assert "does not explain" in back.objection


def test_misfit_is_that_of_the_oval() -> None:
    x = torch.full((3, 128, 128), 0.5)
    view, _ = view_of(task("jpeg"), x, FRAME)
    y = task("jpeg").measure(x[None], sigma_y=0.0)
    corner = x.clone()
    corner[:, :8, :8] = 1  # one block, far from the face
    assert misfit(view, y, corner) < 1e-3
    assert float(psnr(corner[None], x[None])) < 40


def test_noise_is_stranger_than_a_face() -> None:
    model = FaceModel(load_model("faces-128"), PASEO(weight="ones"))
    face = read(sorted((ROOT / "faces-128" / "samples").glob("*.jpg"))[0]).rgb
    noise = torch.randn(face.shape, generator=torch.Generator().manual_seed(0))
    assert model.strangeness((face + 0.05 * noise).clamp(0, 1)) > 1.07 * model.strangeness(face)
    assert model.strangeness(face) == model.strangeness(face)  # the same noises each time
