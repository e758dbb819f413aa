"""Features of single images, stored beside them, so that distances between sets of images never gather
anything.

`vgg16`       (512,): the last stage of VGG16, averaged over the image; for the kernel distance, which is
              not KID
`inception`   (2048,): the pool features of the Inception network of FID and KID, if its weights are given
              as a file; in plans and files with the beginning of its SHA-256, `inception@6726825d0e4c`,
              so that features of two networks never meet
`…_hole`      the same of the hole's bounding box, for tasks that hide pixels
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from paseo.errors import MissingWeights, PaseoError
from paseo.metrics import vgg_features
from paseo.weights import read_weights

if TYPE_CHECKING:
    from paseo.lab.bench.inception import Inception


def feature_bytes(image: Tensor, hole: Tensor | None, names: str, inception: str | None) -> bytes:
    """A safetensors file with the features of one image (1,3,H,W) in [0,1]."""
    from safetensors.torch import save

    found: dict[str, Tensor] = {}
    for name in names.split("+"):
        found[name] = _features(name, image, inception)
        if hole is not None and (box := _inside(image, hole)) is not None:
            found[f"{name}_hole"] = _features(name, box, inception)
    return save(found)


def read_features(path: Path) -> dict[str, Tensor]:
    """The features that are there, by plain names; what is not whole is computed again by the next run."""
    try:
        return {re.sub("@[0-9a-f]+", "", name): value for name, value in read_weights(path)[0].items()}
    except PaseoError:
        return {}


def _features(name: str, image: Tensor, inception: str | None) -> Tensor:
    if name == "vgg16":
        return vgg_features(image)[0].contiguous()
    assert inception is not None  # the plan names it only where there is a file
    network = _inception(inception)
    if name != inception_name(network.sha256):
        raise MissingWeights(f"{inception} is not the file that the benchmark was planned with. Plan again.")
    return network(image)[0].contiguous()


def feature_names(vgg16: bool, inception: str | None) -> str:
    """The networks of a benchmark, joined by "+"; Inception's file is checked now, not after hours."""
    names = ["vgg16"] if vgg16 else []
    return "+".join([*names, inception_name(_inception(inception).sha256)] if inception else names)


def inception_name(sha256: str) -> str:
    return f"inception@{sha256[:12]}"


@lru_cache(maxsize=1)
def _inception(path: str) -> Inception:
    from paseo.lab.bench.inception import load_inception

    return load_inception(path)


def _inside(image: Tensor, hole: Tensor) -> Tensor | None:
    """The bounding box of the hole, if VGG16 can look at it."""
    rows, columns = (torch.nonzero(hole[0, 0].amax(d) > 0.5).flatten() for d in (1, 0))
    box = image[..., int(rows[0]) : int(rows[-1]) + 1, int(columns[0]) : int(columns[-1]) + 1]
    return box if min(box.shape[-2:]) >= 16 else None
