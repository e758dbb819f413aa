"""The degradation as a face sees it, and faces put into a picture: the true face in a model's place."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from paseo.base import Degradation
from paseo.degrade import Downsample, task
from paseo.errors import BadInput
from paseo.faces import (
    Face,
    FaceModel,
    FaceView,
    Frame,
    detect,
    frame_of,
    restore_faces,
    weights,
    weights_available,
)
from paseo.faces.align import to_face
from paseo.faces.restore import sought
from paseo.faces.view import Window, view_of
from paseo.images import fit_square, read
from paseo.metrics import psnr
from paseo.models import ROOT, load_model
from paseo.samplers import PASEO

SIZE = (256, 320)


def photograph() -> Tensor:
    """(3, 256, 320): a face of 112 px on a soft background."""
    picture = torch.linspace(0.2, 0.7, 320).expand(3, 256, 320).clone()
    face = read(sorted((ROOT / "faces-128" / "samples").glob("*.jpg"))[0]).rgb
    picture[:, 70:182, 100:212] = fit_square(face, 112)
    return picture


def a_face(scale: float = 1.0) -> Face:
    """The landmarks that FFHQ's frame of that face has, whatever a detector would say."""
    flat = torch.tensor([[-14.0, 0], [14, 0], [0, 18], [-11, 31], [11, 31]], dtype=torch.float64)
    return Face((120, 90, 190, 175), 1.0, scale * flat + torch.tensor([156.0, 123.0], dtype=torch.float64))


FRAME = frame_of(a_face().landmarks)


def measured(name: str, x: Tensor) -> tuple[Tensor, Tensor]:
    """The measurement and the picture that is nothing but its lift."""
    y = task(name).measure(x[None], seeds=0)[0].clamp(0, 1)
    return y, ((task(name).lift(y[None] * 2 - 1, SIZE) + 1) / 2)[0].clamp(0, 1)


@pytest.mark.parametrize("name", ["sr4", "blur", "jpeg"])
def test_the_window_measures_like_the_whole_picture(name: str) -> None:
    x = photograph()
    view, window = view_of(task(name), x, FRAME)
    assert window.width < SIZE[1]
    whole = task(name)(x[None] * 2 - 1)[(..., *window.measured)]
    part = view.task(view.background)
    assert part.shape == whole.shape
    inner = (..., slice(4, -4), slice(4, -4)) if name == "sr4" else (..., slice(16, -16), slice(16, -16))
    assert float((part - whole)[inner].abs().max()) < 1e-4


def test_a_task_that_depends_on_the_place_takes_the_whole_picture() -> None:
    _, window = view_of(task("inpaint"), photograph(), FRAME)
    assert window == Window(0, 0, *SIZE, ratio=1)


def test_a_factor_that_has_no_grid_takes_the_whole_picture() -> None:
    _, window = view_of(Downsample(2.5), photograph(), FRAME)
    assert window == Window(0, 0, *SIZE, ratio=1)


@pytest.mark.parametrize("name", ["sr4", "blur"])
def test_the_true_face_gives_the_measurement(name: str) -> None:
    x = photograph() * 2 - 1
    leaning = Frame(FRAME.centre, (FRAME.half[0], 12.0))
    view, window = view_of(task(name), x / 2 + 0.5, leaning)
    u = to_face(SIZE, leaning)(x[None])
    y = task(name)(x[None])[(..., *window.measured)]
    assert float(view.look(view.task.lift(view(u) - y, view.size)).square().mean().sqrt()) < 0.02
    assert float(view.lift(view(u) * 0.5 + y * 0.5).shape[-1]) == 128
    assert view(u).shape[-2:] == view.output_size(128, 128)


def test_the_view_has_derivatives_in_both_directions() -> None:
    view, _ = view_of(task("sr4"), photograph(), FRAME)
    u, v = torch.rand(2, 1, 3, 128, 128, generator=torch.Generator().manual_seed(0)).unbind(0)
    value, tangent = torch.func.jvp(view, (u,), (v,))
    assert torch.allclose(tangent, view(u + v) - view(u), atol=1e-4)  # affine
    _, pull = torch.func.vjp(view, u)
    assert float((pull(value)[0] * v).sum()) == pytest.approx(float((value * tangent).sum()), rel=1e-3)


