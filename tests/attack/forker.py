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

    def broken(self, words: list[Any], seconds: float, kills: int, rng: random.Random) -> int:
        """Kill it that many times at random moments of `seconds`, then let it end; how many met it alive."""
        met = 0
        for _ in range(kills):
            pid = self.start(words)
            if self.ended(rng.uniform(0.02, 0.9) * seconds) is None:
                os.kill(pid, 9)
                met += 1
                assert self.ended() == -9
            assert "Traceback" not in self.told.read_text()
        self.unbroken(words)
        return met

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def child(words: list[str], told: str) -> int:
    for number, target in ((0, os.devnull), (1, os.devnull), (2, told)):
        os.dup2(os.open(target, os.O_RDWR | os.O_CREAT | os.O_TRUNC), number)
    from paseo.apps.cli.main import app

    try:
        app(words)
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
