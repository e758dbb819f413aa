"""Cells: one image, task, method and seed each, known by a key, and where their files lie.

RUN/config.yaml, plan.jsonl, unsupported.json
RUN/cells/<task>/<method>/<image>-s<seed>-<key>.png            the restoration, 8 bit
                                               .safetensors    features for distances between distributions
                                               .cost.json      seconds and memory: what no two runs share
                                               .json           the row; written last, so that it vouches for
                                               the others
RUN/failures/<task>/<method>/….json                            what went wrong; removed when the cell
succeeds later
RUN/truths/<image>-<sha>.png, .safetensors                     the images themselves and their features
RUN/measurements/<task>/<image>-<sha>.png                      what the methods were given
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from paseo.errors import BadInput
from paseo.files import bounded_json, read_json, write_text
from paseo.setting import values_of
from paseo.weights import header, header_fault

KEY_SHOWN = 12  # characters of the key in file names
NAMES = ("key", "model", "method")  # fields that are not part of the key
METHOD_LABEL = r"[A-Za-z0-9][A-Za-z0-9_.+=-]{0,79}"  # also the name of a folder


@dataclass(frozen=True)
class Cell:
    """One line of a plan: everything its row depends on."""

    task: str
    task_params: dict[str, object]
    sigma_y: float
    noise_seed: int
    method: str  # the label
    sampler: dict[str, Any]  # {"name": class, "settings": {…}}
    image: str
    image_sha256: str
    seed: int
    model: str
    hashes: dict[str, str]  # of prior, codec, operator
    options: dict[str, Any]  # of the model: prompt, guidance …
    protocol: int  # of the metrics
    metrics: tuple[str, ...]
    company: tuple[str, ...]  # hashes of the images computed together with it, itself included
    features: str = ""  # which feature networks are stored
    key: str = ""

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What the key is made of: all fields but names that could be others."""
        return {k: v for k, v in asdict(self).items() if k not in NAMES}

    def keyed(self) -> Cell:
        return replace(self, key=_key(self.facts))

    @property
    def stem(self) -> str:
        return f"{self.task_folder}/{self.method}/{_safe(self.image)}-s{self.seed}-{self.key[:KEY_SHOWN]}"

    @property
    def task_folder(self) -> str:
        return _safe(self.task)


def read_plan(folder: Path) -> list[Cell]:
    """The cells of a run's folder, in order."""
    path = folder / "plan.jsonl"
    if not path.is_file():
        raise BadInput(
            f"{folder} holds no plan.jsonl. Make one with `paseo bench plan CONFIG --out {folder}`."
        )
    cells = []
    for number, line in enumerate(_lines(path), start=1):
        try:
            entry: dict[str, Any] = bounded_json(line)
            if entry["key"] != _key({k: v for k, v in entry.items() if k not in NAMES}):
                raise ValueError("its key is that of another cell")
            entry |= {name: tuple(value) for name, value in entry.items() if isinstance(value, list)}
            cells.append(_checked(Cell(**entry)))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise BadInput(
                f"{path}, line {number}, is no cell of this version: {error}. Plan again."
            ) from None
    if not cells:
        raise BadInput(f"{path} is empty. Plan again.")
    return cells


