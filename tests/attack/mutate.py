"""Seeded damage: bytes flipped, cut, repeated or replaced; values of JSON and YAML swapped for what nobody
expects.
"""

from __future__ import annotations

import copy
import json
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CASES = int(os.environ.get("PASEO_ATTACK", "300"))  # per fuzzer; `make test-attack` sets 10000
STRANGE: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, -(2**63), 10**30, 0.5, -0.0, 1e308, -1e308, 1e-320),
    *(
        "",
        " ",
        "x",
        "\0",
        "../../../x",
        "/etc/passwd",
        "a" * 5000,
        "\ud800",
        "NaN",
        "ünï→",
        "os:system",
        "x.py:f",
    ),
    *([], {}, [[]], [None], {"": None}, [0] * 100, {"a": {"b": {"c": []}}}, ["a", "b"]),
)
RAW = (
    b"NaN",
    b"Infinity",
    b"1e999",
    b"[" * 5000,
    b'"\\ud800"',
    b"\xff\xfe",
    b"9" * 5000,
    b'{"a":' * 2000,
    b"\0",
)


def damaged_bytes(data: bytes, rng: random.Random) -> bytes:
    """Another file: never the same one, unless it is empty."""
    way = rng.randrange(8)
    if not data:
        return bytes([rng.randrange(256)])
    at = rng.randrange(len(data)) if rng.random() < 0.5 else rng.randrange(min(len(data), 512))
    if way <= 1:
        return data[:at]
    if way == 2:
        return data + rng.randbytes(rng.randrange(1, 64))
    if way == 3:
        return data[:at] + rng.randbytes(rng.randrange(1, 16)) + data[at:]
    if way == 4:
        return data[:at] + data[at + rng.randrange(1, 16) :]
    if way == 5:
        return rng.randbytes(rng.randrange(64))
    flipped = bytearray(data)
    for _ in range(rng.choice((1, 1, 4, 64))):
        i = rng.randrange(len(data)) if rng.random() < 0.5 else at
        flipped[i] ^= rng.randrange(1, 256)
    return bytes(flipped) if bytes(flipped) != data else data[:at]


def damaged_value(value: Any, rng: random.Random) -> Any:
    """The same tree with some of its leaves or branches swapped, lost or renamed."""
    value = copy.deepcopy(value)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        places = list(_places(value))
        if not places:
            return copy.deepcopy(rng.choice(STRANGE))
        node, key = rng.choice(places)
        way = rng.randrange(6)
        if way == 0:
            del node[key]
        elif way == 1 and isinstance(node, dict):
            node[f"{key}x"] = node.pop(key)
        elif way == 2 and isinstance(node[key], int | float):
            node[key] = node[key] * rng.choice((-1, 0, 2, 10, 1000, 10**9, 0.5))
        else:
            node[key] = copy.deepcopy(rng.choice(STRANGE))  # a later round may damage it in turn
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    waiting = [value]
    while waiting:
        here = waiting.pop()
        keys: Any = here if isinstance(here, dict) else range(len(here)) if isinstance(here, list) else ()
        for key in keys:
            yield here, key
            waiting.append(here[key])


def damaged_json(data: bytes, rng: random.Random) -> bytes:
    """Half of them still JSON, with other values; the rest no JSON any more, or barely."""
    way = rng.random()
    if way < 0.65:
        return json.dumps(damaged_value(json.loads(data), rng)).encode()
    if way < 0.75:
        words = data.split(b" ")
        words[rng.randrange(len(words))] = rng.choice(RAW)
        return b" ".join(words)
    return damaged_bytes(data, rng)


@contextmanager
def replaced(path: Path, data: bytes | None) -> Iterator[None]:
    """While the block lasts, the file holds this, or is gone; then it is as before."""
    before = path.read_bytes()
    try:
        path.unlink()
        if data is not None:
            path.write_bytes(data)
        yield
    finally:
        path.write_bytes(before)


def damage(path: Path, rng: random.Random) -> bytes | None:
    """Something that the file might be found as; None: gone."""
    if rng.random() < 0.03:
        return None
    data = path.read_bytes()
    if path.suffix == ".json":
        return damaged_json(data, rng)
    if path.suffix == ".safetensors" and rng.random() < 0.5:
        return damaged_tensors(data, rng)
    return damaged_bytes(data, rng)


def damaged_tensors(data: bytes, rng: random.Random) -> bytes:
    """A safetensors file whose table of contents lies, or whose values are NaN or infinite."""
    length = int.from_bytes(data[:8], "little")
    table, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    if rng.random() < 0.5:
        table = damaged_value(table, rng)
        raw = json.dumps(table).encode()
        return len(raw).to_bytes(8, "little") + raw + body
    name = rng.choice([k for k in table if k != "__metadata__"])
    start, end = table[name]["data_offsets"]
    number = {"F16": b"\x00\x7e", "BF16": b"\xc0\x7f", "F32": b"\x00\x00\xc0\x7f"}.get(
        table[name]["dtype"], b"\xff"
    )
    if end - start < len(number):
        return damaged_bytes(data, rng)
    at = 8 + length + start + rng.randrange((end - start) // len(number)) * len(number)
    return data[:at] + number + data[at + len(number) :]
