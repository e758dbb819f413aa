"""Degradations as people type them: one word, or a chain in the order in which things happened.

    jpeg:35        blur:4x1@30        "blur:1.5,sr:2,noise:0.02,jpeg:60"

Noise that comes last is the measurement's noise level σ_y; noise with something after it is a part of the
degradation. A picture that was stored as JPEG last has no further noise (σ_y = 0); without any word on noise
it is the paper's 0.01.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from paseo.base import Degradation
from paseo.degrade.compose import Compose
from paseo.degrade.grain import Grain
from paseo.degrade.words import WORDS, Values, Word, given_word, parse_word
from paseo.errors import BadInput

PAPER_NOISE = 0.01  # σ_y of the paper's measurements
DEFAULTS = {"blur": "blur:3", "jpeg": "jpeg:10", "sr4": "sr:4", "sr8": "sr:8"}  # bare words inside a chain


@dataclass(frozen=True)
class Part:
    """One word with its numbers."""

    word: Word
    values: Values

    @property
    def name(self) -> str:
        return self.word.canonical(self.values)


@dataclass(frozen=True)
class Typed:
    """What a name stands for."""

    parts: tuple[Part, ...]

    @property
    def name(self) -> str:
        """The canonical name, the same for everything that means the same."""
        return ",".join(part.name for part in self.parts)

    @property
    def title(self) -> str:
        if len(self.parts) > 1:
            return "A chain: " + ", ".join(part.name for part in self.parts)
        (part,) = self.parts
        return f"{part.word.title}, {part.word.write(part.values)}"

    @property
    def description(self) -> str:
        """One sentence: what happened to the picture."""
        did = [part.word.did(part.values) for part in self.parts]
        return (
            f"The picture was {', '.join(did[:-1])} and {did[-1]}."
            if did[1:]
            else f"The picture was {did[0]}."
        )

    @property
    def sigma_y(self) -> float:
        """σ_y: the noise that came last."""
        last = self.parts[-1]
        if last.word.name == "noise":
            return last.values["sigma"]
        return 0.0 if last.word.name == "jpeg" else PAPER_NOISE

    @property
    def kin(self) -> str:
        """The paper's task whose settings fit best: that of the part which destroys most in kind."""
        words = {part.word.name: part.values for part in self.parts}
        if "sr" in words and (words["sr"]["factor"] > 1 or len(words) == 1):  # sr:1 is large again
            return "sr8" if words["sr"]["factor"] > 6 else "sr4"
        if "blur" in words or "motion" in words:
            return "blur"
        return "jpeg"

    def build(self) -> Degradation:
        """A, without the noise that came last."""
        parts = self.parts[:-1] if self.parts[-1].word.name == "noise" else self.parts
        if not parts:
            return Grain(0.0)  # nothing but noise: A is the identity
        built = [part.word.build(part.values) for part in parts]
        return built[0] if len(built) == 1 else Compose(*built, name=",".join(part.name for part in parts))


def is_typed(name: str) -> bool:
    """Whether a name is made of these words: `module:function` with another first word is not."""
    first = name.split(",")[0]
    word = first.partition(":")[0].strip().lower()
    return word in WORDS or ("," in name and word in DEFAULTS)


def parse_name(name: str, given: Mapping[str, object] | None = None) -> Typed:
    """A name of `is_typed`; `given` holds the numbers of a single bare word instead."""
    if given:
        return Typed((Part(WORDS[name], given_word(WORDS[name], given)),))
    return Typed(tuple(_part(text.strip(), name) for text in name.split(",")))


def _part(text: str, name: str) -> Part:
    key, colon, value = text.partition(":")
    key = key.strip().lower()
    if not colon and key in DEFAULTS:
        return _part(DEFAULTS[key], name)
    if key not in WORDS:
        raise BadInput(
            f"{name!r}: there is no degradation {text!r}. A chain is made of "
            f"{', '.join(w.syntax.split(',')[0] for w in WORDS.values())}, separated by commas."
        )
    if not colon:
        raise BadInput(f"{name!r}: {key} needs a number. Write {WORDS[key].syntax}.")
    return Part(WORDS[key], parse_word(WORDS[key], value, text))
