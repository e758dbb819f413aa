"""The COCO comparison: every method of the paper's two tables, with all published columns.

    paseo reproduce coco --set model=stabilityai/stable-diffusion-3.5-medium --set preset=coco/sd35 \\
        --set data=val2017 --set part=all --set operators=OPERATORS
    paseo reproduce coco --set run=out/bench          reads a finished run of benchmarks/coco-sd35.yaml

"paper full" has the baselines at 145 or 295 denoiser calls, "paper matched" the flow baselines at PASEO's
97 or 197. On an embedded model the same methods run at the settings kept for it.
"""

from __future__ import annotations

from paseo.lab.reproduce import main
from paseo.lab.reproduce.main import Options
from paseo.lab.reproduce.variants import Study

__all__ = ["Options", "run"]

METHODS = ("paseo", "resample", "daps", "red-diff", "flow-dps", "flow-chef", "pnp-flow", "psld")
TABLES = {"paper full": ("coco", "full"), "paper matched": ("coco", "matched")}


def run(o: Options) -> Study:
    return main.compare(o, "coco", METHODS, TABLES, "The COCO comparison")
