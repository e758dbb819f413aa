"""A family's operator: what is drawn, what it learns at toy size, and what its config says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from paseo.codecs.embedded import EmbeddedCodec
from paseo.degrade import CentreBox, condition_of, task
from paseo.degrade.family import PARAMETERS, numbers_of, parts_of
from paseo.degrade.mask import Masking
from paseo.errors import BadInput
from paseo.linalg import linearize
from paseo.operators.store import load_operator
from paseo.train.draws import KINDS, PAPER_MASKS, PROBES, RANGES, Dice, FamilyDraw, family_of, random_mask
from paseo.train.loop import session
from paseo.train.operator import OperatorTraining, train_operator
from paseo.train.pictures import load_pictures
from paseo.train.samples import FreshSamples, StoredPictures, StoredSamples, measured


def settings(out: Path, **changes: Any) -> OperatorTraining:
    values: dict[str, Any] = dict(
        out=out,
        steps=30,
        lr=3e-3,
        task="family",
        size=32,
        batch_size=8,
        warmup=2,
        log_every=10,
        validate_every=1000,
        device="cpu",
        precision="fp32",
        quiet=True,
    )
    return OperatorTraining(**(values | changes))


def test_what_is_drawn_lies_in_the_ranges_and_differs() -> None:
    draw, rng = FamilyDraw(tuple(KINDS)), torch.Generator().manual_seed(0)
    seen: dict[str, set[float]] = {name: set() for name in PARAMETERS}
    masks = boxes = 0
    for _ in range(400):
        degradation = draw(rng, 32)
        masks, boxes = masks + isinstance(degradation, Masking), boxes + isinstance(degradation, CentreBox)
        for name, value in numbers_of(parts_of(degradation)).items():
            low, high = RANGES[name]
            assert low <= value <= high
            seen[name].add(round(value, 3))
        assert 0 <= draw.noise(rng) <= 0.2
    assert all(len(values) > (1 if name in ("jpeg", "motion") else 2) for name, values in seen.items())
    share = KINDS["mask"][0] / sum(weight for weight, _ in KINDS.values())
    assert abs(masks / 400 - share) < 5 * (share * (1 - share) / 400) ** 0.5
    assert abs(boxes / masks - PAPER_MASKS) < 5 * (PAPER_MASKS * (1 - PAPER_MASKS) / masks) ** 0.5


def test_the_probes_are_tasks_of_the_family() -> None:
    for name in FamilyDraw(tuple(KINDS)).probes:
        condition_of(task(name), 8, (64, 64))
    assert set(PROBES) == set(KINDS)


def test_masks_hide_something_and_show_something() -> None:
    dice = Dice(torch.Generator().manual_seed(0))
    shares = [random_mask(dice, 64).mean() for _ in range(60)]
    assert all(0.1 < share < 1 for share in shares)
    assert min(shares) < 0.6
    assert max(shares) > 0.95


def test_some_kinds_by_name() -> None:
    assert family_of("jpeg") is None
    assert family_of("family") == FamilyDraw(tuple(KINDS))
    assert family_of("family:jpeg+sr") == FamilyDraw(("jpeg", "sr"))
    with pytest.raises(BadInput, match="no kind 'fog'"):
        family_of("family:fog")


def _held_out(photos: Path) -> torch.Tensor:
    return load_pictures(photos, size=32, crops=(), rule="auto", cache=photos.parent / "cache").held_out(24)


@pytest.mark.parametrize("local", [False, True])
def test_a_family_is_learnt_exported_and_bound(
    photos: Path, tmp_path: Path, codec: EmbeddedCodec, local: bool
) -> None:
    chosen = dict(task="family:blur+mask", local=local, crops=(32,) if local else ())
    outcome = train_operator(settings(tmp_path / "run", data=photos, steps=60, **chosen), codec)
    blurred = task("blur:3").lift(task("blur:3")(x := _held_out(photos)))
    nothing = (codec.encode(x) - codec.encode(blurred)).square().mean().sqrt().item()
    assert outcome.validation["blur:3"] < 0.9 * nothing
    net = load_operator(tmp_path / "run" / "operator", codec_hash=codec.hash)
    family = net.spec.family
    assert family is not None
    assert (family.parameters, family.local, net.spec.degradation) == (PARAMETERS, local, "family")
    assert net.spec.degradation_params == {"kinds": ["blur", "mask"]}
    assert [error.task for error in family.errors] == [*PROBES["blur"], *PROBES["mask"]]
    assert net.spec.unit_noise_range == (0.0, 0.1)
    H = net.bind(0.01, condition_of(task("blur:2"), 8, (32, 32)))
    assert H.residual is not None
    assert H.residual.shape == (4, 1, 1)
    z = torch.randn(2, 4, 4, 4)
    h, J, JT = linearize(H, z)
    torch.testing.assert_close(h, H(z))
    assert (J(z) * z).sum().item() == pytest.approx((JT(z) * z).sum().item(), rel=1e-3)


def test_how_far_it_reaches_is_exported(photos: Path, tmp_path: Path, codec: EmbeddedCodec) -> None:
    chosen = dict(data=photos, task="family:mask", steps=4)
    far, near = (train_operator(settings(tmp_path / str(n), reach=n, **chosen), codec) for n in (2, 0))
    assert far.validation["inpaint"] != near.validation["inpaint"]
    family = load_operator(tmp_path / "2" / "operator").spec.family
    assert family is not None
    assert family.reach == 2


@pytest.mark.slow
def test_it_takes_over_a_dedicated_operator(photos: Path, tmp_path: Path, codec: EmbeddedCodec) -> None:
    train_operator(settings(tmp_path / "a", data=photos, task="blur", steps=40), codec)
    start = tmp_path / "a" / "operator"
    cold = train_operator(settings(tmp_path / "b", data=photos, task="family:blur", steps=1), codec)
    warm = train_operator(
        settings(tmp_path / "c", data=photos, task="family:blur", steps=1, start=start), codec
    )
    assert warm.validation["blur:3"] < cold.validation["blur:3"]


def test_options_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    for changes, words in (
        (dict(task="sr4", crops=(32,)), "crops belongs to a family"),
        (dict(task="sr4", local=True), "local belongs to a family"),
        (dict(jacobian=0.1), "jacobian is for one degradation"),
        (dict(task="sr4", reach=1), "reach belongs to a family"),
        (dict(reach=9), "reach=9, expected 0 to 8"),
        (dict(crops=(33,)), "multiples of 8"),
        (dict(task="family:fog"), "no kind"),
    ):
        with pytest.raises(BadInput, match=words):
            settings(tmp_path, data=tmp_path, **changes)


@pytest.mark.parametrize("crops", [(), (32, 48)])
def test_measurements_of_a_family_can_be_encoded_beforehand(
    photos: Path, tmp_path: Path, codec: EmbeddedCodec, crops: tuple[int, ...]
) -> None:
    """A stored row is what its seed says: the picture, its degradation and noise, both encoded."""
    pictures = load_pictures(photos, size=32, crops=crops, rule="auto", cache=tmp_path / "cache")
    fresh = FreshSamples(codec, pictures, FamilyDraw(("blur", "sr", "mask")), torch.device("cpu"), False)
    config = settings(tmp_path / "run", data=photos, crops=crops, measurements=2, examples=5)
    with session(config) as accelerator:
        stored = StoredSamples(fresh, 5, 2, 0, tmp_path / "cache", accelerator)
        again = StoredSamples(fresh, 5, 2, 0, tmp_path / "cache", accelerator)
    files = sorted((tmp_path / "cache").glob("latents-*"))
    assert len(files) == len(pictures.sides)
    first, second = (it(torch.arange(7), torch.Generator().manual_seed(3)) for it in (stored, again))
    assert torch.equal(first.target, second.target)
    assert len(first.degradations) == 7
    side = first.side
    x = StoredPictures(pictures, side, 5, 0).batch(range(5))
    assert torch.allclose(first.z[:5], codec.encode(x), atol=2e-3)  # stored in float16
    a, s, rng = stored._made(side, 1, 0)
    y = codec.encode(measured(a, x[1:2], torch.tensor([s]), rng))
    kept = stored.rows[side](np.array([1]), np.array([1]))
    assert torch.allclose(kept, y, atol=5e-3)
    assert torch.equal(first.z[0], first.z[5])  # more samples than examples: they come again


def test_a_family_learns_from_stored_measurements(photos: Path, tmp_path: Path, codec: EmbeddedCodec) -> None:
    options: dict[str, Any] = dict(task="family:blur", measurements=3, steps=60, data=photos)
    train_operator(settings(tmp_path / "run", **options), codec)
    lines = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in lines if "loss" in line]
    assert losses[-1] < 0.9 * losses[0]
    with pytest.raises(BadInput, match="give --measurements or"):
        settings(tmp_path, data=photos, examples=4)


def test_a_student_of_a_family_comes_closer_to_its_teacher(
    photos: Path, tmp_path: Path, codec: EmbeddedCodec
) -> None:
    """With fresh degradations of stored pictures; what it learns is the teacher, not a measurement."""
    kinds = dict(task="family:blur+mask", data=photos)
    train_operator(settings(tmp_path / "teacher", steps=20, **kinds), codec)
    teacher = tmp_path / "teacher" / "operator"
    lean: dict[str, Any] = dict(teacher=teacher, widths=(16, 24, 32), pooled=True, examples=8, **kinds)
    train_operator(settings(tmp_path / "student", steps=150, **lean), codec)
    lines = [json.loads(line) for line in (tmp_path / "student" / "log.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in lines if "loss" in line]
    assert losses[-1] < 0.7 * losses[0]
    net = load_operator(tmp_path / "student" / "operator")
    assert net.spec.pooled
    assert net.spec.widths == (16, 24, 32)
    assert net.spec.family is not None
    with pytest.raises(BadInput, match="of a family"):
        train_operator(settings(tmp_path / "no", task="sr4", data=photos, teacher=teacher), codec)
    with pytest.raises(BadInput, match="--no-local"):
        train_operator(settings(tmp_path / "no", local=True, teacher=teacher, **kinds), codec)
    with pytest.raises(BadInput, match="teacher alone"):
        settings(tmp_path, teacher=teacher, measurements=2, **kinds)
    with pytest.raises(BadInput, match="teacher alone"):
        settings(tmp_path, teacher=teacher, specialists="box", **kinds)


def test_a_family_answers_as_its_specialists_do(photos: Path, tmp_path: Path, codec: EmbeddedCodec) -> None:
    """The measurements are JPEGs alone: what it knows of the centre box it has from the specialist."""
    train_operator(settings(tmp_path / "box", task="inpaint", data=photos, steps=20), codec)
    folder = tmp_path / "box" / "operator"
    specialist, z = load_operator(folder).bind(0.01), codec.encode(_held_out(photos)).detach()
    told = condition_of(CentreBox(), 8, (32, 32))
    distance = {}
    for name, given in (("alone", None), ("taught", str(folder))):
        options = settings(tmp_path / name, task="family:jpeg", data=photos, steps=150, specialists=given)
        train_operator(options, codec)
        net = load_operator(tmp_path / name / "operator")
        distance[name] = float((net.bind(0.01, told)(z) - specialist(z)).detach().abs().mean())
    assert distance["taught"] < 0.6 * distance["alone"]
    config = json.loads((tmp_path / "taught" / "operator" / "config.json").read_text())
    assert config["training"]["settings"]["specialists"] == "operator"  # a name, no path of this machine
    with pytest.raises(BadInput, match="belongs to a family"):
        settings(tmp_path, task="sr4", data=photos, specialists=str(folder))
    family = str(tmp_path / "alone" / "operator")
    with pytest.raises(BadInput, match="of a family"):
        train_operator(settings(tmp_path / "no", data=photos, specialists=family), codec)
