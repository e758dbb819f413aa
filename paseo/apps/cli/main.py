"""The command line: `paseo` and `python -m paseo`. Thin: each verb is a module of `paseo.apps.cli`.

Errors made on purpose (`PaseoError`) become one line on stderr. Exit codes: 0 all done, 1 some files
failed, 2 bad usage or input, 130 interrupted, 143 terminated. Progress goes to stderr, data to stdout.
Nothing heavy is imported before a verb runs.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from paseo import __version__
from paseo.apps.cli import (
    bench,
    check_operator,
    degrade,
    demo,
    doctor,
    models,
    reproduce,
    restore,
    sample,
    train,
    tune,
)
from paseo.apps.console import say
from paseo.apps.ending import INTERRUPTED, TERMINATED, Terminated, polite_end
from paseo.apps.ui import command as page
from paseo.errors import PaseoError
from paseo.trust import allowing_code, for_this_command

HELP = """Restore images with a latent diffusion prior and a small learned operator.

\b
  paseo demo                                             see it work on the faces that come with the package
  paseo restore small.png -o out --task sr4              enlarge a file, or a folder, four times
  paseo restore photo.png -o out --task blur --degrade   blur a sharp image first, then restore it
  paseo restore a.png -o out --task sr4 --samples 8      eight draws, their mean and where they disagree
  paseo doctor                                           versions, devices, models that are found

Every verb explains itself with --help, and takes --json FILE (or - for stdout).
"""


ALLOW_CODE = "--allow-code"


class CommandGroup(TyperGroup):
    """Turns our own errors into one line and exit code 2, wherever a verb raises them; knows what was
    typed.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """`--allow-code` may stand anywhere; the words that were typed are the code that may be loaded."""
        end = args.index("--") if "--" in args else len(args)
        rest = [word for i, word in enumerate(args) if word != ALLOW_CODE or i > end]
        ctx.obj = {"words": tuple(args)}
        return super().parse_args(ctx, [ALLOW_CODE, *rest] if len(rest) < len(args) else rest)

    def invoke(self, ctx: Any) -> Any:
        try:
            with polite_end(), for_this_command(ctx.obj["words"]), allowing_code(ctx.params["allow_code"]):
                return super().invoke(ctx)
        except BrokenPipeError:  # `paseo methods | head` is no error of ours
            raise
        except (PaseoError, OSError, ValueError, MemoryError) as error:
            if ctx.params.get("traceback"):
                raise
            hint = "" if isinstance(error, PaseoError) else " (`paseo --traceback …` shows where)"
            what = "not enough memory" if isinstance(error, MemoryError) else type(error).__name__
            say(f"paseo: {' '.join(str(error).split()) or what}{hint}")
            raise typer.Exit(2) from None
        except KeyboardInterrupt as error:
            ended = isinstance(error, Terminated)
            typer.echo(f"paseo: {'terminated' if ended else 'interrupted'}", err=True)
            raise typer.Exit(TERMINATED if ended else INTERRUPTED) from None


app = typer.Typer(
    name="paseo",
    cls=CommandGroup,
    help=HELP,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    traceback: Annotated[bool, typer.Option("--traceback", help="Show where an error arose.")] = False,
    allow_code: Annotated[
        bool,
        typer.Option(
            ALLOW_CODE,
            help="Load Python functions that an operator, a record or a benchmark file names. Anywhere.",
        ),
    ] = False,
) -> None:
    """Options that stand before the verb."""


for _name, _command in {
    "demo": demo.demo,
    "restore": restore.restore,
    "degrade": degrade.degrade,
    "sample": sample.sample,
    "models": models.models,
    "methods": models.methods,
    "check-operator": check_operator.check_operator,
    "reproduce": reproduce.reproduce,
    "tune": tune.tune,
    "ui": page.ui,
    "doctor": doctor.doctor,
}.items():
    app.command(_name)(_command)
app.add_typer(train.app, name="train")
app.add_typer(bench.app, name="bench")


def main() -> None:
    """Entry point of the `paseo` command."""
    try:
        app()
    except MemoryError:  # before a verb was found
        say("paseo: not enough memory to begin")
        raise SystemExit(2) from None
