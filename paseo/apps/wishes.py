"""What a restoration may be asked for, declared once: the options of `paseo restore` and the arguments of
`paseo.restore`.

    @takes(Wishes)                          # the signature lists them one by one, with their defaults
    def restore(image, **wishes: Unpack[Wishes]): ...

A new wish that `paseo.recipe.resolve` reads is a field of `Request` and a line of `Asked`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ParamSpec, TypedDict, TypeVar, cast, get_args, get_type_hints

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Wish:
    """A default and words; the rest is for the command line."""

    default: object
    words: str
    flags: tuple[str, ...] = ()  # such as "--samples", "-n"; the name with dashes unless given
    low: float | None = None
    metavar: str | None = None


class Asked(TypedDict, total=False):
    """What both doors ask of the recipe, with one meaning and one default: fields of `Request`."""

    method: Annotated[str, Wish("paseo", "The sampler.")]
    preset: Annotated[
        str | None,
        Wish(None, "Whose kept settings: ffhq/sd35, coco/sd35, faces-128, a folder; the model's otherwise."),
    ]
    sigma_y: Annotated[
        float | None,
        Wish(
            None,
            "Noise of the measurement: standard deviation for images in [0,1]; the task's otherwise.",
            ("--sigma",),
            0.0,
        ),
    ]
    keep_known: Annotated[
        bool | None,
        Wish(
            None,
            "Inpainting: copy the seen pixels from the input. With a mask it is on.",
            ("--keep-known/--no-keep-known",),
        ),
    ]
    faces: Annotated[
        bool,
        Wish(False, "Faces in the pictures are restored by the face model.", ("--faces",)),
    ]
    prompt: Annotated[str | None, Wish(None, "Stable Diffusion: what the image shows.")]
    negative_prompt: Annotated[str | None, Wish(None, "Stable Diffusion: what it does not show.")]
    guidance: Annotated[
        float | None, Wish(None, "Stable Diffusion: how far to follow the prompt; 1 as trained.")
    ]


class Wishes(Asked, total=False):
    """All that the command line and Python both take."""

    samples: Annotated[
        int, Wish(1, "Draws per image; several also give their mean and spread.", ("--samples", "-n"), 1)
    ]
    seed: Annotated[
        int,
        Wish(0, "Seed of the first draw; draw k uses seed+k. The same for every file.", ("--seed",), 0),
    ]


def asked(wishes: Wishes) -> Asked:
    """Those that `Request` has a field for."""
    return cast(Asked, {name: value for name, value in wishes.items() if name in Asked.__annotations__})


def declared(kind: type) -> dict[str, tuple[object, Wish]]:
    """Type and wish of every entry of a TypedDict; what a door adds comes before what both share."""
    hints = get_type_hints(kind, include_extras=True)
    return {name: _parts(hints[name]) for name in sorted(hints, key=Wishes.__annotations__.__contains__)}


def _parts(hint: object) -> tuple[object, Wish]:
    bare, wish = get_args(hint)
    return bare, wish


def takes(
    kind: type,
    annotate: Callable[[str, object, Wish], object] = lambda name, hint, wish: hint,
    after: int = 2,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """The wishes of `kind` in place of `**wishes`, with their defaults filled in; `annotate` says how a
    signature shows one, `after` how many other parameters it shows before them.
    """
    entries = declared(kind)
    listed = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=wish.default,
            annotation=annotate(name, hint, wish),
        )
        for name, (hint, wish) in entries.items()
    ]
    defaults: dict[str, object] = {name: wish.default for name, (_, wish) in entries.items()}

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        own = inspect.signature(function, eval_str=True)
        others = [p for p in own.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        rest = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in others[after:]]
        signature = own.replace(parameters=[*others[:after], *listed, *rest])

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            unknown = [name for name in kwargs if name not in signature.parameters]
            if unknown:
                raise TypeError(f"got an unexpected keyword argument {unknown[0]!r}: {signature}")
            filled: dict[str, Any] = {**defaults, **kwargs}
            return function(*args, **filled)

        vars(call).update(__signature__=signature)
        call.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()}
        return call

    return decorate
