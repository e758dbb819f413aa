"""`paseo train sketch`: a quick decoder that imitates the codec's own, and the model it is exported with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from paseo.base import sketched
from paseo.codecs.embedded import EmbeddedCodec
from paseo.codecs.identity import IdentityCodec
from paseo.codecs.windows import WindowedCodec
from paseo.errors import BadInput, MissingWeights
from paseo.problem import Padded
from paseo.train.export import load_codec
from paseo.train.prior import PriorTraining, train_prior
from paseo.train.sketch import SketchTraining, train_sketch
from paseo.windows import Cover, Windows

TOY: dict[str, Any] = dict(
    size=32,
    batch_size=4,
    warmup=2,
    log_every=5,
    validate_every=1000,
    quiet=True,
    device="cpu",
    precision="fp32",
)


def settings(out: Path, model: Path | str, data: Path, **changes: Any) -> SketchTraining:
    values = TOY | dict(widths=(8, 8, 8), blocks=(1, 1, 1), steps=60, ema=0.5) | changes
    return SketchTraining(out=out, model=str(model), data=str(data), **values)


@pytest.fixture
def trained(tmp_path: Path, codec_model: Path, photos: Path) -> Path:
    outcome = train_sketch(settings(tmp_path / "run", codec_model, photos))
    untrained = train_sketch(settings(tmp_path / "none", codec_model, photos, steps=1, lr=1e-9))
    assert outcome.validation["psnr"] > untrained.validation["psnr"] + 6  # it has learned to imitate
    return tmp_path / "run" / "model"


def test_it_imitates_the_decoder_and_leaves_the_codec_as_it_is(trained: Path, codec_model: Path) -> None:
    before, after = load_codec(str(codec_model)), load_codec(str(trained))
    assert isinstance(before, EmbeddedCodec)
    assert isinstance(after, EmbeddedCodec)
    assert before.quick is None
    assert after.quick is not None
    z = torch.randn(1, 4, 4, 4)
    torch.testing.assert_close(after.decode(z), before.decode(z), rtol=0, atol=0)
    assert after.hash == before.hash  # operators of the codec stay valid
    assert torch.equal(before.sketch(z), before.decode(z))  # nothing quicker at hand
    assert not torch.equal(after.sketch(z), after.decode(z))
    config = json.loads((trained / "config.json").read_text())
    assert config["sketch"] == {"channels": 4, "widths": [8, 8, 8], "blocks": [1, 1, 1]}
    assert config["training"]["sketch"]["steps"] == 60
    assert config["sha256"].keys() == {"codec.safetensors", "sketch.safetensors"}


def test_every_wrapper_passes_the_sketch_on(trained: Path) -> None:
    codec = load_codec(str(trained))
    assert isinstance(codec, EmbeddedCodec)
    z = torch.randn(1, 4, 24, 24, generator=torch.Generator().manual_seed(0))
    whole = codec.sketch(z)
    assert torch.equal(Padded(codec, (190, 185)).sketch(z), whole[..., :190, :185])
    tiled = WindowedCodec(codec, Cover((24, 24), Windows(side=20, halo=4, blend=1), 4))
    torch.testing.assert_close(tiled.sketch(z), whole, rtol=0, atol=1e-5)
    assert torch.equal(tiled.sketch(z[..., :4, :4]), codec.sketch(z[..., :4, :4]))
    plain = IdentityCodec()
    assert torch.equal(sketched(plain, z[:, :3]), plain.decode(z[:, :3]))


def test_a_prior_that_is_trained_for_the_model_keeps_it(trained: Path, photos: Path, tmp_path: Path) -> None:
    values = TOY | dict(
        out=tmp_path / "prior", data=str(photos), model=str(trained), widths=(32, 32), steps=2
    )
    train_prior(PriorTraining(**values))
    codec = load_codec(str(tmp_path / "prior" / "model"))
    assert isinstance(codec, EmbeddedCodec)
    assert codec.quick is not None


def test_a_damaged_or_foreign_file_is_refused(trained: Path) -> None:
    path = trained / "sketch.safetensors"
    blob = bytearray(path.read_bytes())
    blob[-1] ^= 1
    path.write_bytes(blob)
    with pytest.raises(MissingWeights, match="SHA-256"):
        load_codec(str(trained))


def test_bad_options_are_refused(photos: Path, tmp_path: Path, codec_model: Path) -> None:
    with pytest.raises(BadInput, match="blocks is"):
        settings(tmp_path / "run", codec_model, photos, blocks=(1, 1))
    with pytest.raises(BadInput, match="expected an embedded model or a folder"):
        train_sketch(settings(tmp_path / "run", "nowhere", photos))
    assert not (tmp_path / "run").exists()
