"""BENCHMARKS.md from finished runs: no figure in it is typed by hand but those of reading.md and
reading-photos.md, which draw the conclusions.

    python benchmarks/page.py --main out/bench --equal out/bench-equal --studies out/studies

STUDIES holds what `paseo reproduce NAME --json STUDIES/NAME.json` wrote and, as NAME.txt, what it printed.
The reports' JSON and CSV files and the studies are copied into benchmarks/results, from where the tables can
be checked without running anything.

    python benchmarks/page.py --main out/bench --earlier

takes methods that the runs leave out from benchmarks/results, and keeps the page's pictures and studies; with
--keep-cost also time and memory of those that the runs have.

    python benchmarks/page.py --photos out/photos

writes the section on photographs anew and leaves the rest of the page as it is (with --earlier as above).
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from earlier import with_earlier
from PIL import Image

from paseo.files import read_json, write_json, write_text
from paseo.lab.bench import aggregate
from paseo.lab.bench.aggregate import Bench
from paseo.lab.bench.config import BenchConfig, load_config
from paseo.lab.bench.plan import make_plan
from paseo.lab.bench.report import cost_json, facts, quality_json, tables, write_report
from paseo.lab.bench.tables import overview_table, rows_csv
from paseo.lab.reproduce import EXPERIMENTS
from paseo.lab.reproduce.main import findings, measured

HERE = Path(__file__).parent
HEAD = """# Benchmarks

