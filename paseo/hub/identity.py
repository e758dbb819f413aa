"""The identity of a diffusers model: one SHA-256 per component, of everything in it that a result depends on.

Configurations and tokenizers enter with their whole text. Weights enter with their SHA-256, which the hub's
cache has as the name of the file (nothing is read); elsewhere it is computed, for files up to 256 MiB from
every byte. Larger files enter with their size, their table of contents and 256 blocks of 64 KiB spread over
the whole length: two trainings differ in nearly every weight, so nearly every block would tell them apart,
and a model of 16 GB is known in a tenth of a second instead of half a minute.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from paseo.hub.folder import weight_files

WHOLE = 256 << 20  # bytes that are read completely
BLOCK, BLOCKS = 64 << 10, 256
_BLOB = re.compile(r"[0-9a-f]{64}")
_TEXT = (".json", ".txt", ".model")


def component_hashes(folder: Path, parts: Iterable[str]) -> dict[str, str]:
    """Component → SHA-256, for those that have a folder of their own."""
    return {name: _component(folder / name) for name in sorted(parts) if (folder / name).is_dir()}


def _component(part: Path) -> str:
    """Over the files that are read, by name."""
    texts = [p for p in part.iterdir() if p.suffix in _TEXT and ".index." not in p.name]
    weights = weight_files(part) if any(part.glob("*.safetensors*")) else []
    digest = hashlib.sha256()
    for path in sorted({*texts, *weights}):
        digest.update(f"{path.name} {file_identity(path)}\n".encode())
    return digest.hexdigest()


def file_identity(path: Path) -> str:
    """The SHA-256 of a file, or of its size, beginning and blocks where it is large."""
    if path.is_symlink() and _BLOB.fullmatch(path.resolve().name):
        return path.resolve().name  # the hub's cache names a large file by its SHA-256
    size = path.stat().st_size
    if size <= WHOLE:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    digest = hashlib.sha256(f"{size}".encode())
    with path.open("rb") as file:
        header = int.from_bytes(file.read(8), "little")
        digest.update(file.read(min(header, 64 << 20)))
        for k in range(BLOCKS):
            file.seek(k * (size - BLOCK) // (BLOCKS - 1))
            digest.update(file.read(BLOCK))
    return digest.hexdigest()
