"""Before/after images as the only description of a degradation: two folders, matched by file stem.

A degraded image may be smaller than its clean partner by one integer factor k, the same for all pairs. Both
are cropped to the same centre window and never resampled, which would change the degradation.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from paseo.errors import BadInput
from paseo.files import read_json, write_text
from paseo.train.arrays import ArrayWriter, open_array
from paseo.train.data import ImageSet, Source, decode_image, digest_sources, find_sources, tell_skipped


@dataclass(frozen=True, eq=False)
class Pairs:
    """Image i of `clean` became image i of `degraded`."""

    clean: ImageSet
    degraded: ImageSet
    factor: int  # k


def load_pairs(clean: Path, degraded: Path, size: int, cache: Path) -> Pairs:
    """All pairs of the two folders, windows of `size` pixels of the clean image."""
    before, after = _by_stem(clean), _by_stem(degraded)
    stems = sorted(before.keys() & after.keys())
    if not stems:
        few = f"{', '.join(list(before)[:3])} … and {', '.join(list(after)[:3])} …"
        raise BadInput(f"No file of {clean} has a partner of the same stem in {degraded} ({few}).")
    digest = digest_sources([s for stem in stems for s in (before[stem], after[stem])], size)
    paths = [cache / f"pairs-{digest}-{part}.safetensors" for part in ("clean", "degraded")]
    index = cache / f"pairs-{digest}.json"
    if not (index.exists() and all(p.exists() for p in paths)):
        _decode_pairs(before, after, stems, size, paths, index)
    entry = read_json(index)
    alone = [
        own[stem] for own, other in ((before, after), (after, before)) for stem in own if stem not in other
    ]
    skipped = {source.name: "no partner" for source in alone} | entry["skipped"]
    tell_skipped(skipped, len(entry["names"]), index)
    sets = [ImageSet(open_array(p), entry["names"], digest, skipped) for p in paths]
    return Pairs(sets[0], sets[1], entry["factor"])


def _by_stem(folder: Path) -> dict[str, Source]:
    found: dict[str, Source] = {}
    for source in find_sources(folder):
        if source.stem in found:
            raise BadInput(
                f"{folder} holds two files of the stem {source.stem!r}: {found[source.stem].name} and "
                f"{source.name}."
            )
        found[source.stem] = source
    return found


def _decode_pairs(
    before: dict[str, Source],
    after: dict[str, Source],
    stems: list[str],
    size: int,
    paths: list[Path],
    index: Path,
) -> None:
    names: list[str] = []
    skipped: dict[str, str] = {}
    factor: int | None = None
    with ArrayWriter(paths[0], "uint8") as clean, ArrayWriter(paths[1], "uint8") as degraded:
        for stem in stems:
            try:
                x, y = decode_image(before[stem].read(), None), decode_image(after[stem].read(), None)
            except Exception as error:  # Pillow's decoders raise many types; each one only costs this pair
                skipped[before[stem].name] = f"{type(error).__name__}: {error}"
                continue
            k = _factor(x, y, stem)
            if factor is not None and k != factor:
                raise BadInput(
                    f"All pairs need one factor between clean and degraded size; {stem!r} has {k}, the "
                    f"ones before {factor}."
                )
            if size % k:
                raise BadInput(
                    f"The window of {size} pixels is no multiple of the factor {k} between clean and "
                    "degraded images."
                )
            if min(x.shape[:2]) < size:
                skipped[before[stem].name] = f"{x.shape[1]}×{x.shape[0]} is smaller than the window of {size}"
                continue
            factor = k
            top, left = (
                (n // k - size // k) // 2 for n in x.shape[:2]
            )  # in degraded pixels, so that both windows agree
            clean.append(x[None, top * k : top * k + size, left * k : left * k + size])
            degraded.append(y[None, top : top + size // k, left : left + size // k])
            names.append(before[stem].name)
        if not names:
            raise BadInput(
                f"None of the {len(stems)} pairs can be used; the first reason: "
                f"{next(iter(skipped.values()))}"
            )
    write_text(index, json.dumps({"names": names, "skipped": skipped, "factor": factor}))


def _factor(x: np.ndarray, y: np.ndarray, stem: str) -> int:
    (h, w), (a, b) = x.shape[:2], y.shape[:2]
    if h % a or w % b or h // a != w // b:
        raise BadInput(
            f"The pair {stem!r} has sizes {w}×{h} and {b}×{a}; the clean one must be an integer multiple "
            "of the degraded one."
        )
    return h // a
