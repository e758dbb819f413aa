"""Options from a dataclass: each field is an option with its type, default and words."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from paseo.errors import BadInput
from paseo.setting import without_none
from paseo.settings.parse import parse


def parse_options(
    kind: type[Any], arguments: Sequence[str], prog: str, description: str
) -> tuple[Any, str | None]:
    """An instance of the dataclass `kind` from command-line arguments, and the value of --json."""
    parser = argparse.ArgumentParser(
        prog=prog, description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    hints = get_type_hints(kind)
    for f in fields(kind):
        _add(parser, f, hints[f.name])
    parser.add_argument(
        "--json", metavar="FILE", help="Write the result as JSON to FILE, or to stdout with -."
    )
    given = vars(parser.parse_args(list(arguments)))
    target = given.pop("json")
    return kind(**{name: value for name, value in given.items() if value is not MISSING}), target


def _add(parser: argparse.ArgumentParser, f: Field[Any], hint: object) -> None:
    required = f.default is MISSING and f.default_factory is MISSING
    shown = "required" if required else f"default: {_words(f.default)}"
    options: dict[str, Any] = {
        "dest": f.name,
        "required": required,
        "default": MISSING,
        "help": f"{f.metadata.get('setting', {}).get('words', '')} ({shown})",
    }
    options["help"] = options["help"].replace("%", "%%")
    inner, _ = without_none(hint)
    flag = "--" + f.name.replace("_", "-")
    if inner is bool:
        parser.add_argument(flag, action=argparse.BooleanOptionalAction, **options)
    elif get_origin(inner) is tuple and Ellipsis not in get_args(inner):
        parser.add_argument(
            flag,
            nargs=len(get_args(inner)),
            type=_reader(get_args(inner)[0], f.name),
            metavar=_metavar(inner),
            **options,
        )
    else:
        parser.add_argument(flag, type=_reader(hint, f.name), metavar=_metavar(inner), **options)


def _reader(hint: object, name: str) -> Any:
    def read(text: str) -> Any:
        try:
            return parse(text, hint, name)
        except BadInput as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


def _metavar(hint: object) -> Any:
    if get_origin(hint) is Literal:
        return "|".join(map(str, get_args(hint)))
    if get_origin(hint) is tuple:
        return ("CLEAN_DIR", "DEGRADED_DIR") if Ellipsis not in get_args(hint) else "N,N,…"
    return {int: "N", float: "X", Path: "PATH"}.get(hint, "NAME")


def _words(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return "none" if value is None else str(value)
