"""Model folders: found, complete, or named for what is wrong with them, before anything is loaded."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from paseo.errors import BadInput, MissingWeights, Unsupported
from paseo.hub.doctor import diagnose, memory
from paseo.hub.family import family_of
from paseo.hub.folder import (
    check_complete,
    components,
    explain_hub,
    faults,
    file_fault,
    parameter_bytes,
    read_index,
    resolve,
    variant_of,
)

UNET = "unet/diffusion_pytorch_model.safetensors"


@pytest.fixture
def folder(tiny_folder: Callable[[str], Path], tmp_path: Path) -> Path:
    """A copy that may be damaged."""
    return Path(shutil.copytree(tiny_folder("sd"), tmp_path / "model"))


@pytest.mark.parametrize("family", ["sd", "sdxl", "sd3", "sd3-no-t5"])
def test_a_complete_model_has_no_faults(tiny_folder: Callable[[str], Path], family: str) -> None:
    path = tiny_folder(family)
    assert faults(path) == []
    assert resolve(path) == path
    found = family_of({name: kind for name, (_, kind) in components(read_index(path)).items()}, "tiny")
    assert found.name == family.removesuffix("-no-t5")


def test_a_half_downloaded_file(folder: Path) -> None:
    whole = (folder / UNET).stat().st_size
    os.truncate(folder / UNET, whole // 2)
    assert faults(folder) == [f"{UNET} is cut short: {whole // 2:,} of {whole:,} bytes."]
    with pytest.raises(MissingWeights, match=r"cut short.*Download it again"):
        check_complete(folder)
    check_complete(folder, skip=("unet",))


def test_what_else_can_be_wrong_with_a_file(folder: Path) -> None:
    file = folder / UNET
    os.truncate(file, 5)
    assert "damaged" in str(file_fault(file))
    file.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3\n")
    assert "git lfs pull" in str(file_fault(file))
    file.unlink()
    assert faults(folder) == ["unet has no safetensors weights."]
    (folder / "unet" / "diffusion_pytorch_model.bin").write_bytes(b"pickle")
    assert "pickle, which is never opened" in faults(folder)[0]


def test_missing_parts(folder: Path) -> None:
    shutil.rmtree(folder / "text_encoder")
    (folder / "vae" / "config.json").unlink()
    shutil.rmtree(folder / "tokenizer")
    (folder / "tokenizer").mkdir()
    found = faults(folder)
    assert "the folder text_encoder is missing." in found
    assert "vae/config.json is missing." in found
    assert "tokenizer is empty." in found


def test_a_missing_shard(tiny: Callable[[str], object], folder: Path) -> None:
    shutil.rmtree(folder / "unet")
    tiny("sd").unet.save_pretrained(folder / "unet", max_shard_size="200KB")  # type: ignore[attr-defined]
    assert faults(folder) == []
    shards = sorted((folder / "unet").glob("*-of-*.safetensors"))
    assert len(shards) > 1
    shards[1].unlink()
    assert faults(folder) == [f"unet/{shards[1].name} is missing."]


def test_variants_are_found(folder: Path) -> None:
    assert variant_of(folder, "unet") is None
    (folder / UNET).rename(folder / "unet" / "diffusion_pytorch_model.fp16.safetensors")
    assert variant_of(folder, "unet") == "fp16"
    assert faults(folder) == []


def test_memory_is_read_from_the_headers(folder: Path, tiny: Callable[[str], object]) -> None:
    count = sum(p.numel() for p in tiny("sd").unet.parameters())  # type: ignore[attr-defined]
    assert parameter_bytes(folder / "unet") == 4 * count
    assert parameter_bytes(folder / "unet", 2) == 2 * count


def test_wrong_folders(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(MissingWeights, match=r"no model_index\.json.*Its parent is one"):
        read_index(folder / "unet")
    (folder / "model_index.json").write_text("{")
    with pytest.raises(MissingWeights, match="cannot be read"):
        read_index(folder)
    with pytest.raises(MissingWeights, match="There is no folder"):
        resolve(tmp_path / "nothing")
    (tmp_path / "single.safetensors").write_bytes(b"x")
    with pytest.raises(BadInput, match=r"single file.*from_single_file"):
        resolve(tmp_path / "single.safetensors")


def test_other_families_are_refused() -> None:
    with pytest.raises(Unsupported, match=r"FluxTransformer2DModel.*supported are"):
        family_of({"transformer": "FluxTransformer2DModel", "vae": "AutoencoderKL"}, "flux")
    with pytest.raises(Unsupported, match="no denoiser"):
        family_of({"vae": "AutoencoderKL"}, "nothing")


def test_a_hub_id_without_a_network() -> None:
    with pytest.raises(MissingWeights, match=r"cannot be reached.*hf download"):
        resolve("nobody/no-such-model")


def _hub_error(name: str) -> Exception:
    import huggingface_hub.errors as errors

    kind = getattr(errors, name)
    error = kind.__new__(kind)
    error.response = None
    return error


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("GatedRepoError", "accept its licence at https://huggingface.co/a/b"),
        ("RepositoryNotFoundError", "no public model a/b"),
        ("RevisionNotFoundError", "no such revision"),
        ("LocalEntryNotFoundError", "cannot be reached"),
    ],
)
def test_what_the_hub_says_is_explained(name: str, message: str) -> None:
    error = OSError("Cannot load model a/b")
    error.__cause__ = _hub_error(name)  # as diffusers wraps it
    assert message in explain_hub("a/b", error)
    assert "boom" in explain_hub("a/b", RuntimeError("boom"))


def test_the_doctor_finds_a_healthy_model_and_a_sick_one(
    tiny_folder: Callable[[str], Path], folder: Path
) -> None:
    well = diagnose(tiny_folder("sd3"), device="cpu")
    assert not [c for c in well if c.status == "fault"]
    assert {"versions", "device", "memory", "attention", "model", "family", "fits"} <= {c.name for c in well}
    assert "in use: " in next(c.detail for c in well if c.name == "attention")
    os.truncate(folder / UNET, 100_000)
    sick = diagnose(folder, device="cpu")
    assert [c.name for c in sick if c.status == "fault"] == ["files"]
    assert "cut short" in str(sick[-2])
    json.dumps([c.as_json() for c in sick])


def test_the_doctor_never_raises(tmp_path: Path) -> None:
    for model in (tmp_path, tmp_path / "nothing", "nobody/no-such-model"):
        assert any(c.status == "fault" for c in diagnose(model, device="cpu"))
    assert any(c.status == "fault" for c in diagnose(device="cuda:99"))


def test_a_model_that_does_not_fit_is_a_fault(
    monkeypatch: pytest.MonkeyPatch, tiny_folder: Callable[[str], Path]
) -> None:
    free, total = memory(__import__("torch").device("cpu"))
    assert 0 < free <= total
    monkeypatch.setattr("paseo.hub.doctor.memory", lambda device: (10, 10))
    check = next(c for c in diagnose(tiny_folder("sd3"), device="cpu") if c.name == "fits")
    assert check.status == "fault"
    assert "bf16" in check.way_out
