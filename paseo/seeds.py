"""Where seeds come from: integers from 0 to 2⁶³ − 1, and all that is derived from one.

one integer for a batch       every image uses it, in `restore` and in `measure` alike: an image alone and the
                              same image among others are measured and restored the same way
`of_image(seed, sha256)`      a stream of the image's own, so that neither order nor neighbours matter
`stream_of(seed, name)`        measurement noise shares no numbers with sampling noise of the same seed
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

from paseo.errors import BadInput

T = TypeVar("T")
MOST_DRAWS = 4096


def for_batch(seeds: int | Sequence[T], count: int) -> list[int | T]:
    """One entry for each of `count` images; a single integer is every image's."""
    entries: list[int | T] = [seeds] * count if isinstance(seeds, int) else list(seeds)
    if not entries:
        raise BadInput("seeds is empty: give at least one.")
    if count not in (1, len(entries)):
        raise BadInput(
            f"{count} images and {len(entries)} seeds: give one seed for each image, or one integer for all."
        )
    return entries


def of_draws(seed: int, draws: int) -> tuple[int, ...]:
    """seed, seed+1, …: one for each draw, as many as a record holds."""
    if not 1 <= draws <= MOST_DRAWS or not 0 <= seed < 2**63 - draws:
        raise BadInput(
            f"seed={seed} and {draws} draws: from 1 to {MOST_DRAWS} draws were expected, and seeds from 0 to "
            "2^63 - 1."
        )
    return tuple(range(seed, seed + draws))


def of_image(seed: int, sha256: str, purpose: str = "") -> int:
    """The seed of one image in a run with this seed, 63 bits; `purpose` separates streams of one image.

    The files that `paseo restore` and `paseo degrade` measure have no purpose in their seed, the cells of a
    benchmark have one: records of both can be repeated.
    """
    return _digest(f"{purpose} {seed} {sha256}" if purpose else f"{seed} {sha256}")


def stream_of(seed: object, name: str = "measurement") -> int:
    """A seed → the seed of one of its streams."""
    if not (isinstance(seed, int) and seed >= 0):
        raise BadInput(f"A seed is an integer of at least 0, got {seed!r}.")
    return _digest(f"{name} {seed}")


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
