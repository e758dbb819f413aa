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
    recipe = resolve(Request(model="faces-128", task="sr4", options={"device": "meta"}))
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


def test_layout_and_compilation_are_the_prior_s_alone() -> None:
    model = paseo.load_model("faces-128", channels_last=True)
    weights = [p for p in model.prior.parameters() if p.ndim == 4 and min(p.shape[1:3]) > 1]  # ty: ignore[unresolved-attribute]
    assert weights
    assert all(p.is_contiguous(memory_format=torch.channels_last) for p in weights)
    x = torch.randn(1, 16, 16, 16, generator=torch.Generator().manual_seed(0))
    plain = paseo.load_model("faces-128")
    assert torch.allclose(model.prior.x0(x, 0.5), plain.prior.x0(x, 0.5), atol=1e-4)
    assert set(plain.hashes.values()) == set(model.hashes.values())


def test_options_go_from_the_command_line_to_the_record() -> None:
    from paseo.apps.cli.restore import RestoreOptions, requested
    from paseo.apps.wishes import declared

    plain: RestoreOptions = {name: wish.default for name, (_, wish) in declared(RestoreOptions).items()}  # ty: ignore[invalid-assignment, missing-typed-dict-key]
    plain["task"] = "sr4"
    assert resolve(requested(plain)).options == {}
    recipe = resolve(requested({**plain, "channels_last": True, "compile": True, "dtype": "bf16"}))
    assert recipe.options == {"dtype": "bf16", "channels_last": True, "compile": True}


def test_tuning_names_the_fastest_way_and_only_where_it_gains() -> None:
    from dataclasses import replace

    from paseo.apps.tuning import WAYS, advice, tune

    times = [replace(way, seconds=s) for way, s in zip(WAYS, (1.0, 0.97, 0.5, 0.6), strict=True)]
    assert "`paseo restore --dtype bf16` is the fastest: 500 instead of 1000 ms" in advice(times)
    assert "nothing is faster" in advice([replace(way, seconds=1.0) for way in WAYS])
    assert [way.options for way in WAYS] == [
        "plain",
        "--channels-last",
        "--dtype bf16",
        "--dtype bf16 --channels-last",
    ]
    assert all(0 <= way.seconds < 100 for way in tune("faces-128", "meta", rounds=1))  # every device is tried
