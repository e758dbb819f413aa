"""`paseo bench cost` on tiny networks: what is counted and timed, and how a whole run follows from a few
steps.
"""

from __future__ import annotations

import json

import pytest
import torch

from paseo.errors import BadInput
from paseo.lab.cost.cost import TASKS, CostReport, measure_cost
from paseo.lab.cost.networks import build_rig


@pytest.fixture(scope="module")
def report() -> CostReport:
    return measure_cost(
        "tiny-sd35", tasks=("sr4", "inpaint"), steps=4, device="cpu", dtype="fp32", clock="cpu"
    )


def test_rows(report: CostReport) -> None:
    assert [row.task for row in report.rows] == ["sr4", "inpaint"]
    first, second = report.rows
    assert (first.guidance, first.inner_steps, first.cg_budget, first.points) == (4.0, 2, 2, 28)
    assert (second.guidance, second.inner_steps, second.cg_budget) == (1.0, 1, 5)
    for row in report.rows:
        assert row.nfe == 5
        assert row.ratio > 1
        assert row.short_ratio > 1
        assert min(row.denoiser, row.encode, row.decode, row.correction) > 0
        base = 53 * row.denoiser + row.encode + row.decode
        assert row.whole == pytest.approx(base + 26 * row.inner_steps * row.correction)
        assert row.ratio == pytest.approx(row.whole / base)
        assert row.peak_bytes > 0
        assert row.memory_ratio > 0.5
        assert set(row.part_peak_bytes) == {"encode", "denoiser", "correction", "decode"}
        assert min(row.part_peak_bytes.values()) > 0


def test_the_report_says_where_it_was_measured(report: CostReport) -> None:
    entry = json.loads(json.dumps(report.as_json()))
    assert (entry["arch"], entry["side"], entry["dtype"], entry["device"]) == (
        "tiny-sd35",
        64,
        "float32",
        "cpu",
    )
    assert entry["parameters"]["operator"] == 1_196_322
    assert entry["rows"][0]["memory_ratio"] > 0
    text = report.text()
    assert "time ratio" in text
    assert len(text.splitlines()) == 3 + len(report.rows)


def test_full_size_configs_have_the_published_parameter_counts() -> None:
    """Built without storage, so this costs nothing; 860M and 2.24G are SD1.5's U-Net and SD3.5-medium's
    transformer.
    """
    from paseo.lab.cost.networks import _transformer, _unet, _vae

    with torch.device("meta"):
        counts = [
            sum(p.numel() for p in build().parameters())
            for build in (_unet(False), _transformer(False), _vae(False, False), _vae(False, True))
        ]
    assert counts[0] == 859_520_964
    assert counts[1] == 2_243_171_520
    assert counts[2] == 83_653_863
    assert counts[3] == pytest.approx(83.8e6, rel=0.01)


def test_random_weights_are_sane() -> None:
    rig = build_rig("tiny-sd15", dtype=torch.float32, device=torch.device("cpu"))
    assert not any(p.is_meta for p in [*rig.network.parameters(), *rig.codec.parameters()])
    x = torch.randn(1, *rig.latent, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        z = rig.prior(4.0).x0(x, 500.0)
        image = rig.codec.decode(x)
    assert torch.isfinite(z).all()
    assert 0 < float(image.std()) < 100


def test_refusals() -> None:
    with pytest.raises(BadInput, match="arch"):
        measure_cost("sd99", device="cpu")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="at least 3"):
        measure_cost("tiny-sd15", steps=2, device="cpu")
    with pytest.raises(BadInput, match="no FFHQ settings for sr2"):
        measure_cost("tiny-sd15", tasks=("sr2",), device="cpu")
    with pytest.raises(BadInput, match="clock"):
        measure_cost("tiny-sd15", clock="sun", device="cpu")
    with pytest.raises(BadInput, match="multiple of 16"):
        measure_cost("tiny-sd15", side=100, device="cpu")
    assert set(TASKS) == {"sr4", "sr8", "blur", "inpaint", "jpeg"}
