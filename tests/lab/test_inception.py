"""The Inception network for FID and KID: its shape, and files that are not it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from paseo.errors import PaseoError
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
    from safetensors.torch import save_file

    (tmp_path / "broken.pth").write_bytes(b"not tensors")
    torch.save({"Conv2d_1a_3x3.conv.weight": torch.zeros(1)}, tmp_path / "other.pth")
    torch.save([1], tmp_path / "list.pth")
    state = {k: torch.zeros(v.shape, dtype=torch.float16) for k, v in Inception().state_dict().items()}
    name = "Mixed_7c.branch1x1.conv.weight"
    save_file(state, tmp_path / "x-00000000.safetensors")
    save_file({**state, name: torch.full_like(state[name], torch.nan)}, tmp_path / "nan.safetensors")
    save_file({**state, name: torch.zeros(7)}, tmp_path / "shape.safetensors")
    (tmp_path / "cut.safetensors").write_bytes((tmp_path / "nan.safetensors").read_bytes()[:-1])
    for file, told in {
        "none.pth": "no file",
        "broken.pth": "damaged",
        "other.pth": "missing",
        "list.pth": "tensors",
        "x-00000000.safetensors": "SHA-256",
        "nan.safetensors": "NaN",
        "shape.safetensors": "shape",
        "cut.safetensors": "cut short",
    }.items():
        with pytest.raises(PaseoError, match=told):
            load_inception(tmp_path / file)


def test_features_know_their_network(tmp_path: Path) -> None:
    """The plan names the file by its sum: another one in its place is noticed, and features never mix."""
    from safetensors.torch import save_file

    from paseo.lab.bench.cells import whole_features
    from paseo.lab.bench.features import feature_bytes, feature_names, read_features

    x = torch.rand(1, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    for seed, name in enumerate(("a", "b")):
        torch.manual_seed(seed)
        save_file(Inception().state_dict(), tmp_path / f"{name}.safetensors")
    a, b = (feature_names(False, str(tmp_path / f"{name}.safetensors")) for name in ("a", "b"))
    assert a != b
    path = tmp_path / "features.safetensors"
    path.write_bytes(feature_bytes(x, None, b, str(tmp_path / "b.safetensors")))
    assert whole_features(path, b)
    assert not whole_features(path, a)
    assert read_features(path).keys() == {"inception"}
    with pytest.raises(PaseoError, match="Plan again"):
        feature_bytes(x, None, a, str(tmp_path / "b.safetensors"))
