"""Cost of every method per step: the paper's order of memory, which is the order of the graphs they keep."""

from __future__ import annotations

import gc
import json
from pathlib import Path

import pytest
import torch
from torch import nn

from paseo.codecs.embedded import EmbeddedCodec
from paseo.codecs.net import AutoencoderNet
from paseo.lab.cost.methods import KeptForBackward, MethodCosts, measure_methods
from paseo.lab.cost.rigs import SAFE_SETTINGS
from paseo.operators.net import OperatorNet
from paseo.priors.embedded import EmbeddedPrior
from paseo.priors.net import FlowUNet
from paseo.samplers import METHODS


@pytest.fixture(scope="module")
def costs() -> MethodCosts:
    """The embedded model's architecture at a quarter of its widths, 64×64 images."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        codec = EmbeddedCodec(AutoencoderNet(8, (8, 16, 32)))
        prior = EmbeddedPrior(FlowUNet(8, (32, 32), blocks=1))
        operator = OperatorNet(8).eval().requires_grad_(False)
    return measure_methods(prior, codec, operator, side=64, steps=2, settings=SAFE_SETTINGS)


def test_memory_is_ordered_as_in_the_paper(costs: MethodCosts) -> None:
    peak = {row.method: row.peak_bytes for row in costs.rows}
    graph = {row.method: row.graph_bytes for row in costs.rows}
    assert all(graph[n] == 0 for n in ("ding", "dds", "diffpir", "ddnm"))
    assert graph["ldps"] == pytest.approx(graph["resample"], rel=1e-3)
    assert graph["ldps"] < graph["gml-dps"]
    assert graph["psld"] == pytest.approx(graph["gml-dps"], rel=0.02)  # the encoder's graph on top
    decoder_only = {graph[n] for n in ("daps", "red-diff", "pnp-flow")}
    assert max(decoder_only) < graph["ldps"]  # which also keeps the denoiser's
    assert peak["ding"] <= 1.1 * min(peak.values())
    assert all(peak["paseo"] < peak[n] for n in ("silo", "ldps", "resample", "psld", "gml-dps"))


def test_rows_say_what_was_run(costs: MethodCosts) -> None:
    assert [row.method for row in costs.rows] == list(METHODS)
    assert all(row.seconds > 0 and row.nfe >= row.steps >= 1 for row in costs.rows)
    json.dumps(costs.as_json())
    assert all(name in costs.text() for name in METHODS)


def test_kept_bytes_are_those_of_the_saved_tensors() -> None:
    """A linear layer saves its input (and its weight, which is left out); exp saves its result; both go with
    the graph.
    """
    layer = nn.Linear(100, 50, bias=False).requires_grad_(False)
    x = torch.randn(10, 100, requires_grad=True)
    with KeptForBackward([layer]) as kept:
        y = layer(x).exp()
        assert kept.now == kept.peak == 4 * 10 * 50
        y.sum().backward()
        del y
        gc.collect()
        assert kept.now == 0


def test_command_compares_methods(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from paseo.apps.cli.main import app

    file = tmp_path / "cost.json"
    arguments = [
        "bench",
        "cost",
        "--arch",
        "embedded",
        "--methods",
        "paseo, ldps",
        "--steps",
        "1",
        "--side",
        "32",
        "--json",
        str(file),
    ]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    rows = {row["method"]: row for row in json.loads(file.read_text())["rows"]}
    assert rows["paseo"]["graph_bytes"] == 0 < rows["ldps"]["graph_bytes"]
    assert CliRunner().invoke(app, [*arguments[:5], "nothing", *arguments[6:]]).exit_code != 0
