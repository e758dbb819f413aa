"""A tiny model and a few pictures, made once per session."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tiny_model import make_model, make_pictures


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_pictures(tmp_path_factory.mktemp("data") / "photos", 6)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)