def test_a_face_of_another_size_is_refused() -> None:
    view, _ = view_of(task("sr4"), photograph(), FRAME)
    with pytest.raises(BadInput, match="128×128"):
        view.lift(torch.zeros(1, 3, *view.output_size(128, 128)), (64, 64))


def test_a_good_face_is_pasted_and_the_rest_of_the_picture_is_untouched() -> None:
    x = photograph()
    y, lifted = measured("sr4", x)
    done = restore_faces(
        y, lifted, task("sr4"), lambda y, view: to_face(SIZE, FRAME)(x[None])[0], faces=[a_face()]
    )
    (report,) = done.faces
    assert report.restored, report.reason
    assert float(psnr(done.image[None], x[None])) > float(psnr(lifted[None], x[None])) + 1
    assert torch.equal(done.image[:, :, :80], lifted[:, :, :80])
    assert torch.equal(lifted, measured("sr4", x)[1])  # the argument is not written into


@pytest.mark.parametrize("name", ["sr4", "jpeg", "blur"])
def test_a_face_that_does_not_explain_the_measurement_is_left_out(name: str) -> None:
    x = photograph()
    y, lifted = measured(name, x)
    other = to_face(SIZE, FRAME)(x[None])[0].flip(-2)  # upside down
    done = restore_faces(y, lifted, task(name), lambda y, view: other, faces=[a_face()])
    assert torch.equal(done.image, lifted)
    assert "measurement" in done.faces[0].reason
    assert done.faces[0].judgement is not None


def test_what_cannot_be_used_is_reported_and_never_restored() -> None:
    x = photograph()
    y, lifted = measured("sr4", x)

    def never(y: Tensor, view: Degradation) -> Tensor:
        raise AssertionError("it was asked")

    done = restore_faces(y, lifted, task("sr4"), never, faces=[a_face(0.2), a_face(2.0)])
    assert torch.equal(done.image, lifted)
    assert [f.reason.split(":")[0] for f in done.faces] == ["too small", "too large"]
    assert restore_faces(y, lifted, task("sr4"), never, faces=[]).faces == ()


def test_a_measurement_of_another_size_is_refused() -> None:
    x = photograph()
    with pytest.raises(BadInput, match="has a measurement of 64×80, got 256×320"):
        restore_faces(x, x, task("sr4"), lambda y, view: y[0], faces=[])
    with pytest.raises(BadInput, match="restored picture"):
        restore_faces(x, x[None], task("sr4"), lambda y, view: y[0], faces=[])


def test_a_model_restores_a_face_through_the_chain() -> None:
    """Few steps of the embedded model: better than the lift it starts from."""
    x = photograph()
    y, lifted = measured("sr4", x)
    restore_face = FaceModel(load_model("faces-128"), PASEO(steps=4, cg_budget=1, weight="ones"))
    view, window = view_of(task("sr4"), lifted, FRAME)
    assert isinstance(view, FaceView)
    face = restore_face(y[(..., *window.measured)][None], view)
    assert face.shape == (3, 128, 128)
    assert 0 <= float(face.min()) <= float(face.max()) <= 1


@pytest.mark.weights
@pytest.mark.skipif(not weights_available(), reason=f"no MTCNN weights. {weights.INSTALL}")
def test_the_face_of_the_photograph_is_found_where_it_is() -> None:
    (face,) = detect(photograph())
    assert frame_of(face.landmarks).centre == pytest.approx((156, 126), abs=4)
    assert frame_of(face.landmarks).size == pytest.approx(112, rel=0.1)


@pytest.mark.weights
@pytest.mark.skipif(not weights_available(), reason=f"no MTCNN weights. {weights.INSTALL}")
def test_a_face_that_the_restoration_lost_is_found_in_the_measurement() -> None:
    y, _ = measured("jpeg", photograph())
    (lost,) = sought(y, torch.full((3, *SIZE), 0.4), task("jpeg"))
    (seen,) = sought(y, photograph(), task("jpeg"))  # both show it: once
    assert frame_of(lost.landmarks).centre == pytest.approx(frame_of(seen.landmarks).centre, abs=5)
