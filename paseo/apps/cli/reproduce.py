"""`paseo reproduce`: the paper's tables and figures, measured again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paseo.apps.console import JsonOption, emit


def reproduce(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="The experiment; without a name they are listed.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder for figures.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A smaller run of seconds.")] = False,
    listed: Annotated[
        bool, typer.Option("--list", help="What there is: label, command, what is needed.")
    ] = False,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="The model; an embedded one unless given.")
    ] = None,
    preset: Annotated[str | None, typer.Option("--preset", help="Whose settings, such as ffhq/sd35.")] = None,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="Change a setting.")
    ] = None,
    json: JsonOption = None,
) -> None:
    """Repeat an experiment of the paper: its figure and ours, side by side.

    \b
      paseo reproduce --list                              what there is
      paseo reproduce anchors --model MODEL --preset ffhq/sd35 --set operators=FOLDER
      paseo reproduce tractable --json tractable.json     exactness on a known posterior
      paseo reproduce lincheck --out figures --quick
    """
    from paseo.lab import reproduce as experiments
    from paseo.settings.parse import field_name, split_assignment

    if name is None or listed:
        from paseo.lab.text import columns

        rows = experiments.listing()
        header = ("command", "in the paper", "what", "needs")
        lines = [[row[key] for key in ("command", "label", "what", "needs")] for row in rows]
        emit(json, rows, columns(header, lines))
        return
    example = f"{next(iter(experiments.options(name)))}=…"
    pairs = [split_assignment(text, example) for text in assignments or []]
    settings = {key: value for key, value in (("model", model), ("preset", preset)) if value is not None}
    settings |= {field_name(key): value for key, value in pairs}
    result = experiments.run(name, out=out, json=json, quick=quick, **settings)
    if json != "-":
        typer.echo(result.table())
