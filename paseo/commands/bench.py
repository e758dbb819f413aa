"""`paseo bench …`: the verbs that measure."""

from __future__ import annotations

import typer

from paseo.commands import bench_cost

app = typer.Typer(
    help="Measure time, memory and quality.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
app.command("cost")(bench_cost.cost)


@app.callback()
def bench() -> None:
    """Measure time, memory and quality."""
