"""What a user should know before trusting a result, one line each."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import TextIO

from paseo.apps.console import say
from paseo.apps.job import Restoration
from paseo.operators.net import OperatorNet
from paseo.recipe.resolve import INPAINT


def before(work: Restoration) -> list[str]:
    """What follows from the wish alone."""
    plan, told = work.plan, []
    recipe = plan.recipe
    if recipe.task == INPAINT and plan.mask is None and not plan.degrade:
        told.append(
            "no mask was given: the box in the centre of each picture, half as wide and high, counts as "
            "missing and will be replaced. Give --mask for another part."
        )
    operator = work.operator(recipe).operator if recipe.settled and not recipe.idle else None
    if isinstance(operator, OperatorNet):
        low, high = operator.spec.unit_noise_range
        if not low - 1e-9 <= recipe.sigma_y <= high + 1e-9:
            told.append(
                f"the noise {recipe.sigma_y:g} lies outside {low:g} … {high:g}, which the operator was "
                "trained on: expect a worse result."
            )
    return told


class Warnings:
    """Says each kind once, and at the end how often it came."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()

    def tell(self, name: str, found: dict[str, str]) -> None:
        for kind, text in found.items():
            if not self.seen[kind]:
                say(f"note: {name}: {text}")
            self.seen[kind] += 1

    def close(self) -> None:
        for kind, count in self.seen.items():
            if count > 1:
                say(f"note: {count - 1} more like the first note on {kind}.")


@contextmanager
def plain() -> Generator[None]:
    """Warnings as one line of ours, each once, instead of Python's two with a place in the code."""
    told: set[str] = set()

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        text = " ".join(str(message).split())
        if text not in told:
            told.add(text)
            say(f"note: {text}")

    kept = warnings.showwarning
    warnings.showwarning = show  # ty: ignore[invalid-assignment]
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*it will extrapolate")  # `before` has said so
            yield
    finally:
        warnings.showwarning = kept
