"""A folder of pictures on many machines: worker k of n takes every n-th file. No worker waits for another.

    python examples/cluster.py IMAGES --out OUT --workers 2 --worker 0
    srun --ntasks 8 python examples/cluster.py IMAGES --out SHARED          (Slurm tells each its number)

This is `paseo restore IMAGES -o OUT --task sr4 --skip-existing --shard k/n`. Seeds belong to pictures, so
that any number of workers gives the same files; a worker that is started again skips what is there,
sub-folders are kept, and a file that cannot be read is reported in failures.jsonl while the others go on.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from paseo.models import ROOT


def main(
    folder: Path, out: Path, worker: int, workers: int, task: str = "sr4", steps: int | None = None
) -> int:
    command = [sys.executable, "-m", "paseo", "restore", str(folder), "-o", str(out), "--task", task]
    command += ["--skip-existing", "--shard", f"{worker}/{workers}"]
    command += [] if steps is None else ["--set", f"steps={steps}"]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "faces-128/samples")
    parser.add_argument("--out", type=Path, default=Path("out"))
    parser.add_argument("--worker", type=int, default=int(os.environ.get("SLURM_PROCID", "0")))
    parser.add_argument("--workers", type=int, default=int(os.environ.get("SLURM_NTASKS", "4")))
    parser.add_argument("--task", default="sr4", help="what happened to the pictures")
    parser.add_argument("--steps", type=int, help="time points; fewer are faster and worse")
    sys.exit(main(**vars(parser.parse_args())))
