"""Placement without an accelerator: the meta device shows where tensors lie, cpu:0 stands for an index."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import paseo
from paseo.hub.device import pick_device
from paseo.images import read
from paseo.models import ROOT
from paseo.problem import device_of
from paseo.recipe import Request, resolve
from paseo.recipe.load import load_model_of, load_operator_of

FACE = ROOT / "faces-128/samples/2000001.jpg"


def places(*parts: object) -> set[str]:
    modules = [part for part in parts if isinstance(part, nn.Module)]
    return {t.device.type for m in modules for t in (*m.parameters(), *m.buffers())}


def test_every_part_goes_where_the_model_goes() -> None:
    recipe = resolve(Request(task="sr4", options={"device": "meta"}))
    model = load_model_of(recipe)
    operator = load_operator_of(recipe, model).operator
    assert places(model.prior, model.codec, operator) == {"meta"}
    assert device_of(model.codec).type == "meta"
    z = model.codec.encode(torch.zeros(1, 3, 128, 128, device="meta"))
    assert z.device.type == "meta"
    assert model.prior.x0(z, 0.5).device.type == "meta"
    assert isinstance(operator, nn.Module)
    assert operator(z, 0.02).device.type == "meta"


def test_an_index_gives_the_same_result(tmp_path: Path) -> None:
    y = paseo.task("sr4").measure(read(FACE).rgb[None], seeds=0)
    plain = paseo.restore(y, "sr4", steps=3)
    placed = paseo.restore(y, "sr4", steps=3, device="cpu:0")
    assert torch.equal(plain.images, placed.images)
    assert placed.record is not None
    assert placed.record["model"]["options"] == {"device": "cpu:0"}


def test_half_precision_is_the_prior_s_alone() -> None:
    y = paseo.task("sr4").measure(read(FACE).rgb[None], seeds=0)
    model = paseo.load_model(dtype="bf16")
    assert next(model.codec.parameters()).dtype == torch.float32  # ty: ignore[unresolved-attribute]
    half = paseo.restore(y, "sr4", steps=3, dtype="bf16")
    full = paseo.restore(y, "sr4", steps=3)
    assert half.images.dtype == torch.float32
    assert 0 < float((half.images - full.images).abs().mean()) < 0.02


def test_a_device_that_is_not_there_is_said() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is one")
    for wanted in ("cuda", "abacus"):
        with pytest.raises(paseo.BadInput):
            paseo.load_model(device=wanted)
    assert pick_device("auto").type in ("cpu", "mps")
