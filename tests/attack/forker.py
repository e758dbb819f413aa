"""Commands of `paseo` in children of a process that has everything imported: a kill meets them at work, not
while they load torch, and a hundred kills take minutes.

    python forker.py     a JSON list of words per line in; the child's number, then its exit code out
"""

from __future__ import annotations

import json
import os
import random
import select
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Runner:
    """One such process; a command at a time."""

    def __init__(self, told: Path) -> None:
        self.told = told  # what the last command wrote to stderr
        words = [sys.executable, __file__, str(told)]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def start(self, words: list[Any]) -> int:
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps([str(word) for word in words]).encode() + b"\n")
        stdin.flush()
        return int(stdout.readline())

    def ended(self, seconds: float | None = None) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        stdout = self.process.stdout
        assert stdout is not None
        ready, _, _ = select.select([stdout], [], [], seconds)
        return int(stdout.readline()) if ready else None

    def unbroken(self, words: list[Any]) -> float:
        """Run to the end; how long it took."""
        begun = time.monotonic()
        self.start(words)
        assert self.ended() == 0, self.told.read_text()
        return time.monotonic() - begun

    def broken(
        self,
        words: Callable[[], list[Any]],
        seconds: float,
        kills: int,
        rng: random.Random,
        at_end: Callable[[], None],
    ) -> None:
        """Kill it that many times at random moments of `seconds`. Whenever it came to its end, `at_end` looks
        at what is there and clears it away, and it begins anew.
        """
        met = 0
        while met < kills:
            pid = self.start(words())
            code = self.ended(rng.uniform(0.02, 0.9) * seconds)
            if code is None:
                os.kill(pid, 9)
                code = self.ended()
            assert code in (0, -9), self.told.read_text()
            assert "Traceback" not in self.told.read_text()
            met += code == -9
            if code == 0:
                at_end()
        self.unbroken(words())
        at_end()

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def child(words: list[str], told: str) -> int:
    for number, target in ((0, os.devnull), (1, os.devnull), (2, told)):
        os.dup2(os.open(target, os.O_RDWR | os.O_CREAT | os.O_TRUNC), number)
    from paseo.apps.cli.main import main

    sys.argv = ["paseo", *words]
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    except BaseException:
        traceback.print_exc()
        return 99
    return 0


def serve(told: str) -> None:
    import accelerate  # noqa: F401
    import optuna  # noqa: F401

    import paseo.apps.job
    import paseo.apps.runs
    import paseo.lab.bench.run
    import paseo.train.codec
    import paseo.train.operator
    import paseo.train.prior  # noqa: F401

    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            os._exit(child(json.loads(line), told))
        print(pid, flush=True)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    serve(sys.argv[1])
