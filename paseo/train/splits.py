"""Which pictures are trained on, which validate, which are kept for the test: by a picture's name alone,
never by chance.

    auto | number | hash | ffhq
    train=0-67999,validation=68000-68999,test=69000-69999      ranges of numbered names (FFHQ as in the paper)
    validation=validation.tar,test=test.tar                    patterns of names or of the tar they lie in
    FILE                                                       one "PART PATTERN" per line: test 00017.png

`number` is the split of everything this project publishes on the synthetic faces, whose names are generator
seeds: test 0–499, validation 500–749, training from 750; numbers of a million and more belong to no split.
`hash` puts a fixed share of any other names aside. `auto` takes `number` if all names are numbers and both
training and validation get images, else `hash`. Whole names count before patterns, of patterns the first that
fits; + joins several of one part. A split that says nothing of training trains on all the rest.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Literal

import numpy as np

from paseo.errors import BadInput

Part = Literal["train", "validation", "test"]
Pattern = tuple[Part, str]
RULES = ("auto", "number", "hash")
NAMED = {"ffhq": "test=0-999,validation=1000-1999,train=2000-69999"}  # the paper's 68,000/1,000/1,000
HELP = (
    "Which pictures are held out: auto, number (the synthetic faces), ffhq, hash (a share of the "
    "names), a FILE "
    "with lines of PART PATTERN, or train=…,validation=…,test=… with ranges of numbered names (0-67999) or "
    "patterns of names or tar files."
)

_TEST, _VALIDATION, _RESERVED = 500, 750, 1_000_000  # ends of the `number` ranges
_HASHED_SHARE = 0.02  # of the names, for test and for validation each, under the `hash` rule
_RANGE = re.compile(r"(\d+)-(\d*)")


def split(
    names: Sequence[str], rule: str = "auto", homes: Sequence[str] | None = None
) -> dict[Part, np.ndarray]:
    """Positions of the training, validation and test images; training and validation are never empty. `homes`
    are the files the images lie in.
    """
    rule = NAMED.get(rule, rule)
    if rule not in RULES:
        return _by_patterns(names, read_patterns(rule), homes or [""] * len(names))
    numbered = all(Path(n).stem.isdecimal() for n in names)
    if rule == "number" and not numbered:
        stray = next(n for n in names if not Path(n).stem.isdecimal())
        raise BadInput(
            f"The split rule 'number' needs file names that are numbers, found {stray!r}. Use the rule "
            "'hash'."
        )
    if rule != "hash" and numbered:
        parts = _group([_by_number(int(Path(n).stem)) for n in names])
        if len(parts["train"]) and len(parts["validation"]):
            return parts
        if rule == "number":
            raise BadInput(
                "The split rule 'number' leaves no training (750 and up) or no validation (500–749) "
                "images. Use the rule 'hash'."
            )
    return _by_hash(names)


def read_patterns(rule: str) -> list[Pattern]:
    """The patterns of "train=…,validation=…,test=…" or of a file, in their order."""
    if "=" in rule and not Path(rule).is_file():
        pairs = [tuple(text.strip().split("=", 1)) for text in rule.split(",")]
        found = [(pair[0], p) for pair in pairs for p in (pair[1].split("+") if len(pair) == 2 else [""])]
    elif Path(rule).is_file():
        lines = (line.split("#")[0].split(None, 1) for line in Path(rule).read_text("utf-8").splitlines())
        found = [(line[0], line[1].strip() if len(line) == 2 else "") for line in lines if line]
    else:
        raise BadInput(
            f"The split is {rule!r}, expected auto, number, hash, ffhq, a file, or "
            "train=…,validation=…,test=…."
        )
    known: dict[str, Part] = {"train": "train", "validation": "validation", "test": "test"}
    if bad := [entry for entry in found if entry[0] not in known or not entry[1]]:
        raise BadInput(
            f"The split {rule!r} has the entry {' '.join(bad[0])!r}; parts are train, validation and test, "
            "each with a range such as 0-67999 or a pattern such as *.png."
        )
    patterns = [(known[part], pattern) for part, pattern in found]
    return patterns if any(part == "train" for part, _ in patterns) else [*patterns, ("train", "*")]


def _by_patterns(
    names: Sequence[str], patterns: list[Pattern], homes: Sequence[str]
) -> dict[Part, np.ndarray]:
    exact = {
        pattern: part for part, pattern in reversed(patterns)
    }  # a long list of names is looked up at once
    loose = [
        (part, pattern)
        for part, pattern in patterns
        if _RANGE.fullmatch(pattern) or set(pattern) & set("*?[")
    ]
    labels = [
        exact.get(name)
        or exact.get(home)
        or next((part for part, pattern in loose if _fits(pattern, name, home)), None)
        for name, home in zip(names, homes, strict=True)
    ]
    parts = _group(labels)
    for part in ("train", "validation"):
        if not len(parts[part]):
            raise BadInput(
                f"The split leaves no {part} images among {len(names)}, the first of which is {names[0]!r}."
            )
    return parts


def _fits(pattern: str, name: str, home: str) -> bool:
    if found := _RANGE.fullmatch(pattern):
        stem = Path(name).stem
        return stem.isdecimal() and int(found[1]) <= int(stem) <= int(found[2] or 10**30)
    return fnmatch(name, pattern) or fnmatch(home, pattern)


def _group(labels: Sequence[Part | None]) -> dict[Part, np.ndarray]:
    array = np.array([label or "" for label in labels])
    return {part: np.flatnonzero(array == part) for part in ("train", "validation", "test")}


def _by_number(number: int) -> Part | None:
    if number < _TEST:
        return "test"
    if number < _VALIDATION:
        return "validation"
    return "train" if number < _RESERVED else None


def _by_hash(names: Sequence[str]) -> dict[Part, np.ndarray]:
    if len(names) < 2:
        raise BadInput(f"Training needs at least two images (one is kept for validation), got {len(names)}.")
    u = np.array([int.from_bytes(hashlib.sha256(n.encode()).digest()[:8], "big") / 2**64 for n in names])
    labels: list[Part | None] = ["validation" if v < 2 * _HASHED_SHARE else "train" for v in u]
    labels = ["test" if v < _HASHED_SHARE else label for v, label in zip(u, labels, strict=True)]
    if "validation" not in labels:  # a small set: the image nearest to the range stands in
        labels[int(np.argmin(np.where(np.array(labels) == "train", u, np.inf)))] = "validation"
    if "train" not in labels:
        labels[int(np.argmax(np.where(np.array(labels) == "validation", -1.0, u)))] = "train"
    return _group(labels)