def _key(facts: Mapping[str, Any]) -> str:
    text = json.dumps(facts, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _lines(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().splitlines()
    except OSError as error:
        raise BadInput(f"Cannot read {path}: {error.strerror}.") from error


def _checked(cell: Cell) -> Cell:
    """A plan is data: what becomes part of a path is a name, and what is computed with is of its type."""
    names = (
        cell.task,
        cell.method,
        cell.image,
        cell.image_sha256,
        cell.model,
        cell.features,
        cell.key,
        *cell.company,
    )
    tables = (cell.task_params, cell.sampler, cell.hashes, cell.options)
    numbers = (cell.noise_seed, cell.seed, cell.protocol)
    good = (
        all(isinstance(n, str) for n in (*names, *cell.metrics))
        and all(isinstance(t, dict) for t in tables)
        and all(isinstance(h, str) for h in cell.hashes.values())
        and all(type(n) is int and n >= 0 for n in numbers)
        and isinstance(cell.sigma_y, int | float)
        and re.fullmatch(METHOD_LABEL, cell.method) is not None
        and re.fullmatch("[0-9a-f]{64}", cell.key) is not None
    )
    if not good:
        raise ValueError("an entry is of the wrong kind")
    return cell


def write_plan(folder: Path, cells: Iterable[Cell]) -> Path:
    lines = (json.dumps(asdict(cell), ensure_ascii=False, allow_nan=False) for cell in cells)
    return write_text(folder / "plan.jsonl", "".join(f"{line}\n" for line in lines))


@dataclass(frozen=True)
class CellStore:
    """The files of a run."""

    folder: Path

    def path(self, cell: Cell, suffix: str) -> Path:
        return self.folder / "cells" / f"{cell.stem}{suffix}"

    def failure(self, cell: Cell) -> Path:
        return self.folder / "failures" / f"{cell.stem}.json"

    def truth(self, name: str, sha256: str, suffix: str = ".png") -> Path:
        return self.folder / "truths" / f"{_safe(name)}-{sha256[:KEY_SHOWN]}{suffix}"

    def measurement(self, task: str, name: str, sha256: str) -> Path:
        return self.folder / "measurements" / _safe(task) / f"{_safe(name)}-{sha256[:KEY_SHOWN]}.png"

    def done(self, cell: Cell) -> bool:
        """Whether all of it is there and whole: the row, which is this cell's, its image and its features."""
        features = self.path(cell, ".safetensors")
        return (
            whole_png(self.path(cell, ".png"))
            and (not cell.features or whole_features(features, cell.features))
            and self.row(cell) is not None
        )

    def row(self, cell: Cell) -> dict[str, Any] | None:
        """What was measured; None where it is missing or not whole, so that it is computed again."""
        row = _table(self.path(cell, ".json"))
        return row if _whole_row(row, cell) else None

    def cost(self, cell: Cell) -> dict[str, Any]:
        """Seconds and bytes, as far as they can be read."""
        cost = _table(self.path(cell, ".cost.json"))
        return {name: value for name, value in cost.items() if _number(value)}

    def failed(self, cell: Cell) -> dict[str, str] | None:
        """What went wrong with a cell."""
        if not self.failure(cell).is_file():
            return None
        found = {"error": "unknown", "message": "", **_table(self.failure(cell))}
        return {name: str(value) for name, value in found.items()}


def _table(path: Path) -> dict[str, Any]:
    """A JSON object; an empty one where the file is missing, or was cut off by a full disk."""
    try:
        found = read_json(path) if path.is_file() else {}
    except BadInput:
        return {}
    return found if isinstance(found, dict) else {}


def _whole_row(row: Mapping[str, Any], cell: Cell) -> bool:
    same = ("key", "task", "image", "seed")
    metrics = row.get("metrics")
    return (
        {name: row.get(name) for name in same} == values_of(cell, *same)
        and isinstance(row.get("method"), str)
        and type(row.get("nfe")) is int
        and isinstance(metrics, dict)
        and all(_number(value) for value in metrics.values())
    )


def _number(value: object) -> bool:
    return isinstance(value, int | float) and abs(value) < math.inf


def whole_png(path: Path) -> bool:
    """Whether the file is there and ends as a PNG does."""
    try:
        with path.open("rb") as file:
            start = file.read(8)
            file.seek(-12, 2)
            return start == b"\x89PNG\r\n\x1a\n" and file.read() == b"\0\0\0\0IEND\xaeB`\x82"
    except OSError:
        return False


def whole_features(path: Path, names: str) -> bool:
    """Whether the file is there, whole, and holds the features of these networks, joined by "+"."""
    return header_fault(path) is None and set(names.split("+")) <= header(path).keys()


def units(cells: Sequence[Cell]) -> Iterator[list[Cell]]:
    """Neighbours that are computed together: one method, task and seed, and the same images together."""
    unit: list[Cell] = []
    for cell in cells:
        if unit and _together(unit[0]) != _together(cell):
            yield unit
            unit = []
        unit.append(cell)
    if unit:
        yield unit


def _together(cell: Cell) -> tuple[object, ...]:
    return cell.task, cell.method, cell.seed, cell.company


def _safe(name: str) -> str:
    """A name that can be a file's; the key beside it keeps it unique."""
    return re.sub(r"[^A-Za-z0-9_.+=-]", "_", name)[:60] or "_"