Everything here but [the section on photographs](#photographs-the-model-photos) was measured on the embedded \
model `faces-128` with held-out synthetic faces, which no weight and no setting has seen.
A run survives being killed, goes on where it stopped, and gives the same rows in one process, in several, \
or on Ray.

```
{commands}
```

Every baseline uses the true degradation, SILO and PASEO the learned operator, and all of them one prior, \
one codec, one measurement per
image and one counter of denoiser calls. Settings: seven trials per method and task by LPIPS on the same \
validation faces
(`benchmarks/tune.py`; every trial is in [search.json](paseo/models/faces-128/search.json), how many faces \
stood behind it too). PASEO's
structure (P, C, weights, grid) was looked for in more runs than any other method had: some stand there \
under `earlier`, the
[model card](paseo/models/faces-128/README.md) counts the rest.
"""
STUDIES = "## The paper's experiments at this scale"
PHOTOS = "## Photographs: the model `photos`"
COMMANDS = (
    "paseo train faces --help                       # where FACES comes from: any folder or tar of the "
    "synthetic faces",
    "DATA='data={path: FACES, part: test, count: 100}'",
    'paseo bench plan benchmarks/faces-128.yaml -o out/bench --set "$DATA"        '
    "# 79 denoiser calls, PASEO at most 53",
    'paseo bench plan benchmarks/faces-128-equal.yaml -o out/bench-equal --set "$DATA"   '
    "# at most 53 for all",
    "paseo bench run out/bench --shard 0/2 &        # as many processes as cores, or --engine ray",
    "paseo bench run out/bench --shard 1/2",
    "paseo bench report out/bench",
    "paseo reproduce main --set run=out/bench",
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--main", type=Path, help="folder of the run of faces-128.yaml")
    parser.add_argument("--photos", type=Path, help="folder of the run of photos.yaml")
    parser.add_argument("--equal", type=Path, help="folder of the run of faces-128-equal.yaml")
    parser.add_argument(
        "--studies", type=Path, help="folder of NAME.json and NAME.txt of `paseo reproduce NAME`"
    )
    parser.add_argument(
        "--earlier", action="store_true", help="methods that a run leaves out are those of benchmarks/results"
    )
    parser.add_argument(
        "--keep-cost",
        action="store_true",
        help="with --earlier: times stay those of benchmarks/results",
    )
    parser.add_argument("--out", type=Path, default=HERE.parent / "BENCHMARKS.md")
    o = parser.parse_args()
    if o.main is None and o.photos is None:
        parser.error("one of --main and --photos is needed")
    if o.main is not None:
        whole_page(o)
    if o.photos is not None:
        bench = read(o.photos, "photos", o)
        put(o.out, PHOTOS, "\n".join(photographs(bench)), before=STUDIES)
    print(o.out)


def whole_page(o: argparse.Namespace) -> None:
    bench, equal = (
        read(o.main, "main", o),
        read(o.equal or (o.main if o.earlier else None), "equal", o),
    )
    parts = [HEAD.format(commands="\n".join(COMMANDS)), *conditions(bench), "## What holds\n"]
    parts += ["At most 53 denoiser calls for every method:\n", *verdicts(equal)] if equal else []
    parts += [
        "At most 53 for PASEO, 79 for the others:\n",
        *verdicts(bench),
        (HERE / "reading.md").read_text(),
    ]
    parts += ["## All methods\n", *(table.markdown() for table in tables(bench, cost=True))]
    parts += [section(o.out, "### Pictures")] if o.earlier else pictures(o.main, o.out.parent)
    keep(bench, "main")
    if equal:
        parts += ["## At the same number of denoiser calls\n", *conditions(equal)]
        parts += [overview_table(equal, name).markdown() for name in ("lpips", "psnr")]
        parts += [table.markdown() for table in tables(equal, cost=True)[1:]]
        keep(equal, "equal")
    there = o.out.read_text(encoding="utf-8") if o.out.is_file() else ""
    parts += [section(o.out, PHOTOS)] if PHOTOS in there else []
    parts += studies(o.studies) if o.studies else []
    parts += [section(o.out, STUDIES)] if o.earlier and not o.studies else []
    write_text(o.out, "\n".join(parts))


def photographs(bench: Bench) -> list[str]:
    keep(bench, "photos")
    about = (HERE / "reading-photos.md").read_text().replace("COUNT", str(bench.config.data.count))
    parts = [f"{PHOTOS}\n", about, *conditions(bench), overview_table(bench, "psnr").markdown()]
    return [*parts, *(table.markdown() for table in tables(bench, cost=True))]


def put(page: Path, title: str, text: str, before: str) -> None:
    """The section with that title: in place of what is there, else before another, else at the end."""
    whole, text = page.read_text(encoding="utf-8"), text.rstrip()
    if title in whole:
        whole = whole.replace(section(page, title).rstrip(), text)
    elif before in whole:
        whole = whole.replace(before, f"{text}\n\n{before}", 1)
    else:
        whole = f"{whole.rstrip()}\n\n{text}\n"
    write_text(page, whole)


def read(run: Path | None, name: str, o: argparse.Namespace) -> Bench | None:
    """A run, with what was kept of an earlier one if that is wanted; PASEO's rows serve both tables."""
    if run is None:
        return None
    bench = aggregate.load(run)
    files = {"main": "faces-128.yaml", "equal": "faces-128-equal.yaml", "photos": "photos.yaml"}
    config = load_config(HERE / files[name])
    config = config.model_copy(update={"data": bench.config.data})
    if not o.earlier:
        return bench
    if name == "equal" and o.equal is None:  # the other table's run
        bench = same_budget(bench, config)
    return with_earlier(bench, HERE / "results" / name, config, make_plan(config).cells, o.keep_cost)


def same_budget(bench: Bench, config: BenchConfig) -> Bench:
    """Of a run only the methods with as many denoiser calls as the table gives them."""
    budgets = {spec.label: spec.budget for spec in config.methods}
    fits = {spec.label for spec in bench.config.methods if budgets.get(spec.label) == spec.budget}
    return replace(
        bench,
        cells=tuple(cell for cell in bench.cells if cell.method in fits),
        rows=tuple(row for row in bench.rows if row["method"] in fits),
        summaries={key: s for key, s in bench.summaries.items() if key[1] in fits},
    )


def section(page: Path, title: str) -> str:
    """From a heading of the page as it is to the next of its own or a higher rank."""
    lines = page.read_text(encoding="utf-8").splitlines()
    first, rank = lines.index(title), title.index(" ")
    heads = [i for i, line in enumerate(lines) if i > first and 0 < line.find("# ") + 1 <= rank]
    heads = [i for i in heads if lines[i].startswith("#")]
    return "\n".join(lines[first : heads[0] if heads else None]).rstrip() + "\n"


def conditions(bench: Bench) -> list[str]:
    return [*(f"- {line}" for line in facts(bench, cost=True)), ""]


def verdicts(bench: Bench) -> list[str]:
    """What was hoped for and whether it came."""
    return ["```", *(f.line() for f in findings(bench, measured(bench))), "```\n"]


def pictures(run: Path, root: Path) -> list[str]:
    """The grids of the report as JPEG files in docs/images."""
    found = []
    for name, path in (
        (p.stem, p) for p in sorted((write_report(run)["markdown"].parent / "grids").glob("*.png"))
    ):
        target = root / "docs" / "images" / f"bench-{name}.jpg"
        Image.open(path).convert("RGB").save(target, quality=88)
        found.append(
            f"![{name}: the faces on which PASEO does best, every method on the same "
            f"ones](docs/images/{target.name})\n"
        )
    return [
        "### Pictures\n",
        "The faces with PASEO's lowest LPIPS among those that every method has, by the paper's rule; not a "
        "random choice.\n",
        *found,
    ]


def keep(bench: Bench, name: str) -> None:
    target = HERE / "results" / name
    write_text(target / "rows.csv", rows_csv(bench))
    write_json(target / "quality.json", quality_json(bench))
    write_json(target / "cost.json", cost_json(bench))


def without_paths(found: Any) -> Any:
    """The same without the folders of this machine."""
    if isinstance(found, dict):
        return {key: without_paths(value) for key, value in found.items() if key != "work"}
    if isinstance(found, list):
        return [without_paths(value) for value in found]
    return Path(found).name if isinstance(found, str) and found.startswith("/") else found


def studies(folder: Path) -> list[str]:
    """The paper's other experiments: what they printed."""
    parts = [
        f"{STUDIES}\n",
        "Each is `paseo reproduce NAME`; our figures beside the paper's.\n",
    ]
    target = HERE / "results" / "studies"
    target.mkdir(parents=True, exist_ok=True)
    for name, text in EXPERIMENTS.items():
        if name == "main" or not (folder / f"{name}.txt").is_file():
            continue
        write_json(target / f"{name}.json", without_paths(read_json(folder / f"{name}.json")))
        printed = (folder / f"{name}.txt").read_text().rstrip()
        parts += [f"### {name}: {text}\n", f"```\n{printed}\n```\n"]
    return parts


if __name__ == "__main__":
    main()
