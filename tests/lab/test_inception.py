"""The Inception network for FID and KID: its shape, and files that are not it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from paseo.errors import MissingWeights
from paseo.lab.bench.inception import Inception, load_inception


def test_parameters_and_features() -> None:
    """21,785,568 parameters: Inception v3 (23,834,568 without its side branch) less the classifier of
    2048·1000 + 1000.
    """
    net = Inception().eval()
    assert sum(p.numel() for p in net.parameters()) == 23_834_568 - 2048 * 1000 - 1000
    assert net(torch.rand(1, 3, 40, 56)).shape == (1, 2048)


def test_files_in_both_formats(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    state = {**Inception().state_dict(), "fc.weight": torch.zeros(1008, 2048)}
    torch.save(state, tmp_path / "a.pth")
    save_file(state, tmp_path / "a.safetensors")
    x = torch.rand(1, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    a, b = (load_inception(tmp_path / name)(x) for name in ("a.pth", "a.safetensors"))
    torch.testing.assert_close(a, b, rtol=0, atol=0)


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "broken.pth").write_bytes(b"not tensors")
    torch.save({"Conv2d_1a_3x3.conv.weight": torch.zeros(1)}, tmp_path / "other.pth")
    for name, told in (("none.pth", "no file"), ("broken.pth", "cannot be opened"), ("other.pth", "missing")):
        with pytest.raises(MissingWeights, match=told):
            load_inception(tmp_path / name)
