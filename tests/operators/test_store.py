"""Operators on disk: what is saved is loaded, and what is not an operator is refused with a reason."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from paseo.errors import BadInput, MissingWeights
from paseo.operators.config import OperatorConfig
from paseo.operators.net import OperatorNet
from paseo.operators.store import CONFIG, SUMS, WEIGHTS, check_latent_space, load_operator, save_operator

ABOUT = OperatorConfig(
    channels=4,
    latent_space="toy",
    vae_hash="ab" * 32,
    degradation="sr4",
    degradation_params={"factor": 4},
    noise_range=(0.0, 0.04),
    noise_unit="signed",
    training={"steps": 10},
)


@pytest.fixture
def net() -> OperatorNet:
    torch.manual_seed(0)
    return OperatorNet(ABOUT)


def test_round_trip(net: OperatorNet, tmp_path: Path) -> None:
    digest = save_operator(net, tmp_path / "a" / "b")
    again = load_operator(tmp_path / "a" / "b")
    assert again.spec == ABOUT
    assert all(torch.equal(v, net.state_dict()[k]) for k, v in again.state_dict().items())
    assert not again.training
    assert not any(p.requires_grad for p in again.parameters())
    weights = tmp_path / "a" / "b" / WEIGHTS
    assert hashlib.sha256(weights.read_bytes()).hexdigest() == digest
    assert (weights.parent / SUMS).read_text() == f"{digest}  {WEIGHTS}\n"
    assert sorted(p.name for p in weights.parent.iterdir()) == sorted([CONFIG, WEIGHTS, SUMS])
    assert torch.equal(load_operator(weights).stem.weight, net.stem.weight)  # the file names its folder


def test_a_lean_network_is_stored_as_what_it_is(tmp_path: Path) -> None:
    lean = replace(ABOUT, widths=(16, 24, 32), pooled=True)
    save_operator(OperatorNet(lean), tmp_path / "lean")
    assert load_operator(tmp_path / "lean").spec == lean
    assert "pooled" not in ABOUT.to_dict()  # the config of the paper's network stays what it was
    with pytest.raises(BadInput, match="pooled"):
        replace(ABOUT, pooled=2)


def test_half_precision_is_read_as_float32(net: OperatorNet, tmp_path: Path) -> None:
    save_operator(net, tmp_path, half=True)
    again = load_operator(tmp_path)
    assert (tmp_path / WEIGHTS).stat().st_size < 2.5e6
    for name, value in again.state_dict().items():
        assert value.dtype == torch.float32
        torch.testing.assert_close(value, net.state_dict()[name], rtol=2**-11, atol=2**-25)


def test_the_other_file_name_is_read(net: OperatorNet, tmp_path: Path) -> None:
    save_operator(net, tmp_path)
    (tmp_path / WEIGHTS).rename(tmp_path / "model.safetensors")
    assert torch.equal(load_operator(tmp_path).stem.weight, net.stem.weight)


def test_the_same_weights_give_the_same_bytes(net: OperatorNet, tmp_path: Path) -> None:
    save_operator(net, tmp_path / "a")
    save_operator(net.to(memory_format=torch.channels_last), tmp_path / "b")  # ty: ignore[no-matching-overload]
    assert (tmp_path / "a" / WEIGHTS).read_bytes() == (tmp_path / "b" / WEIGHTS).read_bytes()


def test_a_refused_save_leaves_the_old_one(net: OperatorNet, tmp_path: Path) -> None:
    save_operator(net, tmp_path)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    with torch.no_grad():
        net.skip_scale.fill_(torch.nan)
    with pytest.raises(BadInput, match="skip_scale"):
        save_operator(net, tmp_path)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def edit_config(folder: Path, **values: object) -> None:
    path = folder / CONFIG
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def edit_weights(folder: Path, edit: Callable[[dict[str, torch.Tensor]], object]) -> None:
    state = load_file(folder / WEIGHTS)
    edit(state)
    save_file(state, folder / WEIGHTS)
    (folder / SUMS).unlink()


def flip_a_bit(folder: Path) -> None:
    data = bytearray((folder / WEIGHTS).read_bytes())
    data[-1] ^= 1
    (folder / WEIGHTS).write_bytes(data)


def cut(folder: Path) -> None:
    (folder / SUMS).unlink()
    (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:-1000])


def leave_a_pickle(folder: Path) -> None:
    (folder / WEIGHTS).rename(folder / "operator.pt")


DAMAGE: list[tuple[Callable[[Path], object], type[Exception], str]] = [
    (lambda f: (f / CONFIG).unlink(), MissingWeights, "no config.json"),
    (lambda f: (f / WEIGHTS).unlink(), MissingWeights, "has no diffusion_pytorch_model"),
    (leave_a_pickle, MissingWeights, "operator.pt is a pickle"),
    (cut, MissingWeights, "cut short"),
    (flip_a_bit, MissingWeights, "SHA-256"),
    (lambda f: edit_weights(f, lambda s: s.pop("head.bias")), MissingWeights, "head.bias"),
    (lambda f: edit_weights(f, lambda s: s.update(extra=torch.zeros(1))), BadInput, "extra"),
    (lambda f: edit_weights(f, lambda s: s["head.bias"].fill_(torch.inf)), BadInput, "infinite"),
    (lambda f: edit_config(f, channels=16), BadInput, "channels=16"),
    (lambda f: edit_config(f, depth=3), BadInput, "depth"),
    (lambda f: edit_config(f, _class_name="AutoencoderKL"), BadInput, "AutoencoderKL"),
    (lambda f: (f / CONFIG).write_text("{"), BadInput, "not JSON"),
    (lambda f: (f / CONFIG).write_text("[1]"), BadInput, "JSON object"),
]


@pytest.mark.parametrize(("damage", "error", "match"), DAMAGE, ids=[d[2] for d in DAMAGE])
def test_a_damaged_folder_is_refused(
    net: OperatorNet, tmp_path: Path, damage: Callable[[Path], object], error: type[Exception], match: str
) -> None:
    save_operator(net, tmp_path)
    damage(tmp_path)
    with pytest.raises(error, match=match):
        load_operator(tmp_path)


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingWeights, match="no folder"):
        load_operator(tmp_path / "nowhere")


def test_a_repository_that_cannot_be_had_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(MissingWeights, match="Hugging Face hub"):
        load_operator("nobody/no-such-operator")


def test_another_autoencoder_is_refused_unless_forced(net: OperatorNet, tmp_path: Path) -> None:
    save_operator(net, tmp_path)
    load_operator(tmp_path, codec_hash="AB" * 32)
    with pytest.raises(BadInput, match="latent space toy"):
        load_operator(tmp_path, codec_hash="cd" * 32)
    with pytest.warns(UserWarning, match="different images"):
        load_operator(tmp_path, codec_hash="cd" * 32, force=True)


@pytest.mark.parametrize(("ours", "theirs"), [("", "cd" * 32), ("ab" * 32, "")])
def test_an_unknown_autoencoder_cannot_be_checked(ours: str, theirs: str) -> None:
    check_latent_space(OperatorConfig(4, vae_hash=ours), theirs)


def test_the_diffusers_face_reads_and_writes_the_same_files(net: OperatorNet, tmp_path: Path) -> None:
    from paseo.hub.operator import OperatorModel

    save_operator(net, tmp_path / "ours", half=True)
    plain = load_operator(tmp_path / "ours")
    model = OperatorModel.from_pretrained(tmp_path / "ours")
    z = torch.randn(1, 4, 8, 8)
    assert model.spec == ABOUT
    assert model.config["degradation_params"] == {"factor": 4}
    assert torch.equal(model.bind(0.01)(z), plain.bind(0.01)(z))
    model.save_pretrained(tmp_path / "theirs")
    assert (tmp_path / "theirs" / WEIGHTS).is_file()
    again = load_operator(tmp_path / "theirs")
    assert again.spec == ABOUT
    assert torch.equal(again.bind(0.01)(z), plain.bind(0.01)(z))
    (tmp_path / "ours" / WEIGHTS).rename(tmp_path / "ours" / "model.safetensors")
    assert torch.equal(OperatorModel.from_pretrained(tmp_path / "ours").bind(0.01)(z), plain.bind(0.01)(z))
