"""The frame and its inverse, resampling, masks: identities of geometry."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from paseo.errors import BadInput
from paseo.faces.align import SMALLER, Frame, Resample, frame_of, pixel_centres, to_face, to_picture
from paseo.faces.paste import oval, paste, smoothstep, square

LEANING = Frame((100.3, 90.7), (60.0, 17.0))


def landmarks(degrees: float = 0.0, scale: float = 1.0, at: tuple[float, float] = (0.0, 0.0)) -> Tensor:
    """A face from the front: eyes 40 apart, mouth 44 below them."""
    flat = torch.tensor([[-20.0, 0], [20, 0], [0, 25], [-16, 44], [16, 44]], dtype=torch.float64)
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return scale * flat @ torch.tensor([[c, s], [-s, c]], dtype=torch.float64) + torch.tensor(at)


def smooth_picture(height: int, width: int) -> Tensor:
    """(1,3,H,W): waves of a dozen pixels, so that cubic sampling has little to lose."""
    p = pixel_centres((height, width))
    waves = [torch.sin(p[..., 0] / a + p[..., 1] / b) for a, b in ((5, 9), (7, -6), (11, 4))]
    return torch.stack(waves)[None].float() * 0.4 + 0.5


def test_the_inverse_map_is_the_inverse() -> None:
    points = torch.rand(50, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 128
    assert torch.allclose(LEANING.to_face(LEANING.to_picture(points)), points, atol=1e-9)


def test_the_corners_are_a_square_of_the_frames_size() -> None:
    c = LEANING.corners
    sides = [float((c[i] - c[(i + 1) % 4]).norm()) for i in range(4)]
    assert sides == pytest.approx([LEANING.size] * 4)
    assert torch.allclose(c.mean(0), torch.tensor(LEANING.centre, dtype=torch.float64))
    assert float(c[1, 0]) > float(c[0, 0])  # not mirrored: left stays left
    assert float(c[3, 1]) > float(c[0, 1])


def test_the_frame_is_ffhqs() -> None:
    """Their script, by hand: x = e − R m = (84, 0), scaled to max(2·40, 1.8·44) = 80."""
    frame = frame_of(landmarks())
    assert frame.half == pytest.approx((80 * SMALLER, 0))
    assert frame.centre == pytest.approx((0, 4.4), abs=1)


@pytest.mark.parametrize("degrees", [-40.0, 15.0, 90.0])
def test_the_frame_turns_scales_and_moves_with_the_face(degrees: float) -> None:
    plain = frame_of(landmarks())
    frame = frame_of(landmarks(degrees, 1.7, (200.0, 150.0)))
    assert frame.degrees == pytest.approx(degrees)
    assert frame.size == pytest.approx(1.7 * plain.size)
    assert torch.allclose(
        frame.to_face(landmarks(degrees, 1.7, (200.0, 150.0))), plain.to_face(landmarks()), atol=1e-6
    )


def test_bad_landmarks_are_refused() -> None:
    with pytest.raises(BadInput, match="five finite landmarks"):
        frame_of(torch.zeros(4, 2))
    with pytest.raises(BadInput, match="one point"):
        frame_of(torch.ones(5, 2))


def test_an_upright_frame_of_the_models_size_is_a_crop() -> None:
    picture = torch.rand(1, 3, 200, 220, generator=torch.Generator().manual_seed(1))
    frame = Frame((20 + 64, 30 + 64), (64.0, 0.0))
    assert torch.allclose(to_face((200, 220), frame)(picture), picture[..., 30:158, 20:148], atol=1e-6)


@pytest.mark.parametrize("size", [70.0, 128.0, 180.0])
def test_there_and_back_is_the_identity(size: float) -> None:
    picture = smooth_picture(220, 240)
    half = size / 2
    frame = Frame((120.4, 109.3), (half * math.cos(0.3), half * math.sin(0.3)))
    face = to_face((220, 240), frame)(picture)
    back = to_picture((220, 240), frame)(face)
    inside = square((220, 240), frame)[0] == 1

    def error(image: Tensor) -> float:
        return float((image - picture)[..., inside].square().mean().sqrt())

    assert error(back) < error(to_picture((220, 240), frame.moved(0.3, 0.0))(face))  # pixels
    assert error(back) < 0.02


def test_resampling_keeps_constants_and_is_linear() -> None:
    look = to_face((90, 90), Frame((45.0, 45.0), (70.0, 20.0)))
    a, b = torch.rand(2, 1, 3, 90, 90, generator=torch.Generator().manual_seed(2)).unbind(0)
    assert torch.allclose(look(torch.full((1, 3, 90, 90), 0.3)), torch.tensor(0.3), atol=1e-5)
    assert torch.allclose(look(2 * a - b), 2 * look(a) - look(b), atol=1e-5)
    with pytest.raises(BadInput, match="made for images of"):
        look(torch.zeros(1, 3, 80, 80))


def test_a_smaller_copy_is_not_aliased() -> None:
    """A chequerboard at twice the density of the points is grey, not a pattern."""
    board = (pixel_centres((256, 256)).floor().sum(-1) % 2).float().expand(1, 3, -1, -1)
    points = 2 * pixel_centres((128, 128)) + 0.37
    assert float((Resample((256, 256), points, 2.0)(board) - 0.5).abs().max()) < 0.06
    assert float((Resample((256, 256), points, 1.0)(board) - 0.5).abs().max()) > 0.2


def test_derivatives_exist_in_both_directions() -> None:
    look = to_face((40, 40), Frame((20.0, 20.0), (12.0, 4.0), side=16))
    x, v = torch.rand(2, 1, 3, 40, 40, generator=torch.Generator().manual_seed(3)).unbind(0)
    value, tangent = torch.func.jvp(look, (x,), (v,))
    assert torch.allclose(tangent, look(v), atol=1e-5)
    _, pull = torch.func.vjp(look, x)
    (gradient,) = pull(value)
    assert float((gradient * v).sum()) == pytest.approx(float((value * tangent).sum()), rel=1e-4)


@pytest.mark.parametrize("mask", [oval, square])
def test_a_mask_is_between_0_and_1_full_inside_and_empty_outside(mask: object) -> None:
    m = (oval if mask is oval else square)((200, 200), LEANING)[0]
    assert float(m.min()) == 0
    assert float(m.max()) == 1
    u = LEANING.to_face(pixel_centres((200, 200))) / LEANING.side
    outside = ((u < 0) | (u > 1)).any(-1)
    assert m[outside].eq(0).all()
    assert m[90, 100] == 1  # the centre
    jumps = max(float(m.diff(dim=0).abs().max()), float(m.diff(dim=1).abs().max()))
    assert jumps < (0.25 if mask is square else 0.15)  # no edge to be seen


def test_the_masks_area_scales_with_the_face() -> None:
    small, large = (float(oval((400, 400), Frame((200.0, 200.0), (h, 0.0))).sum()) for h in (50.0, 100.0))
    assert large == pytest.approx(4 * small, rel=1e-3)


def test_smoothstep() -> None:
    t = torch.tensor([-1.0, 0.0, 0.25, 0.5, 1.0, 2.0])
    s = smoothstep(t)
    assert s.tolist() == pytest.approx([0, 0, 0.15625, 0.5, 1, 1])
    assert torch.allclose(s[2] + smoothstep(torch.tensor(0.75)), torch.tensor(1.0))  # the two sides sum to 1


def test_pasting_the_same_face_changes_nothing_outside_and_little_inside() -> None:
    picture = smooth_picture(200, 200)
    face = to_face((200, 200), LEANING)(picture)[0]
    pasted = paste(picture[0], face, LEANING)
    outside = oval((200, 200), LEANING)[0] == 0
    assert torch.equal(pasted[:, outside], picture[0][:, outside])
    assert float((pasted - picture[0]).abs().max()) < 0.05
