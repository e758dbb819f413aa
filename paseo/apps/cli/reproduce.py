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
    assignments: Annotated[
        list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="Change a setting.")
    ] = None,
    json: JsonOption = None,
) -> None:
    """Repeat an experiment of the paper: its figure and ours, side by side.

    \b
      paseo reproduce                                     what there is
      paseo reproduce tractable --json tractable.json     exactness on a known posterior
      paseo reproduce lincheck --out figures --quick
    """
    from paseo.lab import reproduce as experiments
    from paseo.settings.parse import field_name, split_assignment

    if name is None:
        width = max(map(len, experiments.EXPERIMENTS))
        emit(
            json,
            experiments.EXPERIMENTS,
            "\n".join(f"{n:<{width}}  {what}" for n, what in experiments.EXPERIMENTS.items()),
        )
        return
    example = f"{next(iter(experiments.options(name)))}=…"
    pairs = [split_assignment(text, example) for text in assignments or []]
    settings = {field_name(key): value for key, value in pairs}
    result = experiments.run(name, out=out, json=json, quick=quick, **settings)
    if json != "-":
        typer.echo(result.table())
