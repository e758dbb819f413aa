"""Pictures per minute of a folder: one by one, and in passes of pictures of one size.

    python benchmarks/folder.py --pictures 500 --size 256 --steps 28 --threads 2 --json out/folder.json

Every way runs in a process of its own on the same pictures and reports wall and processor time of the
restorations, without start-up and loading, and the peak of its memory. `--shards 2` also runs two processes
of one thread each, half of the pictures for each: on two cores the way to the highest throughput.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from paseo.images import fit_square, read, to_pil
from paseo.models import ROOT


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--pictures", type=int, default=24)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--task", default="jpeg")
    parser.add_argument("--model", default="auto")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--batch", nargs="*", default=["1", "auto"])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", help=argparse.SUPPRESS)  # a way, in a process of its own
    given = parser.parse_args()
    if given.one:
        print(json.dumps(_run(given, json.loads(given.one))))
        return
    with tempfile.TemporaryDirectory() as folder:
        _pictures(Path(folder) / "in", given.pictures, given.size)
        rows = [_way(given, Path(folder), batch, shards=1) for batch in given.batch]
        if given.shards > 1:
            rows += [_way(given, Path(folder), batch, given.shards) for batch in given.batch]
    first = rows[0]
    for row in rows:
        row["gain"] = round(row["a_minute"] / first["a_minute"], 3)
        row["gain_cpu"] = round(first["cpu_seconds"] / row["cpu_seconds"], 3)
        print(json.dumps(row))
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps({"settings": _settings(given), "rows": rows}, indent=2))


def _settings(given: argparse.Namespace) -> dict[str, Any]:
    names = ("pictures", "size", "steps", "task", "model", "threads")
    return {name: vars(given)[name] for name in names}


def _pictures(folder: Path, count: int, size: int) -> None:
    """The sample faces at any size, each with a grain of its own."""
    folder.mkdir(parents=True)
    samples = sorted((ROOT / "faces-128" / "samples").glob("*.jpg"))
    for i in range(count):
        pixels = np.asarray(to_pil(fit_square(read(samples[i % len(samples)]).rgb, size)), dtype=np.int16)
        grain = np.random.default_rng(i).integers(-3, 4, pixels.shape)
        Image.fromarray((pixels + grain).clip(0, 255).astype(np.uint8)).save(folder / f"{i:04d}.png")


def _way(given: argparse.Namespace, folder: Path, batch: str, shards: int) -> dict[str, Any]:
    """All shards of one way at the same time."""
    threads = str(max(1, given.threads // shards))
    commands = [
        [sys.executable, __file__, *sys.argv[1:], "--one", json.dumps([str(folder), batch, i, shards])]
        for i in range(shards)
    ]
    env = {**os.environ, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
    running = [subprocess.Popen(c, stdout=subprocess.PIPE, env=env, text=True) for c in commands]
    rows = [json.loads(process.communicate()[0].splitlines()[-1]) for process in running]
    wall = max(row["seconds"] for row in rows)
    done = sum(row["done"] for row in rows)
    return {
        "batch": batch,
        "processes": shards,
        "done": done,
        "seconds": round(wall, 2),
        "cpu_seconds": round(sum(row["cpu"] for row in rows), 2),
        "a_minute": round(60 * done / wall, 3),
        "peak_mb": max(row["peak_mb"] for row in rows),
        "half_mb": max(row["half_mb"] for row in rows),
    }


def _run(given: argparse.Namespace, way: list[Any]) -> dict[str, Any]:
    """One process: its part of the pictures through `Folder`, as the command line does."""
    from paseo.apps.cli.restore import batches
    from paseo.apps.folder import Folder
    from paseo.apps.inputs import collect
    from paseo.apps.job import Plan, Restoration
    from paseo.recipe import Request, resolve

    folder, batch, index, shards = way
    draws, together = batches(batch, 1)
    recipe = resolve(Request(model=given.model, task=given.task, steps=given.steps))
    work = Restoration(Plan(recipe, batch=draws, together=together))
    work.load()
    jobs = collect([Path(folder) / "in"], Path(folder) / f"out-{batch}-{shards}")[index::shards]
    half: list[int] = []

    def notice(result: dict[str, Any]) -> None:
        if not half and 2 * run.outcome.count("done") >= len(jobs):
            half.append(_peak())

    run = Folder(work, notice=notice, keep=False)
    wall, cpu = time.perf_counter(), time.process_time()
    outcome = run(jobs, len(jobs))
    spent = time.perf_counter() - wall, time.process_time() - cpu
    return {
        "done": outcome.count("done"),
        "seconds": spent[0],
        "cpu": spent[1],
        "peak_mb": _peak(),
        "half_mb": half[0] if half else _peak(),
    }


def _peak() -> int:
    """Peak of resident memory so far, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    main()
