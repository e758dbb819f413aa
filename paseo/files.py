"""Files that appear whole or not at all: written under a temporary name beside the target, then renamed over
it.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from paseo.errors import BadInput


@contextmanager
def atomic(path: str | Path) -> Generator[IO[bytes]]:
    """A binary file that takes its name only once it is complete; parent folders are made."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        if path.is_dir():
            raise IsADirectoryError(0, "it is a folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        file = temporary.open("xb")
    except OSError as error:
        raise BadInput(f"Cannot write {path}: {error.strerror}.") from error
    try:
        with file:
            yield file
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_text(path: str | Path, text: str) -> Path:
    with atomic(path) as file:
        file.write(text.encode())
    return Path(path)


def write_json(path: str | Path, value: Any) -> Path:
    """Indented UTF-8 JSON; NaN and infinity are refused, since they are not JSON."""
    return write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: str | Path) -> Any:
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"Cannot read {path}: {error.strerror}.") from error
    except ValueError as error:
        raise BadInput(f"{path} is not JSON: {error}.") from error
