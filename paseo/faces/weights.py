"""The weights of MTCNN, from the wheel of facenet-pytorch 2.5.3 or 2.6.0 (MIT), which is located and never
imported.

The package asks for torchvision (2.6.0 also for old versions of torch and numpy), which is not needed here:
it can be installed without its dependencies. Its three files hold tensors only; each is read with
`weights_only=True`, and only after its SHA-256 was found to be the published one.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, TypeVar

import torch
from torch import nn

from paseo.errors import MissingWeights
from paseo.faces.nets import ONet, PNet, RNet

Net = TypeVar("Net", bound=nn.Module)
INSTALL = "Run: pip install --no-deps facenet-pytorch==2.5.3"
_FILES = {
    "pnet.pt": "a2a71925e0b9996a42f63e47efc1ca19043e69558b5c523b978d611dfae49c8f",
    "rnet.pt": "bbb937de72efc9ef83b186c49f5f558467a1d7e3453a8ece0d71a886633f6a86",
    "onet.pt": "165bfbe42940416ccfb977545cf0e976d5bf321f67083ae2aaaa5c764280118d",
}


class Cascade(NamedTuple):
    """The three networks, from coarse to fine."""

    propose: PNet
    refine: RNet
    output: ONet


def weights_available() -> bool:
    """Whether `load_cascade` would find its files (their hashes are checked on loading)."""
    folder = _package_data()
    return folder is not None and all((folder / name).is_file() for name in _FILES)


@lru_cache(maxsize=1)
def load_cascade() -> Cascade:
    """The published networks, in eval mode, once per process."""
    folder = _package_data()
    if folder is None:
        raise MissingWeights(f"The networks that find faces are not installed. {INSTALL}")
    with torch.inference_mode(False):
        return Cascade(
            _filled(PNet(), folder / "pnet.pt"),
            _filled(RNet(), folder / "rnet.pt"),
            _filled(ONet(), folder / "onet.pt"),
        )


def _filled(net: Net, path: Path) -> Net:
    blob = path.read_bytes() if path.is_file() else b""
    if hashlib.sha256(blob).hexdigest() != _FILES[path.name]:
        raise MissingWeights(
            f"{path} is missing or not that of facenet-pytorch 2.5.3 or 2.6.0. {INSTALL} --force-reinstall"
        )
    net.load_state_dict(torch.load(io.BytesIO(blob), map_location="cpu", weights_only=True))
    return net.eval().requires_grad_(False)


def _package_data() -> Path | None:
    spec = importlib.util.find_spec("facenet_pytorch")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations))) / "data"
