"""`paseo bench plan | run | report | cost`: measured comparisons that can be stopped, shared out and
repeated.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paseo.apps.cli import bench_cost
from paseo.apps.console import JsonOption, emit, progress, say

app = typer.Typer(
    help="Compare methods on many images: plan, run in one process or many, report.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
Folder = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of the run.")]


@app.command("plan")
def plan(
    config: Annotated[
        Path, typer.Argument(metavar="CONFIG", help="A YAML file: model, data, tasks, methods, seeds.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder of the run.")],
    assignments: Annotated[
        list[str] | None, typer.Option("--set", metavar="A.B=C", help="Change a field of the file.")
    ] = None,
    json: JsonOption = None,
) -> None:
    """Write what is to be computed: one line per image, task, method and seed.

    \b
      paseo bench plan faces.yaml -o runs/faces
      paseo bench plan faces.yaml -o runs/small --set data.count=4 --set methods.0.budget=25

    Planning again into the same folder keeps every result that the new plan still asks for.
    """
    from paseo.lab.bench.config import load_config
    from paseo.lab.bench.plan import make_plan, write

    made = make_plan(load_config(config, assignments or []))
    summary = made.summary(write(made, out))
    lines = [f"{out}: {summary['cells']} cells, {summary['done']} of them done"]
    lines += [
        f"  {task}, {label}: n/a. {reason}"
        for task, methods in made.unsupported.items()
        for label, reason in methods.items()
    ]
    emit(json, summary, "\n".join(lines))


@app.command("run")
def run(
    folder: Folder,
    engine: Annotated[str, typer.Option(help="local: this process. ray: a Ray cluster.")] = "local",
    shard: Annotated[
        str | None, typer.Option(metavar="I/N", help="Part I of N, from 0; torchrun and SLURM arrays set it.")
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(help="Ray: address of a running cluster, or auto; otherwise one is started here."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Ray: CPUs of the cluster that is started here.")
    ] = None,
    cpus: Annotated[float, typer.Option(min=0.01, help="Ray: CPUs that one unit of work takes.")] = 1.0,
    gpus: Annotated[
        float, typer.Option(min=0.0, help="Ray: GPUs that one unit of work takes; 0.5 lets two share one.")
    ] = 0.0,
    json: JsonOption = None,
) -> None:
    """Compute what the plan asks for and is not done. Stop it at any time: the same command goes on.

    \b
      paseo bench run runs/faces
      paseo bench run runs/faces --shard 0/2 & paseo bench run runs/faces --shard 1/2
      torchrun --nproc-per-node 8 -m paseo bench run runs/faces
      sbatch --array 0-15 --wrap "paseo bench run runs/faces"
      paseo bench run runs/faces --engine ray --address auto --gpus 1

    A cell that fails is recorded in RUN/failures and the others go on; the exit code is then 1.
    """
    from paseo.cluster import RayOptions
    from paseo.errors import BadInput
    from paseo.lab.bench.cells import read_plan, units
    from paseo.lab.bench.run import Shard
    from paseo.lab.bench.run import run as compute

    if engine not in ("local", "ray"):
        raise BadInput(f"--engine {engine} is not one of local, ray.")
    part = Shard.parse(shard)
    total = sum(len(u) for i, u in enumerate(units(read_plan(folder))) if i % part.count == part.index)
    with progress(total, "bench", "cell") as bar:
        options = RayOptions(address, workers, cpus, gpus)
        outcome = compute(folder, "ray" if engine == "ray" else "local", part, bar.update, options)
    failed = f", {outcome.failed} failed (see {folder / 'failures'})" if outcome.failed else ""
    emit(json, outcome.as_json(), f"{outcome.done} cells computed, {outcome.skipped} were done{failed}")
    raise typer.Exit(1 if outcome.failed else 0)


@app.command("report")
def report(
    folder: Folder,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Where to write; RUN/report otherwise.")
    ] = None,
    cost: Annotated[
        bool, typer.Option(help="Seconds and memory; without them the files depend on the results alone.")
    ] = True,
    json: JsonOption = None,
) -> None:
    """Tables, intervals, charts and picture grids of what is there: Markdown, CSV, JSON and one HTML page."""
    from paseo.lab.bench import aggregate
    from paseo.lab.bench.report import quality_json, write_report
    from paseo.lab.bench.tables import overview_table

    written = write_report(folder, out, cost=cost)
    bench = aggregate.load(folder)
    if not bench.complete:
        say(f"{len(bench.rows)} of {len(bench.cells)} cells are done; the rest is missing from these tables.")
    emit(
        json,
        quality_json(bench),
        overview_table(bench).markdown() + "\n" + "\n".join(str(path) for path in written.values()),
    )


app.command("cost")(bench_cost.cost)
