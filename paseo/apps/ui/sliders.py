"""Degradations with numbers on the page: a choice such as "jpeg:" has one or two sliders behind it.

A visitor chooses "jpeg:" and 35; the rest of the page sees the task "jpeg:35", as typed on the command line.
"""

from __future__ import annotations

from dataclasses import dataclass

from paseo.degrade import WORDS
from paseo.degrade import task as find_task
from paseo.errors import BadInput
from paseo.models import AUTO

SLIDERS = 2  # the page holds ready


@dataclass(frozen=True)
class Slider:
    """One number of a degradation."""

    label: str
    low: float
    high: float
    step: float
    value: float  # where it stands at first


_ANGLE = Slider("Direction, degrees", 0, 175, 5, 45)
CHOICES: dict[str, tuple[Slider, ...]] = {
    "jpeg:": (Slider("JPEG quality (1 worst, 100 best)", 5, 95, 1, 35),),
    "blur:": (Slider("Width of the blur σ, pixels", 0.3, 5, 0.1, 2),),
    "motion:": (Slider("Length of the movement, pixels", 2, 25, 1, 15), _ANGLE),
    "sr:": (Slider("How many times smaller", 1.5, 8, 0.5, 3),),
    "noise:": (Slider("Standard deviation, of images in [0,1]", 0.01, 0.1, 0.01, 0.05),),
}
TITLES = {choice: f"{WORDS[choice[:-1]].title}, with a slider" for choice in CHOICES}


def choice_of(task: str) -> str:
    """The choice that a task belongs to: "jpeg:" of "jpeg:35"; others are their own."""
    head, colon, rest = task.partition(":")
    return head + colon if colon and "," not in rest and head + colon in CHOICES else task


def typed_task(choice: str, numbers: list[float]) -> str:
    """The task of a choice with its sliders; a number outside its slider is refused."""
    sliders = CHOICES.get(choice)
    if sliders is None:
        return choice
    for slider, number in zip(sliders, numbers, strict=False):
        if not slider.low <= number <= slider.high:
            raise BadInput(f"{slider.label}: {number:g} is not from {slider.low:g} to {slider.high:g}.")
    return find_task(choice + "@".join(f"{n:g}" for n in numbers[: len(sliders)])).name


def example(task: str) -> str:
    """A task of the same choice, for questions in which the numbers do not matter."""
    return typed_task(choice := choice_of(task), [s.value for s in CHOICES.get(choice, ())])


def sentence(choice: str, numbers: list[float]) -> str:
    """What happened to the picture, in one sentence."""
    if choice == AUTO:
        return "What happened is read off the file: the quality of a JPEG, the noise of the rest."
    try:
        return find_task(typed_task(choice, numbers)).description
    except BadInput as error:
        return str(error)
