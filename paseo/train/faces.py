"""Makes the synthetic faces the embedded model was trained on: no real person is in them.

    z = default_rng(seed).standard_normal((1, 512)),  w = mapping(z),  w ← m + 0.8 (w − m),  x = synthesis(w)

The generator is the one inside the PyPI package `random-face` 2021.7.21.1 (Apache-2.0): MobileStyleGAN
(Belousov, 2021), distilled from a StyleGAN2 that was trained on FFHQ. The package is located and never
imported: its Python code needs an old OpenVINO, its two models load in a new one. m is the mean of w over
seeds 1,000,000 to 1,000,999. The image of 1024×1024 is brought to size by Lanczos and stored as JPEG (quality
92, 4:4:4) under its seed, in five digits.

    pip install --no-deps random-face==2021.7.21.1 && pip install openvino
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from paseo.errors import BadInput, MissingWeights
from paseo.files import atomic

TRUNCATION = 0.8
MEAN_SEEDS = range(1_000_000, 1_001_000)
LATENT = 512
QUALITY = 92
_INSTALL = "Run: pip install --no-deps random-face==2021.7.21.1 && pip install openvino"
_FILES = {
    "MappingNetwork.bin": "212dd716bdb556e18db603ea97300d4fa3c872b878c726b2402fea80820e7305",
    "MappingNetwork.xml": "73e2096cad6e696e4af47df2477e048ab4c42c0e0dec83c7c66604822689e55b",
    "SynthesisNetwork.bin": "c7da15fa22d508c82e1c30dd6b4cdf67fe3ccdddaf85b310ee764dbf0c289645",
    "SynthesisNetwork.xml": "7918fce515243954d3e06628cb39a23902d6b1d5d02932cc0c2faee7a2aeeedd",
}

Network = Callable[[np.ndarray], np.ndarray]


class FaceGenerator:
    """seed ↦ face, (1024, 1024, 3) uint8."""

    def __init__(self, mapping: Network, synthesis: Network) -> None:
        self.mapping, self.synthesis = mapping, synthesis
        self.mean = np.mean([mapping(_normal(seed)) for seed in MEAN_SEEDS], axis=0)

    def __call__(self, seed: int) -> np.ndarray:
        w = self.mean + TRUNCATION * (self.mapping(_normal(seed)) - self.mean)
        x = self.synthesis(w.astype(np.float32))[0]  # (3, 1024, 1024) in [-1,1]
        return ((x.transpose(1, 2, 0).clip(-1, 1) + 1) * 127.5).astype(
            np.uint8
        )  # cut off, as the published set was


def _normal(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((1, LATENT)).astype(np.float32)


def load_generator() -> FaceGenerator:
    """The generator of the installed package, after a check of its files."""
    folder = _package_data()
    for name, digest in _FILES.items():
        if (
            not (folder / name).is_file()
            or hashlib.sha256((folder / name).read_bytes()).hexdigest() != digest
        ):
            raise MissingWeights(
                f"{folder / name} is missing or not that of random-face 2021.7.21.1. {_INSTALL}"
            )
    try:
        from openvino import Core  # an extra that only this needs
    except ImportError as error:
        raise MissingWeights(
            f"The faces are made with OpenVINO, which is not installed. {_INSTALL}"
        ) from error
    core = Core()
    return FaceGenerator(
        *(_network(core, folder / f"{name}.xml") for name in ("MappingNetwork", "SynthesisNetwork"))
    )


def _package_data() -> Path:
    spec = importlib.util.find_spec("random_face")
    if spec is None or not spec.submodule_search_locations:
        raise MissingWeights(f"The generator of the faces is not installed. {_INSTALL}")
    return Path(next(iter(spec.submodule_search_locations))) / "data"


def _network(core: Any, path: Path) -> Network:
    compiled = core.compile_model(
        str(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32"}
    )  # else bfloat16 where the CPU has it
    return lambda value: compiled(value)[compiled.output(0)]


def encode_face(pixels: np.ndarray, size: int) -> bytes:
    """The JPEG file of a face at `size` pixels."""
    from PIL import Image

    image = Image.fromarray(pixels)
    if size != image.width:
        image = image.resize((size, size), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=QUALITY, subsampling=0)
    return buffer.getvalue()


def make_faces(out: Path, seeds: Iterable[int], size: int = 128) -> int:
    """Write out/<seed>.jpg for every seed that is not there yet; returns how many were made."""
    from tqdm import tqdm

    if not 8 <= size <= 1024:
        raise BadInput(f"The size is {size}, expected 8 to 1024 pixels: faces are made at 1024.")
    targets = {seed: Path(out) / f"{seed:05d}.jpg" for seed in seeds}
    missing = {seed: path for seed, path in targets.items() if not path.is_file()}
    if not missing:
        return 0
    generator = load_generator()
    for seed, path in tqdm(missing.items(), desc="faces", unit="face"):
        with atomic(path) as file:
            file.write(encode_face(generator(seed), size))
    return len(missing)
